"""Content of each page, computed before a template renders it."""
