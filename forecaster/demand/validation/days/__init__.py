"""Notation of days: the forms that are tried, and the order of day, month and year."""
