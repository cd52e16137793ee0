"""The web page for the depots. It reads the ledger and nothing else."""
