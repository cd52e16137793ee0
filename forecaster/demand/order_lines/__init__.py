"""Rows that are orders, or their lines: which of them are the same, and whether a batch has all of
a day."""
