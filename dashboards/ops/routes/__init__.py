"""The addresses of the page and of its API."""
