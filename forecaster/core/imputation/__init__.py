"""Estimates of counts that are not known: the past of new depots, and demand of capped days."""
