"""Drift of inputs: shares of unknown and closed days compared with the last year, and covariates
compared with their past.

The null is the past itself: the same figure for every past stretch of `WINDOW` days. The last
stretch drifts if it lies outside of all of these, which alone would still happen once in as many
independent stretches, and also by a margin that matters: `MARGIN` of depot-days for shares,
`DEVIATIONS` standard deviations of such means for covariates. That is the standardized mean
difference (Cohen 1988) with the deviation of means of stretches instead of days, because days of a
promotion or a winter are alike. A covariate that always moved and now stands still is reported as
well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecaster.core.arrays import Bools, Doubles

WINDOW = 28  # days
YEAR = 365  # days before them
LEAST_PAST = 182  # days of the past
MARGIN = 0.05  # of depot-days
DEVIATIONS = 4.0
LEAST_SEASON = 14  # fewest days of the same season in earlier years for a comparison with them
NEAR = 21  # largest distance of days in the same season


@dataclass(frozen=True)
class Share:
    """A share of depot-days over the last `WINDOW` days, compared with that of the year before
    them."""

    now: float
    usual: float  # NaN: too little of a year is known
    direction: int  # 1: more than ever in that year, −1: less, 0: neither


@dataclass(frozen=True)
class CovariateDrift:
    """A covariate whose last days differ from all of its past."""

    name: str
    direction: int  # 1: higher, −1: lower, 0: it stands still
    now: float
    usual: float  # mean of the same season in earlier years, or of the whole past if there is none


def share(is_counted: Bools, of: Bools) -> Share:
    """Share of depot-days `is_counted` among those of the mask `of`, both (depots, days), the newest
    day last."""
    part = (is_counted & of).sum(axis=0).astype(float)[-(YEAR + WINDOW) :]
    total = of.sum(axis=0).astype(float)[-(YEAR + WINDOW) :]
    now = _ratio(part[-WINDOW:], total[-WINDOW:])
    past_part, past_whole = part[:-WINDOW], total[:-WINDOW]
    if len(past_part) < LEAST_PAST or not np.isfinite(now):
        return Share(now, np.nan, 0)
    usual = _ratio(past_part, past_whole)
    stretches = _sums(past_part) / np.maximum(_sums(past_whole), 1)
    stretches = stretches[_sums(past_whole) > 0]
    if not len(stretches):
        return Share(now, np.nan, 0)
    above, below = now > stretches.max() and now - usual >= MARGIN, now < stretches.min() and usual - now >= MARGIN
    return Share(now, usual, int(above) - int(below))


def in_business(open_: Bools, is_known: Bools) -> Bools:
    """Days (depots, days) between each depot's first known day and its last known or open one: a
    depot that has not opened yet, or has been given up, is neither closed nor unknown."""
    alive = is_known | open_
    since = np.maximum.accumulate(is_known, axis=1)
    until = np.maximum.accumulate(alive[:, ::-1], axis=1)[:, ::-1]
    between: Bools = since & until
    return between


def covariate_drifts(means: Doubles, names: Sequence[str]) -> tuple[CovariateDrift, ...]:
    """Return the covariates whose last `WINDOW` days differ from their past; `means` over depots is
    (days, covariates)."""
    if len(means) < LEAST_PAST + WINDOW:
        return ()
    drifts = (_covariate(means[:, column].astype(float), name) for column, name in enumerate(names))
    return tuple(drift for drift in drifts if drift is not None)


def _covariate(values: Doubles, name: str) -> CovariateDrift | None:
    past, window = values[:-WINDOW], values[-WINDOW:]
    stretches = _sums(past) / WINDOW
    now, deviation = float(window.mean()), float(stretches[::WINDOW].std())
    season = past[_same_season(len(past))]
    usual = float(season.mean()) if len(season) >= LEAST_SEASON else float(past.mean())
    if np.ptp(window) == 0 and not (_ranges(past) == 0).any():
        return CovariateDrift(name, 0, now, usual)
    outside = now > stretches.max() or now < stretches.min()
    # 0: it has never moved before
    if outside and (deviation == 0 or abs(now - usual) >= DEVIATIONS * deviation):
        return CovariateDrift(name, 1 if now > usual else -1, now, usual)
    return None


def _same_season(past: int) -> Bools:
    """Mark the past days (days,) in the season of the following window, in earlier years."""
    back = past + WINDOW // 2 - np.arange(past)  # days before the middle of the window
    from_year = np.abs((back + YEAR / 2) % YEAR - YEAR / 2)
    same: Bools = (from_year <= NEAR) & (back > YEAR / 2)
    return same


def _ratio(part: Doubles, total: Doubles) -> float:
    return float(part.sum() / total.sum()) if total.sum() > 0 else float("nan")


def _sums(values: Doubles) -> Doubles:
    """Sums of every stretch of `WINDOW` days, (stretches,)."""
    sums: Doubles = np.convolve(values, np.ones(WINDOW), "valid")
    return sums


def _ranges(values: Doubles) -> Doubles:
    """Largest minus smallest value of every stretch of `WINDOW` days, (stretches,)."""
    ranges: Doubles = np.ptp(np.lib.stride_tricks.sliding_window_view(values, WINDOW), axis=1)
    return ranges
