"""Synthetic data, the Harbor Fleet sample: daily orders of a simulated fleet, with the flaws of a
real feed."""
