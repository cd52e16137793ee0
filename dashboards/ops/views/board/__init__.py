"""Content of the board of the coming week: the depot-days to decide about, and prices of crews."""
