"""Outcome of a run: its troubles, its verdict and its facts."""
