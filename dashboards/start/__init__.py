"""Guide in the browser (`forecaster start`): from a file to forecasts, in five steps of plain
forms."""
