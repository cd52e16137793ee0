"""Supervision of what one machine runs: parts that are started again, and the units of systemd that
start them."""
