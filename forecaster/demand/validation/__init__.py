"""Data validation: the contract of a row, outlier detection against the history, and the
quarantine."""
