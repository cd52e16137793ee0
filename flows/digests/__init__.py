"""Morning digests through Prefect's notification blocks: due receivers, one delivery each, and
failures."""
