"""Bitemporal history of readings: versions, former ids, and point-in-time reads."""
