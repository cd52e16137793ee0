"""What a notebook needs: an estimator of data frames and a pipeline's results as frames, a few
lines over the wings."""
