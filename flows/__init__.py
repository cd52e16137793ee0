"""The nights: Prefect orders the stages, and nothing else knows Prefect."""
