"""The usual value of a covariate, which replaces missing values and values far outside its history.

Usual is the median of the same weekdays of the season a year and two years ago, else of the last
eight weeks, else of the depot's known days.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Floats

SEASON = (*range(50, 55), *range(102, 107))  # weeks ago
RECENT = tuple(range(1, 9))  # weeks ago
LEAST = 3  # known values that make a usual one
LEAST_DAYS = 28  # known days of history, before which nothing is far outside of it
# numbers that stand for "not known"
CODES = (-99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)


def known_range(history: Floats) -> tuple[float, float] | None:
    """The lowest and the highest value of a covariate's history (depots, days), NaN = not known;
    None where fewer than `LEAST_DAYS` days are known. An extreme that is a code for "not known" and
    far outside of the others is left out."""
    low, high = _ends(history)
    while code := next((end for end in (low, high) if end in CODES), None):
        others = np.where(history == np.float32(code), np.nan, history)
        low, high = rest = _ends(others)
        if not np.isfinite(low) or not is_far(np.array([code], np.float32), rest).all():
            low, high = _ends(history)
            break
        history = others
    return (low, high) if np.isfinite(history).any(axis=0).sum() >= LEAST_DAYS else None


def is_far(values: Floats, known: tuple[float, float]) -> Bools:
    """Marks values outside the range of the history by more than that range, or than half of its
    largest number."""
    low, high = known
    margin = max(high - low, max(abs(low), abs(high)) / 2, 1.0)
    far: Bools = (values < low - margin) | (values > high + margin)
    return far


def with_usual(values: Floats, needed: Bools, *, of_nobody: float) -> Floats:
    """The values (depots, days) with the usual one where NaN stands and one is `needed`; a depot of
    which nothing is known gets `of_nobody`."""
    rows, days = np.nonzero(np.isnan(values) & needed)
    if not len(rows):
        return values
    usual = np.full(len(rows), np.nan, np.float32)
    for weeks in (SEASON, RECENT):
        back = days[:, None] - 7 * np.array(weeks)
        candidates = np.where(back >= 0, values[rows[:, None], np.maximum(back, 0)], np.float32(np.nan))
        fill = np.isnan(usual) & (np.isfinite(candidates).sum(axis=1) >= LEAST)
        usual[fill] = _medians(candidates[fill])
    depots, place = np.unique(rows[np.isnan(usual)], return_inverse=True)
    usual[np.isnan(usual)] = _medians(values[depots])[place]
    result = values.copy()
    result[rows, days] = np.where(np.isnan(usual), np.float32(of_nobody), usual)
    return result


def usual_ahead(covariates: Floats, history: int, kept: NDArray[np.intp]) -> Floats:
    """Covariates (depots, days, covariates) with the usual values on the days after the `history`,
    but for those at the places `kept`."""
    result = covariates.copy()
    ahead = np.broadcast_to(np.arange(covariates.shape[1]) >= history, covariates.shape[:2])
    for index in set(range(covariates.shape[2])) - set(kept.tolist()):
        past = np.where(ahead, np.float32(np.nan), covariates[..., index])
        result[..., index] = with_usual(past, ahead, of_nobody=0)
    return result


def _ends(values: Floats) -> tuple[float, float]:
    return float(np.fmin.reduce(values, axis=None)), float(np.fmax.reduce(values, axis=None))


def _medians(values: Floats) -> Floats:
    """The lower median of each row, one of its values; NaN where none is known."""
    ranked = np.sort(values, axis=1)  # NaN last
    middle = np.maximum(np.isfinite(values).sum(axis=1) - 1, 0) // 2
    medians: Floats = ranked[np.arange(len(values)), middle]
    return medians
