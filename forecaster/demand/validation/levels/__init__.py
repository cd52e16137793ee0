"""Levels of counts: what a shift of a depot to another one means."""
