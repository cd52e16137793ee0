"""Conformal calibration: widen or narrow the quantiles until they have their nominal coverage on
days held out of training.

Split-conformal calibration in its multiplicative form (Romano, Patterson & Candès 2019,
arXiv:1905.03222, with the distance to the median as the scale): for each interval, the factor on
its ends' distances to the median, in log counts, with which it covers its share of held-out
actuals. First for all days of the horizon together, then for each week ahead if there are several,
then for each day by the remaining difference. Both ends get the same factor: the side of the median
on which four weeks lie says nothing about the weeks after them.

Depots share their days: one stormy week moves the shares of all of them. A share is therefore drawn
to the nominal one only as far as it can be trusted, by its standard error over days (Efron & Morris
1973, "Stein's estimation rule"). With many similar depots that is all the way; with twenty that
move together, a fraction of it.

Recent days say most about the next ones: a day two weeks earlier counts half. And four calm weeks
do not make a calm year: an interval with too high a coverage is trusted to be too wide only in
proportion to the days of a season that have shown it, unless it covered more than half of the share
that it may miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Days, Doubles, Floats
from forecaster.core.forecast import Fold, Forecast

ENOUGH = 50  # depot-days; with fewer, the quantiles are unchanged
NARROWEST, WIDEST = 0.3, 5.0
OFF = 0.1  # prior standard deviation of shares before calibration,
OFF_BY_WEEK = 0.05  # of those of one week ahead about those of all days,
OFF_BY_STEP = 0.02  # and of those of one day of the horizon about its week's
HALF_LIFE = 14.0  # days after which a day counts half
SEASON = 91.0  # days with which an interval that covers too much is half trusted to be too wide
WEEK = 7
LEAST = 1e-6  # smallest distance to the median, in log counts, that can be stretched


def factors(folds: Sequence[Fold]) -> Floats:
    """Calibration factors (horizon, levels) for each level's distance to the median in log counts;
    1 means no change."""
    levels, horizon = folds[0].forecast.levels, folds[0].actuals.shape[1]
    middle = levels.index(0.5)
    rows = [np.nonzero(np.isfinite(fold.actuals)) for fold in folds]
    parts = list(zip(folds, rows, strict=True))
    log_quantiles = np.log1p(np.concatenate([fold.forecast.quantiles[row].astype(float) for fold, row in parts]))
    log_actuals = np.log1p(np.concatenate([fold.actuals[row].astype(float) for fold, row in parts]))
    day = np.concatenate([np.asarray(fold.forecast.target_dates, "datetime64[D]")[row[1]] for fold, row in parts])
    step = np.concatenate([row[1] for row in rows])
    reach, gap = np.abs(log_quantiles - log_quantiles[:, [middle]]), log_actuals - log_quantiles[:, middle]
    stretch = np.ones((horizon, len(levels)))
    if not len(gap):
        return stretch.astype(np.float32)
    for lower, upper in _intervals(levels, middle):
        share = 1 - 2 * levels[lower] if lower < middle else 2 * levels[lower] - 1
        factor = _of_horizon(gap, reach[:, lower], reach[:, upper], day, step, horizon, share)
        stretch[:, lower] = stretch[:, upper] = factor
    typical = [reach[step == h].mean(axis=0) if (step == h).any() else reach.mean(axis=0) for h in range(horizon)]
    clipped = np.clip(stretch, NARROWEST, WIDEST)
    return np.stack([_uncrossed(f, r, middle) for f, r in zip(clipped, typical, strict=True)]).astype(np.float32)


def _intervals(levels: Sequence[float], middle: int) -> list[tuple[int, int]]:
    """Indexes of the levels that are stretched together: a level and its mirror, or a level without
    one, twice."""
    mirrors = {
        place: next((o for o in range(middle + 1, len(levels)) if _mirror(levels[place], levels[o])), place)
        for place in range(middle)
    }
    alone = [(place, place) for place in range(middle + 1, len(levels)) if place not in mirrors.values()]
    return [*mirrors.items(), *alone]


def stretched(forecast: Forecast, factors: Floats) -> Forecast:
    """Apply calibration factors: multiply each level's distance to the median, in log counts, by
    its factor."""
    middle = forecast.levels.index(0.5)
    log = np.log1p(forecast.quantiles.astype(np.float64))
    center = log[..., [middle]]
    counts = np.maximum(np.expm1(center + (log - center) * factors), 0.0)
    counts[..., middle] = forecast.median
    above = np.maximum.accumulate(counts[..., middle:], axis=-1)
    below = np.minimum.accumulate(counts[..., middle::-1], axis=-1)[..., ::-1]
    return replace(forecast, quantiles=np.concatenate([below, above[..., 1:]], axis=-1).astype(np.float32))


def _mirror(level: float, opposite: float) -> bool:
    return abs(level + opposite - 1) < LEAST


def _of_horizon(
    gap: Doubles, down: Doubles, up: Doubles, day: Days, step: NDArray[np.intp], horizon: int, share: float
) -> Doubles:
    """Factors (horizon,) with which the interval from `down` below the median to `up` above it
    covers its share."""
    usable = (down > LEAST) & (up > LEAST)
    score = np.maximum(gap[usable] / up[usable], -gap[usable] / down[usable])
    days, steps = day[usable], step[usable]
    all_days, coverage = _factor(score, days, share, OFF, season=SEASON)
    score = score / all_days
    by_week = np.ones(horizon)
    for week in range(-(-horizon // WEEK)) if horizon > WEEK else ():
        inside = steps // WEEK == week
        by_week[WEEK * week : WEEK * (week + 1)], _ = _factor(score[inside], days[inside], coverage, OFF_BY_WEEK)
    score = score / by_week[steps]
    by_step = [_factor(score[steps == h], days[steps == h], coverage, OFF_BY_STEP)[0] for h in range(horizon)]
    by_horizon: Doubles = all_days * by_week * np.array(by_step)
    return by_horizon


def _factor(score: Doubles, day: Days, nominal: float, off: float, season: float = 0.0) -> tuple[float, float]:
    """Return the factor under which the promised share of scores lies, as far as the observed share
    is trusted, and the resulting share. The doubt that an interval is too wide is worth `season`
    days.

    A score is the distance of an actual from the median, as a part of the interval's reach on its
    side; at 1 it lies on the end.
    """
    if len(score) < ENOUGH:
        return 1.0, nominal
    weight = 0.5 ** ((day.max() - day).astype(float) / HALF_LIFE)
    inside = score <= 1
    share, error = _share_and_error(inside, day, weight)
    trusted = off**2 / (off**2 + error**2)
    if share > nominal and season:
        days = len(np.unique(day))
        trusted *= days / (days + season)
    coverage = share + trusted * (nominal - share)
    if season:
        coverage = min(coverage, (1 + nominal) / 2)
    # forecasts may be exact to the last bit
    return max(_weighted_quantile(score, weight, coverage), LEAST), coverage


def _share_and_error(inside: NDArray[np.bool_], day: Days, weight: Doubles) -> tuple[float, float]:
    """Return the weighted share of depot-days inside and its standard error over days, because
    depots share their days (Cochran 1977, section 9.3)."""
    _, which = np.unique(day, return_inverse=True)
    count = np.bincount(which, weight)
    share = float((weight * inside).sum() / count.sum())
    deviations = np.bincount(which, weight * inside) - share * count
    days = len(count)
    if days < 2:
        return share, 1.0
    return share, float(np.sqrt((deviations**2).sum() * days / (days - 1)) / count.sum())


def _weighted_quantile(x: Doubles, weight: Doubles, share: float) -> float:
    """Interpolate between the sorted values, like `numpy.quantile` for equal weights."""
    order = np.argsort(x)
    before = np.cumsum(weight[order]) - weight[order]
    return float(np.interp(share * before[-1], before, x[order]))


def _uncrossed(factor: Doubles, reach: Doubles, middle: int) -> Doubles:
    """Adjust factors so that the mean distances grow away from the median."""
    distance = factor * reach
    out = np.maximum.accumulate(distance[middle:])
    down = np.maximum.accumulate(distance[middle::-1])[::-1]
    grown = np.concatenate([down, out[1:]])
    return np.where(reach > LEAST, grown / np.maximum(reach, LEAST), 1.0)
