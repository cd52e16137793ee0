"""API for notebooks: an estimator for data frames, and a pipeline's results as frames."""
