"""Data validation: the contract of a row, the checks beside the history, and the quarantine."""
