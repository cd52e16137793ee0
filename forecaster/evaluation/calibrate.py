"""Widen or narrow the quantiles until they hold what they promise, on days that training did not see.

Split-conformal calibration in its multiplicative form (Romano, Patterson & Candès 2019, arXiv:1905.03222, with the
distance to the median as the scale): for each level, the factor on its distance to the median, in log counts, with
which the level's share of held-out actuals lies below it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forecaster.values import Floats, Fold

ENOUGH = 50  # depot-days; with fewer the quantiles stay as they are
NARROWEST, WIDEST = 0.3, 5.0


def factors(folds: Sequence[Fold]) -> Floats:
    """Factor (levels,) for each level's distance to the median in log counts; 1 leaves it alone."""
    levels = folds[0].forecast.levels
    middle = levels.index(0.5)
    known = np.concatenate([np.isfinite(fold.actuals).ravel() for fold in folds])
    if known.sum() < ENOUGH:
        return np.ones(len(levels), np.float32)
    log = np.log1p(np.concatenate([fold.forecast.quantiles.reshape(-1, len(levels)) for fold in folds])[known])
    actual = np.log1p(np.concatenate([fold.actuals.ravel() for fold in folds])[known])
    found = np.ones(len(levels), np.float32)
    for index, level in enumerate(levels):
        reach = np.abs(log[:, index] - log[:, middle])
        usable = reach > 1e-6
        if index == middle or not usable.sum() >= ENOUGH:
            continue
        side = 1.0 if level > 0.5 else -1.0
        needed = side * (actual - log[:, middle])[usable] / reach[usable]
        found[index] = np.clip(np.quantile(needed, max(level, 1 - level)), NARROWEST, WIDEST)
    return _uncrossed(found, np.abs(log - log[:, [middle]]).mean(axis=0), middle)


def _uncrossed(factor: Floats, reach: Floats, middle: int) -> Floats:
    """Factors with which the mean distances still grow away from the median."""
    distance = factor * reach
    out = np.maximum.accumulate(distance[middle:])
    down = np.maximum.accumulate(distance[middle::-1])[::-1]
    grown = np.concatenate([down, out[1:]])
    return np.where(reach > 1e-6, grown / np.maximum(reach, 1e-6), 1.0).astype(np.float32)
