"""Block bootstrap over weeks: the range that a sum over weeks could have had, were the weeks drawn
again.

Circular blocks (Politis & Romano 1992, "A circular block-resampling procedure for stationary data";
Künsch 1989): of n weeks, blocks of b = ⌈n^(1/3)⌉ neighbouring ones are drawn with replacement, the
last week being followed by the first, until n weeks are together, of which the sum is taken. Of
2,000 such sums the range is from the 5 % quantile to that of 95 %.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from forecaster.core.arrays import Doubles

LEAST_WEEKS = 4  # below which nothing is said
DRAWS = 2000
LEVELS = (0.05, 0.95)


def block_length(weeks: int) -> int:
    """⌈n^(1/3)⌉ weeks."""
    return math.ceil(round(math.cbrt(weeks), 9))


def ranges(sums: Doubles) -> Doubles | None:
    """The ends of each quantity's range, (2, quantities), from its sums of each week, (weeks,
    quantities); None where the weeks are too few."""
    if len(sums) < LEAST_WEEKS:
        return None
    ends: Doubles = np.quantile(_times_drawn(len(sums)) @ sums, LEVELS, axis=0)
    return ends


@lru_cache(maxsize=64)
def _times_drawn(weeks: int) -> Doubles:
    """Number of times each week is in each draw, (draws, weeks); the same each time."""
    block = block_length(weeks)
    starts = np.random.default_rng(0).integers(weeks, size=(DRAWS, -(-weeks // block)))
    drawn = ((starts[:, :, None] + np.arange(block)) % weeks).reshape(DRAWS, -1)[:, :weeks]
    cells = (np.arange(DRAWS)[:, None] * weeks + drawn).ravel()
    counts: Doubles = np.bincount(cells, minlength=DRAWS * weeks).reshape(DRAWS, weeks).astype(float)
    return counts
