"""Seasonal-naive fallback forecast: the baseline of every model, and the published forecast if no
model is admitted.

The median is the last known count of the same weekday. The quantiles around it are those of the
depot's own changes in log counts over a week (over two weeks for days of the second week ahead, and
so on), but at most twice the largest count of the depot's history (`naive_quantiles`). Source:
Hyndman & Athanasopoulos, Forecasting: Principles and Practice (3rd ed.), section 5.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Doubles
from forecaster.core.forecast import Forecast
from forecaster.core.naive_quantiles import mean_count, never_narrower, within_history
from forecaster.core.panel import Panel

SEASON = 7
WEEKS = 8  # largest age of the last known same weekday
RECENT_DAYS = 91  # days whose weekly changes give the quantiles of the first week ahead
MIN_CHANGES = 21  # weekly changes; with fewer the changes of all depots are used


def seasonal_naive(panel: Panel, levels: tuple[float, ...]) -> Forecast:
    """Forecast every depot; missing values of a cold depot come from its city's profile, as for a
    model.

    A depot without any same weekday gets its own mean, or all depots' median. Closed days are zero.
    """
    point = _same_weekday(panel)
    point = np.where(np.isnan(point), mean_count(panel)[:, None], point)
    weeks_ahead = np.arange(panel.horizon) // SEASON
    counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
    log_counts = np.log1p(counts[:, -RECENT_DAYS - panel.horizon :].astype(float))
    # the same number of changes over several weeks as over one
    weeks = [
        _spread(log_counts[:, -(RECENT_DAYS + days - SEASON) :], levels, days)
        for days in range(SEASON, SEASON + panel.horizon, SEASON)
    ]
    log = np.log1p(point)[:, :, None] + never_narrower(np.stack(weeks, axis=1), levels)[:, weeks_ahead]
    open_ = panel.open[:, panel.history :]
    bounded = within_history(np.maximum(np.expm1(log), 0.0), panel, point)
    quantiles = np.where(open_[:, :, None], bounded, 0.0).astype(np.float32)
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, quantiles, open_)


def naive_where(predicted: Forecast, panel: Panel, rows: Bools) -> Forecast:
    """Replace a model's forecast with the seasonal naive for the depots `rows`, which it cannot
    know: it was not trained on them, and they have no attributes that it could use."""
    if not rows.any():
        return predicted
    naive = seasonal_naive(panel, predicted.levels).quantiles
    return replace(predicted, quantiles=np.where(rows[:, None, None], naive, predicted.quantiles))


def _same_weekday(panel: Panel) -> Doubles:
    """Last known count of each target day's weekday, (depots, horizon); NaN if none is known."""
    days = SEASON * WEEKS
    demand, open_ = panel.past(days)
    counts = np.where(open_[:, :days], demand, np.nan)
    point = np.full((len(counts), panel.horizon), np.nan)
    weekday = np.arange(panel.horizon) % SEASON
    for week in range(1, WEEKS + 1):
        point = np.where(np.isnan(point), counts[:, days - SEASON * week + weekday], point)
    return point


def _spread(log: Doubles, levels: tuple[float, ...], days: int) -> Doubles:
    """Quantiles (depots, levels) of each depot's log changes over `days`, whole weeks, about their
    median."""
    change = log[:, days:] - log[:, :-days]
    change_counts = np.isfinite(change).sum(axis=1)
    pooled = change[np.isfinite(change)]
    everyone = np.quantile(pooled, levels) if len(pooled) >= MIN_CHANGES else np.zeros(len(levels))
    quantiles = np.where((change_counts >= MIN_CHANGES)[:, None], _quantiles(change, change_counts, levels), everyone)
    centred: Doubles = quantiles - quantiles[:, [levels.index(0.5)]]
    return centred


def _quantiles(values: Doubles, finite_counts: NDArray[np.intp], levels: tuple[float, ...]) -> Doubles:
    """Quantiles (rows, levels) of the `finite_counts` finite values of each row, with linear
    interpolation between neighbors."""
    ordered = np.sort(values, axis=1)  # NaN last
    if not ordered.shape[1]:
        return np.full((len(values), len(levels)), np.nan)
    place = np.maximum(finite_counts - 1, 0)[:, None] * np.asarray(levels)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, np.maximum(finite_counts - 1, 0)[:, None])
    low, high = np.take_along_axis(ordered, below, axis=1), np.take_along_axis(ordered, above, axis=1)
    interpolated: Doubles = low + (high - low) * (place - below)
    return interpolated
