"""Days whose count is a lower bound of demand: those that are declared, and those that look so."""
