"""Forecasting tasks that others published scores of, rebuilt from data at hand, and our model's line among theirs."""
