"""Estimate demand on days whose count is a lower bound (censored demand), as where a shop sold out
or all vans were full.

Log counts are normal about a mean of three parts: the depot's level in the weeks around a day, its
weekdays, and the effect of the day on all depots. Level, weekdays and spread are fitted by
expectation maximization, in which a capped day counts by its mean, given that it was no lower than
its count (Tobit: Tobin 1958, "Estimation of relationships for limited dependent variables"; Amemiya
1984). Weekdays that are rarely below the cap are shrunken to those of the fleet. One draw from that
distribution above the count then replaces a capped count (data augmentation: Chib 1992, "Bayes
inference in the Tobit censored regression model"), so that lags, levels, targets and scores have
the mean and the spread of demand. A draw depends on depot and date alone. Plain arrays (depots,
days); unknown is NaN.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from forecaster.core.arrays import Bools, Days, Doubles, Floats

WEEK = 7
AROUND = 17  # days before and after a day that determine its level
STEPS = 30  # iterations of the fit
PEERS = 200  # largest number of depots from which the effects of the fleet are fitted
FEW = 5  # depots; with fewer, no effects of the fleet are learned
SHIFT = 0.25  # times a depot's median; added to counts before the log, so that skewed days become normal
LEAST_BELOW = 0.1  # share of a depot's days with counts below the cap; with a smaller one, nothing is estimated
SPREAD = 0.3  # initial standard deviation of log counts in the fit
LEAST_SPREAD, MOST_SPREAD = 0.05, 1.0
# standard deviations by which depots' weekdays and levels differ from the fleet's, if it is small
WEEKDAYS, LEVELS = 0.1, 0.2
# standard deviations at which a day's deviation is clipped, and the correction of the variance for
# it
CLIP, CORRECTION = 2.0, 1.085
MOST = float(np.log(4.0))  # largest estimate of log demand above the count
GOLDEN = (5**0.5 - 1) / 2
_Z = np.linspace(-6.0, 6.0, 2401)
_CDF = np.array([NormalDist().cdf(z) for z in _Z])
# mean and mean square of a standard normal above each value of the grid
_ABOVE = np.exp(-_Z * _Z / 2) / np.sqrt(2 * np.pi) / (1 - _CDF)
_SQUARE = 1 + _Z * _ABOVE


class CappedCounts(NamedTuple):
    """Counts, some of which are lower bounds of demand."""

    served: Floats  # (depots, days); NaN = not known
    is_capped: Bools  # (depots, days) True if the count is a lower bound
    expected: Floats | None = None  # (depots, days) demand of capped days that is known by other means; else NaN

    def of(self, rows: Any, days: slice = slice(None)) -> CappedCounts:
        """Return the counts of some depots and days."""
        expected = None if self.expected is None else self.expected[rows][:, days]
        return CappedCounts(self.served[rows][:, days], self.is_capped[rows][:, days], expected)


class _Fleet(NamedTuple):
    """Effects of days, weekdays and levels that depots have in common."""

    days: Doubles  # (days,) effect of each day on all depots, including seasons
    weekdays: Doubles  # (7,) effects
    weekday_differs: float  # standard deviation of a depot's weekdays about these
    level_differs: float  # standard deviation of a depot's level of some weeks about its mean
    noise: Doubles  # (7,) spread of each weekday relative to that of all


class _Fit(NamedTuple):
    mean: Doubles  # (depots, days) of log demand
    spread: Doubles  # (depots, days)
    fleet: _Fleet


def demand_of(counts: CappedCounts, is_open: Bools, depot_ids: Sequence[str], days: Days) -> Floats:
    """Return the demand of each day (depots, days): the count or, for a capped day, an estimate
    that is no lower. If nearly all counts of a depot are capped, its counts. `days` are the dates
    of the last axis."""
    demand = counts.served.copy()
    capped = counts.is_capped & np.isfinite(demand) & is_open
    if counts.expected is not None:
        by_profile = capped & np.isfinite(counts.expected)
        demand[by_profile] = np.maximum(demand, counts.expected)[by_profile]
        capped &= ~by_profile
    served, is_known = demand.copy(), np.isfinite(demand) & is_open
    below = (is_known & ~capped).sum(axis=1) >= LEAST_BELOW * is_known.sum(axis=1)
    rows = np.flatnonzero(capped.any(axis=1) & below)
    if not len(rows):
        return demand
    plain = np.where(is_known, served, 0.0).astype(np.float64)
    shift = 1.0 + SHIFT * _median(plain, is_known)
    log = np.log(plain + shift)
    peers = np.unique(np.linspace(0, len(served) - 1, min(len(served), PEERS)).astype(np.intp))
    fleet = _fit(log[peers], is_known[peers], capped[peers], None).fleet
    log, capped, shift = log[rows], capped[rows], shift[rows]
    fit = _fit(log, is_known[rows], capped, fleet)
    floor = np.interp((log - fit.mean) / fit.spread, _Z, _CDF)
    probability = floor + (1 - floor) * _uniform([depot_ids[row] for row in rows.tolist()], days)
    latent = np.clip(fit.mean + fit.spread * np.interp(probability, _CDF, _Z), log, log + MOST)
    demand[rows] = np.where(capped, np.maximum(np.exp(latent) - shift, served[rows]), served[rows])
    return demand


def _median(counts: Doubles, is_known: Bools) -> Doubles:
    """Median of each depot's known counts, (depots, 1); 0 without any."""
    ordered = np.sort(np.where(is_known, counts, np.inf), axis=1)
    middle = np.take_along_axis(ordered, np.maximum(is_known.sum(axis=1, keepdims=True) - 1, 0) // 2, axis=1)
    return np.where(np.isfinite(middle), middle, 0.0)


def _uniform(depot_ids: Sequence[str], days: Days) -> Doubles:
    """Numbers between 0 and 1, evenly spread over a depot's days, (depots, days)."""
    start = np.array([zlib.crc32(depot.encode()) / 2**32 for depot in depot_ids])
    numbers = days.astype("datetime64[D]").astype(np.int64)
    spread: Doubles = (start[:, None] + GOLDEN * numbers[None]) % 1.0
    return spread


def _fit(log: Doubles, is_known: Bools, capped: Bools, fleet: _Fleet | None) -> _Fit:
    """Fit means and spreads of log demand, with the common effects of `fleet`, or of these depots
    if it is None."""
    weekday = np.arange(log.shape[1]) % WEEK
    by_weekday = np.eye(WEEK)[weekday]  # (days, 7)
    common = fleet or _Fleet(np.zeros(log.shape[1]), np.zeros(WEEK), WEEKDAYS, LEVELS, np.ones(WEEK))
    count, weight = np.maximum(is_known.sum(axis=1, keepdims=True), 1), is_known.astype(np.float64)
    served = np.where(is_known, log, 0.0).sum(axis=1, keepdims=True) / count
    values, variance, weekday_effect = log.copy(), np.zeros_like(log), np.zeros((len(log), WEEK))
    mean, spread = values, np.full((len(log), 1), SPREAD)
    for _ in range(STEPS):
        of_weekday = weight @ by_weekday
        rest = weight * (values - common.days - weekday_effect[:, weekday])
        usual = (rest.sum(axis=1, keepdims=True) + FEW * served) / (weight.sum(axis=1, keepdims=True) + FEW)
        moves = rest - weight * usual
        level = usual + _around(moves, weight, (spread / common.level_differs) ** 2)
        sums = (weight * (values - common.days - level)) @ by_weekday
        needed = (spread / common.weekday_differs) ** 2
        weekday_effect = (sums + needed * common.weekdays) / (of_weekday + needed)
        mean = level + weekday_effect[:, weekday] + common.days
        wide = spread * common.noise[weekday]
        square = np.where(is_known, np.clip((values - mean) / wide, -CLIP, CLIP) ** 2 + variance / wide**2, 0.0)
        if fleet is None and len(log) >= FEW:
            differs = sums / np.maximum(of_weekday, 1)
            days = np.where(is_known, values - usual - weekday_effect[:, weekday], 0.0)
            common = _common(days, is_known, differs, _around(moves, weight, 0.5), square * wide**2)
        ratio = CORRECTION * square.sum(axis=1, keepdims=True) / count
        spread = np.clip(spread * np.sqrt(ratio), LEAST_SPREAD, MOST_SPREAD)
        wide = spread * common.noise[weekday]
        distance = ((log - mean) / wide)[capped]
        above = np.maximum(np.interp(distance, _Z, _ABOVE), distance)
        unknown = np.clip(np.interp(distance, _Z, _SQUARE) - above**2, 0.0, 1.0)
        values[capped] = mean[capped] + wide[capped] * above
        # the weight of a capped day is the share of its variance that its bound removes
        variance[capped], weight[capped] = wide[capped] ** 2 * unknown, 1.0 - unknown
    return _Fit(mean, wide, common)


def _common(days: Doubles, is_known: Bools, weekdays: Doubles, moves: Doubles, square: Doubles) -> _Fleet:
    """Estimate the effects that depots have in common: from their days relative to level and
    weekdays, the effects of their weekdays (depots, 7), the moves of their level, and their squared
    residuals, 0 where unknown."""
    by_weekday = np.eye(WEEK)[np.arange(is_known.shape[1]) % WEEK]
    some = is_known @ by_weekday > 0
    typical = np.where(some, weekdays, 0.0).sum(axis=0) / np.maximum(some.sum(axis=0), 1)
    noise = np.sqrt((square @ by_weekday).sum(axis=0) / np.maximum((is_known @ by_weekday).sum(axis=0), 1))
    return _Fleet(
        days.sum(axis=0) / np.maximum(is_known.sum(axis=0), 1),
        typical,
        _root_mean_square((weekdays - typical)[some]),
        _root_mean_square(moves[is_known]),
        np.maximum(noise / max(float(noise.mean()), LEAST_SPREAD), SPREAD),
    )


def _root_mean_square(values: Doubles) -> float:
    return max(float(np.sqrt(np.mean(values**2))), LEAST_SPREAD) if values.size else LEAST_SPREAD


def _around(values: Doubles, weight: Doubles, needed: Doubles | float) -> Doubles:
    """Weighted mean of the values around each day, shrunken to 0 as if by `needed` more days."""
    level: Doubles = _window_sum(values) / (_window_sum(weight) + needed)
    return level


def _window_sum(values: Doubles) -> Doubles:
    total = np.cumsum(np.pad(values, [(0, 0), (AROUND + 1, AROUND)]), axis=1)
    return total[:, 2 * AROUND + 1 :] - total[:, : -2 * AROUND - 1]
