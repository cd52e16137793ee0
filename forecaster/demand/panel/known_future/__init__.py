"""Covariates that are known ahead: their values, the usual ones in place of others, and forecasts
held back."""
