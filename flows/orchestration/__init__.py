"""Flow runs of nights, and the processes and hosts that share their work."""
