"""Shifts of a day: their crews, and which of them stay as they are published."""
