"""Flow runs, and the processes and hosts that share their work."""
