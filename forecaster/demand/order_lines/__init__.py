"""Deduplication of orders and order lines, and detection of incomplete days in a batch."""
