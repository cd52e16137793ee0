"""New models that are tried at some depots before one forecasts for all."""
