"""Training from a panel to an admitted bundle: fit, backtest, gate, export with its parity check,
and the record of the run."""
