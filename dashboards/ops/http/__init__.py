"""Answers over HTTP: rendering, caching, refreshing, headers."""
