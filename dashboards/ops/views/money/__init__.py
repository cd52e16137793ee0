"""What rosters cost and saved, and what forecasts cost: the page and the rows of the API."""
