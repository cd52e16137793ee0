"""The nights: Prefect orders the steps, and nothing else knows Prefect."""
