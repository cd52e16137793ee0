"""Morning digests through Prefect's notification blocks: who is due for one, sent once, and what
could not be sent."""
