"""Publications that no memory holds whole."""
