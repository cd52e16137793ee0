"""May the candidate go out? NumPy alone."""
