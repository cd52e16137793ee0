"""Judgmental adjustment of forecasts: planners' overrides, what-if scenarios, and the value that
overrides added."""
