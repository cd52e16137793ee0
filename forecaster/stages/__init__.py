"""The stages of a night as plain functions: read, compute with the core, write."""
