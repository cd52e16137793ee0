"""Orders by the half hours of the local clock, which tell how the orders of a day fall on
shifts."""
