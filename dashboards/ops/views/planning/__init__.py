"""What planners see: a day to ask about and to override, and the book of overrides."""
