"""Estimates of unknown counts: the past of new depots, and the demand of capped days."""
