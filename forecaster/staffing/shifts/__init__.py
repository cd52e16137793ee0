"""Shifts of a day: their crews, which of them stay as they are published, and what they would have
cost."""
