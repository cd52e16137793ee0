"""Judgmental adjustment of forecasts: planners' overrides, what-if scenarios, and the forecast
value that overrides add."""
