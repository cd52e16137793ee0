"""Game days: break a running installation on purpose, and check its alerts and its forecast."""
