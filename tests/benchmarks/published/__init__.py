"""Forecasting tasks with published scores, rebuilt from local data, and our model's results among
the published ones."""
