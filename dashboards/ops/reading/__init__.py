"""Reads the ledger for the page: publications, the last run, what-if questions."""
