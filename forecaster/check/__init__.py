"""Dry run of a pipeline file, and its report on the screen and as a page."""
