"""Block bootstrap over weeks: confidence ranges of sums over weeks.

Circular blocks (Politis & Romano 1992, "A circular block-resampling procedure for stationary data";
Künsch 1989): of n weeks, blocks of b = ⌈n^(1/3)⌉ consecutive ones are drawn with replacement, the
last week being followed by the first, until n weeks are drawn, which are summed. The range is from
the 5 % to the 95 % quantile of 2,000 such sums.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from forecaster.core.arrays import Doubles

LEAST_WEEKS = 4  # minimum number of weeks for a range
DRAWS = 2000
LEVELS = (0.05, 0.95)


def block_length(weeks: int) -> int:
    """Block length in weeks, ⌈n^(1/3)⌉."""
    return math.ceil(round(math.cbrt(weeks), 9))


def ranges(sums: Doubles) -> Doubles | None:
    """Ends of each quantity's range, (2, quantities), from its weekly sums, (weeks, quantities);
    None if there are too few weeks."""
    if len(sums) < LEAST_WEEKS:
        return None
    ends: Doubles = np.quantile(_times_drawn(len(sums)) @ sums, LEVELS, axis=0)
    return ends


@lru_cache(maxsize=64)
def _times_drawn(weeks: int) -> Doubles:
    """Number of times each draw contains each week, (draws, weeks); deterministic."""
    block = block_length(weeks)
    starts = np.random.default_rng(0).integers(weeks, size=(DRAWS, -(-weeks // block)))
    week_indices = ((starts[:, :, None] + np.arange(block)) % weeks).reshape(DRAWS, -1)[:, :weeks]
    cells = (np.arange(DRAWS)[:, None] * weeks + week_indices).ravel()
    counts: Doubles = np.bincount(cells, minlength=DRAWS * weeks).reshape(DRAWS, weeks).astype(float)
    return counts
