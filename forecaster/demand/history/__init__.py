"""Bitemporal history of readings: versions, former ids, and point-in-time reads of what was
known."""
