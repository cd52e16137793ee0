"""From a panel to an admitted bundle: fit, backtest, gate, export and its parity, and the record of
the run."""
