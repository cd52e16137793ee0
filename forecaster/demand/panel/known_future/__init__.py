"""Known-future covariates: their values, the usual values that replace others, and held-back
forecasts."""
