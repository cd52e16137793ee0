"""Usual values of a covariate, which replace missing values, values far outside its history, and
values in another unit.

The usual value is the median of the same weekdays of the season one and two years ago, else of the
last eight weeks, else of the depot's known days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Floats

SEASON = (*range(50, 55), *range(102, 107))  # weeks ago
RECENT = tuple(range(1, 9))  # weeks ago
LEAST = 3  # known values needed for a usual one
LEAST_DAYS = 28  # known days of history needed to judge a value as far outside
# numbers that stand for "not known"
CODES = (-99.0, -999.0, -9999.0, -99999.0, -32768.0, 99.0, 999.0, 9999.0, 99999.0, 32767.0)

SINCE = 28  # maximum days since a change of unit
WEEKS = 8  # weeks compared before it
LEAST_SINCE = 3  # known days since then
SAMPLE = 1000  # minimum number of depots sampled, if there are as many
SUDDEN, STEADY = 2.0, 1.5  # factors of the largest daily step before
# unit → factor and offset to convert the earlier values
UNITS: Mapping[str, tuple[float, float]] = {"°C → °F": (1.8, 32.0), "°F → °C": (1 / 1.8, -32 / 1.8)}


class UnitChange(NamedTuple):
    """Day from which a covariate is in another unit (a key of UNITS), and its range in the weeks
    before."""

    day: int
    unit: str
    low: float
    high: float


def unit_change(values: Floats, history: int) -> UnitChange | None:
    """First recent day from which a covariate (depots, days) leaves the range of the weeks before
    after a sudden step, and continues steadily once converted back from another unit; judged by the
    medians of the depots."""
    first = max(history - SINCE - 7 * WEEKS, 0)
    medians = _medians(values[:: max(len(values) // SAMPLE, 1), first:].T)
    for day in range(max(history - SINCE, LEAST_DAYS), history + 1):
        before, since = medians[max(day - first - 7 * WEEKS, 0) : day - first], medians[day - first :]
        before, since = before[np.isfinite(before)], since[np.isfinite(since)]
        if len(before) < LEAST_DAYS or len(since) < LEAST_SINCE or not np.isfinite(medians[day - first]):
            continue
        low, high = float(before.min()), float(before.max())
        if low == high or ((since >= low) & (since <= high)).any():
            continue
        margin, step = (high - low) / 4, float(np.abs(np.diff(before)).max())
        for unit, (factor, offset) in UNITS.items():
            back = (since - offset) / factor
            is_sudden = abs(since[0] - before[-1]) > SUDDEN * step and abs(back[0] - before[-1]) <= STEADY * step
            if is_sudden and back.min() >= low - margin and back.max() <= high + margin:
                return UnitChange(day, unit, low, high)
    return None


def known_range(history: Floats) -> tuple[float, float] | None:
    """Lowest and highest value of a covariate's history (depots, days), NaN = unknown; None if
    fewer than `LEAST_DAYS` days are known. An extreme that is a code for "unknown" and far from the
    other values is ignored."""
    low, high = _ends(history)
    while code := next((end for end in (low, high) if end in CODES), None):
        without_code = np.where(history == np.float32(code), np.nan, history)
        low, high = rest = _ends(without_code)
        if not np.isfinite(low) or not is_far(np.array([code], np.float32), rest).all():
            low, high = _ends(history)
            break
        history = without_code
    return (low, high) if np.isfinite(history).any(axis=0).sum() >= LEAST_DAYS else None


def is_far(values: Floats, value_range: tuple[float, float]) -> Bools:
    """Mark values outside the range of the history by more than that range, or by more than half of
    its largest absolute value."""
    low, high = value_range
    margin = max(high - low, max(abs(low), abs(high)) / 2, 1.0)
    far: Bools = (values < low - margin) | (values > high + margin)
    return far


def with_usual(values: Floats, needed: Bools, *, of_nobody: float) -> Floats:
    """Values (depots, days) with the usual one where NaN is `needed`; depots without any known
    value get `of_nobody`."""
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
    except those at the positions `kept`."""
    result = covariates.copy()
    is_ahead = np.broadcast_to(np.arange(covariates.shape[1]) >= history, covariates.shape[:2])
    for index in set(range(covariates.shape[2])) - set(kept.tolist()):
        past = np.where(is_ahead, np.float32(np.nan), covariates[..., index])
        result[..., index] = with_usual(past, is_ahead, of_nobody=0)
    return result


def _ends(values: Floats) -> tuple[float, float]:
    return float(np.fmin.reduce(values, axis=None)), float(np.fmax.reduce(values, axis=None))


def _medians(values: Floats) -> Floats:
    """Lower median of each row, which is one of its values; NaN if none is known."""
    ranked = np.sort(values, axis=1)  # NaN last
    middle = np.maximum(np.isfinite(values).sum(axis=1) - 1, 0) // 2
    medians: Floats = ranked[np.arange(len(values)), middle]
    return medians
