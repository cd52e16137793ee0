"""Prefect beside the work: its flow and tasks follow a line that waits for none of them."""
