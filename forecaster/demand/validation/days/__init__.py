"""How days are written: the forms that are tried, and the order of day, month and year."""
