"""Data pipeline from a source to a panel: ingestion, validation, point-in-time history, feature
engineering."""
