"""The routes of the page and of its API."""
