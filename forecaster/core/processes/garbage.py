"""Garbage collection of a command: infrequent, because its imports stay until it ends."""

from __future__ import annotations

import gc

USUAL = (700, 10, 10)
"""Python's own thresholds, for long-running processes."""
SELDOM = (100_000, 10, 10)


def look_seldom() -> None:
    """Collect cycles after 100,000 new objects instead of 700: collection took a fifth of the
    processor time in which a night imports JAX, MLflow and Prefect."""
    gc.set_threshold(*SELDOM)
