"""Cost and savings of rosters, and cost of forecasts: the page and the rows of the API."""
