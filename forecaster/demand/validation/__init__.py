"""Data validation: the contract of a row, outlier detection beside the history, and the
quarantine."""
