"""From what was known at one instant to dense arrays: grid, calendar, events, covariates, opening days."""
