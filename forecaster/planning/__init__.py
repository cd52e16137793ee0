"""Planners' numbers: overrides, what-if, and what both were worth."""
