"""Days whose count is a lower bound of demand: declared ones and suspected ones."""
