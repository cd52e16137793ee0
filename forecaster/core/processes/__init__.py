"""Processes that work for another one: that they end with it, and what they use."""
