"""Probability integral transform (PIT) of counts under forecast quantiles, as normal scores.

If forecasts are right, F(y) of the actuals is uniform and its normal score z = Φ⁻¹(F(y)) standard
normal (Dawid 1984; Diebold, Gunther & Tay 1998, "Evaluating density forecasts"). F already contains
season, holidays and the size of a depot, so that scores of all depots and days are comparable;
above zero, actuals exceed the forecast. Counts have jumps: their score is that of the middle of the
jump, (F(y − ½) + F(y + ½)) / 2, the non-randomized PIT of Czado, Gneiting & Held 2009, "Predictive
model assessment for count data".
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from forecaster.core.arrays import Doubles

FARTHEST = 3.0  # limit of a single day's score
_normal = NormalDist()
_cdf = np.vectorize(_normal.cdf, otypes=[float])
_inverse = np.vectorize(_normal.inv_cdf, otypes=[float])


def pit_scores(actual: Doubles, quantiles: Doubles, levels: Sequence[float]) -> Doubles:
    """Normal scores (days,) of actuals (days,) under the quantiles (days, levels), between -3 and
    3.

    Between two quantiles the score is linear in the count; beyond the outer ones it is extrapolated
    by their distance from the median. NaN if a count or any quantile is unknown. If all counts are
    whole numbers, each is taken as the middle of its jump. Raises ValueError if `levels` are not
    rising, lack 0.5 or are fewer than three.
    """
    if len(levels) < 3 or list(levels) != sorted(set(levels)) or 0.5 not in levels:
        raise ValueError(f"levels: found {tuple(levels)}, wanted three or more that rise, with 0.5")
    is_known = np.isfinite(actual) & np.isfinite(quantiles).all(axis=1)
    scores = np.full(len(actual), np.nan)
    if not is_known.any():
        return scores
    counts, ordered = actual[is_known].astype(float), np.sort(quantiles[is_known].astype(float), axis=1)
    half = 0.5 if bool((counts == np.rint(counts)).all()) else 0.0
    above = _cdf(_position(counts + half, ordered, levels, ties_above=True))
    below = _cdf(_position(counts - half, ordered, levels, ties_above=False))
    below = np.where(counts <= 0, 0.0, below)  # nothing is below zero orders
    shares = np.clip((above + below) / 2, _normal.cdf(-FARTHEST), _normal.cdf(FARTHEST))
    scores[is_known] = _inverse(shares)
    return scores


def _position(values: Doubles, quantiles: Doubles, levels: Sequence[float], *, ties_above: bool) -> Doubles:
    """Φ⁻¹(F(value)), (days,); a value on several equal quantiles is placed above all of them, or
    below."""
    at = np.array([_normal.inv_cdf(level) for level in levels])
    rows, last, middle = np.arange(len(values)), len(levels) - 1, list(levels).index(0.5)
    passed = (quantiles <= values[:, None]) if ties_above else (quantiles < values[:, None])
    place = passed.sum(axis=1)
    lower, upper = np.clip(place - 1, 0, last - 1), np.clip(place, 1, last)
    start, width = quantiles[rows, lower], quantiles[rows, upper] - quantiles[rows, lower]
    slope = np.divide(at[upper] - at[lower], width, out=np.zeros_like(width), where=width > 0)
    position = at[lower] + (values - start) * slope
    for outer, end, sign in ((place == 0, 0, -1.0), (place > last, last, 1.0)):
        reach = np.abs(quantiles[:, end] - quantiles[:, middle])
        beyond = np.abs(values - quantiles[:, end])
        steps = np.divide(abs(at[end]) * beyond, reach, out=np.full_like(reach, FARTHEST), where=reach > 0)
        position = np.where(outer, at[end] + sign * steps, position)
    clipped: Doubles = np.clip(position, -FARTHEST, FARTHEST)
    return clipped
