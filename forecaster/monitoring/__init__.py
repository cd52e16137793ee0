"""Measurements and service level objectives of the product, for Prometheus, the command line and
the page; all from the ledger."""
