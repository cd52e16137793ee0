"""Trials of new models at some depots before one forecasts for all."""
