"""Evaluation: metrics, rolling-origin backtest, calibration, significance and the promotion gate.
NumPy alone."""
