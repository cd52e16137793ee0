"""Garbage collection of a command: looked for seldom, as what it imports stays until it ends."""

from __future__ import annotations

import gc

USUAL = (700, 10, 10)
"""Python's own thresholds, for whoever goes on for months."""
SELDOM = (100_000, 10, 10)


def look_seldom() -> None:
    """Look for cycles of values after 100,000 new ones instead of 700: a fifth of the processor
    time in which a night imports JAX, MLflow and Prefect went into looking through what they had
    made."""
    gc.set_threshold(*SELDOM)
