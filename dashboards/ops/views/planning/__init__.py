"""Views for planners: a day with its what-if and override, and the list of overrides."""
