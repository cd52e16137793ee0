"""Data validation: the contract of a row, outlier detection next to the history, and the
quarantine."""
