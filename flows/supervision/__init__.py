"""Supervision on one machine: parts that are restarted, and the systemd units that start them."""
