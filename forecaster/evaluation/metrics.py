"""Accuracy and calibration metrics of forecasts: point errors, quantile loss, interval coverage.

Every metric covers the scored depot-days of some folds: those with a known actual and an open
depot. An empty set of days gives NaN, never a zero that looks perfect; a depot whose past never
changed has no scale, and is left out of the scaled metrics only.

a is an actual, f the median, q_t the quantile of level t, e = f − a:

    mape       mean of |e| / a over days with a > 0                        Hyndman & Koehler 2006, section 2.2
    smape      mean of |e| / (a + f), 0 if both are 0; from 0 to 1         Makridakis 1993, without its factor 2
    wape       Σ|e| / Σa                                                   Kolassa & Schütz 2007 (MAD/mean)
    mae, rmse  mean of |e|, root of the mean of e², in orders              Hyndman & Koehler 2006, section 2.1
    mase       mean over depots of (mean |e| / mean |lag-7 change|)        Hyndman & Koehler 2006, section 3
    rmsse      mean over depots of √(mean e² / mean (lag-7 change)²)       Makridakis, Spiliotis & Assimakopoulos 2022
    bias       Σe / Σa: forecast minus actual, above zero = too much
    pinball_t  mean of max(t (a − q_t), (t − 1)(a − q_t)), in orders       Koenker & Bassett 1978
    wql        2 · pinball, mean over levels, Σ over days / Σa             Park et al. 2022, arXiv:2111.06581
    coverage   share of a within the 80 % interval, ends included; coverage_60 and so on for other levels
    width      Σ(upper − lower) / Σa of the 80 % interval; width_60 and so on
    winkler    Σ(width + 2/α · distance of a outside) / Σa, α = 0.2        Winkler 1972; Gneiting & Raftery 2007, eq. 43
    days       number of scored depot-days
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Days, Doubles, Floats
from forecaster.core.forecast import Fold, Scale

SEASON = 7
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
_NEAR = 1e-9


@dataclass(frozen=True, eq=False)
class Scored:
    """The scored depot-days of some folds, one row each."""

    depot: NDArray[np.intp]  # position among the depots
    day: Days
    ahead: NDArray[np.intp]  # days after the cutoff, from 1
    actual: Doubles
    quantiles: Doubles  # (rows, levels)
    levels: tuple[float, ...]
    scale: Scale

    def __getitem__(self, rows: Any) -> Scored:
        return replace(
            self,
            depot=self.depot[rows],
            day=self.day[rows],
            ahead=self.ahead[rows],
            actual=self.actual[rows],
            quantiles=self.quantiles[rows],
        )

    @property
    def median(self) -> Doubles:
        return self.quantiles[:, self.levels.index(MIDDLE)]


def measure(folds: Sequence[Fold], scale: Scale) -> dict[str, float]:
    """Return all metrics of one model over the folds; `scale` is over the days before the first of
    them (`seasonal_scale`)."""
    return of_days(scored(folds, scale))


def scored(folds: Sequence[Fold], scale: Scale) -> Scored:
    """Return the days of the folds that can be scored."""
    levels = folds[0].forecast.levels if folds else (LOW, MIDDLE, HIGH)
    depot, horizon = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    day, actual, quantiles = [np.zeros(0, "datetime64[D]")], [np.zeros(0)], [np.zeros((0, len(levels)))]
    for fold in folds:
        row, column = np.nonzero(np.isfinite(fold.actuals))
        depot.append(row)
        horizon.append(column + 1)
        day.append(np.asarray(fold.forecast.target_dates, "datetime64[D]")[column])
        actual.append(fold.actuals[row, column].astype(float))
        quantiles.append(fold.forecast.quantiles[row, column].astype(float))
    return Scored(
        np.concatenate(depot),
        np.concatenate(day),
        np.concatenate(horizon),
        np.concatenate(actual),
        np.concatenate(quantiles),
        levels,
        scale,
    )


def of_days(days: Scored) -> dict[str, float]:
    """Return all metrics over these days."""
    a, f, q = days.actual, days.median, days.quantiles
    error, total, levels = f - a, float(a.sum()), np.asarray(days.levels)
    size, positive = np.abs(error), a > 0
    gap = a[:, None] - q
    pinball = np.maximum(levels * gap, (levels - 1) * gap)
    metrics = {
        "mape": _mean(size[positive] / a[positive]),
        "smape": _mean(np.divide(size, a + f, where=a + f != 0, out=np.zeros(len(a)))),
        "wape": _ratio(size.sum(), total),
        "mae": _mean(size),
        "rmse": float(np.sqrt(_mean(error**2))),
        "mase": _mean(_scaled(days, size, days.scale.absolute)),
        "rmsse": _mean(np.sqrt(_scaled(days, error**2, days.scale.squared))),
        "bias": _ratio(error.sum(), total),
        "wql": _ratio(2 * pinball.mean(axis=1).sum() if len(a) else np.nan, total),
    }
    for low, high in intervals(days.levels):
        lower, upper = q[:, days.levels.index(low)], q[:, days.levels.index(high)]
        suffix = "" if low == LOW else f"_{round(100 * (high - low))}"
        metrics["coverage" + suffix] = _mean((lower <= a) & (a <= upper))
        metrics["width" + suffix] = _ratio((upper - lower).sum(), total)
        if low == LOW:
            outside = np.maximum(lower - a, 0) + np.maximum(a - upper, 0)
            metrics["winkler"] = _ratio((upper - lower + outside / low).sum(), total)
    metrics |= {f"pinball_{level:g}": _mean(pinball[:, place]) for place, level in enumerate(days.levels)}
    return metrics | {"days": float(len(a))}


def by(days: Scored, labels: Iterable[Any]) -> dict[str, dict[str, float]]:
    """Return all metrics of the days of each label; `labels` has one label per row, and the result
    is sorted by label."""
    of_row = np.asarray(list(labels))
    return {str(label): of_days(days[of_row == label]) for label in np.unique(of_row)}


def totals(days: Scored) -> Scored:
    """Return all depots together, one row per forecast day: the sums of scored values.

    Its quantiles are sums of the depots' quantiles; only the median's is meaningful, because
    quantiles do not add up.
    """
    keys, place = np.unique(np.stack([days.day.astype(np.int64), days.ahead]), axis=1, return_inverse=True)
    quantiles = np.zeros((keys.shape[1], len(days.levels)))
    np.add.at(quantiles, place.ravel(), days.quantiles)
    actual = np.zeros(keys.shape[1])
    np.add.at(actual, place.ravel(), days.actual)
    return Scored(
        np.zeros(len(actual), np.intp),
        keys[0].astype("datetime64[D]"),
        keys[1].astype(np.intp),
        actual,
        quantiles,
        days.levels,
        Scale(np.full(1, np.nan), np.full(1, np.nan)),
    )


def intervals(levels: Sequence[float]) -> list[tuple[float, float]]:
    """Return the pairs of levels that are symmetric about the median, the widest first."""
    mirrored = [(low, high) for low in levels for high in levels if low < MIDDLE and abs(low + high - 1) < _NEAR]
    return sorted(mirrored)


def seasonal_scale(demand: Floats, usable: Bools) -> Scale:
    """Mean lag-7 differences of each depot, absolute and squared, over pairs of usable known days."""
    x = np.where(usable, demand, np.nan).astype(float)
    change = x[:, SEASON:] - x[:, :-SEASON]
    count = np.isfinite(change).sum(axis=1)

    def mean(values: Doubles) -> Doubles:
        mean_change = np.nansum(values, axis=1) / np.maximum(count, 1)
        return np.where((count > 0) & (mean_change > 0), mean_change, np.nan)

    return Scale(mean(np.abs(change)), mean(change**2))


def _scaled(days: Scored, values: Doubles, scale: Doubles) -> Doubles:
    """Mean over each depot's days divided by its scale, for the depots that have both."""
    count = np.bincount(days.depot, minlength=len(scale))
    usable = (count > 0) & np.isfinite(scale)
    scaled: Doubles = np.bincount(days.depot, values, len(scale))[usable] / count[usable] / scale[usable]
    return scaled


def _mean(x: NDArray[Any]) -> float:
    return float(x.mean()) if x.size else float("nan")


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0 else float("nan")
