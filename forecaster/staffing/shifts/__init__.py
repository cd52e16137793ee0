"""Shifts of a day: their crews, which of them stay as published, and their costs in hindsight."""
