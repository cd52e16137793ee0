"""Seasonal-naive fallback forecast: what every model has to beat, and what goes out when no model
may.

The median is the last known count of the same weekday; the quantiles around it are those of the
depot's own changes in log counts over a week, for days of the second week ahead over two, and so
on, but none beyond twice the largest count of the depot's history (`naive_quantiles`). Source:
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
WEEKS = 8  # weeks that the last known same weekday may lie back
RECENT_DAYS = 91  # days whose weekly changes make the quantiles of the first week ahead
MIN_CHANGES = 21  # weekly changes; with fewer the changes of all depots are used


def seasonal_naive(panel: Panel, levels: tuple[float, ...]) -> Forecast:
    """A forecast for every depot; what a cold depot lacks comes from its city's profile, as a model
    sees it.

    One without any same weekday gets its own mean, or all depots' median. Closed days are zero.
    """
    point = _same_weekday(panel)
    point = np.where(np.isnan(point), mean_count(panel)[:, None], point)
    weeks_ahead = np.arange(panel.horizon) // SEASON
    counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
    log_counts = np.log1p(counts[:, -RECENT_DAYS - panel.horizon :].astype(float))
    # As many changes over several weeks as over one.
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
    """A model's forecast, but the seasonal naive for the depots `rows`, which it cannot know: it
    was not trained on them, and they have no attributes to go by."""
    if not rows.any():
        return predicted
    naive = seasonal_naive(panel, predicted.levels).quantiles
    return replace(predicted, quantiles=np.where(rows[:, None, None], naive, predicted.quantiles))


def _same_weekday(panel: Panel) -> Doubles:
    """The last known count of each target day's weekday, (depots, horizon); NaN where none is
    known."""
    days = SEASON * WEEKS
    demand, open_ = panel.past(days)
    counts = np.where(open_[:, :days], demand, np.nan)
    point = np.full((len(counts), panel.horizon), np.nan)
    weekday = np.arange(panel.horizon) % SEASON
    for week in range(1, WEEKS + 1):
        point = np.where(np.isnan(point), counts[:, days - SEASON * week + weekday], point)
    return point


def _spread(log: Doubles, levels: tuple[float, ...], days: int) -> Doubles:
    """Quantiles (depots, levels) of each depot's log changes over so many days, whole weeks, about
    their median."""
    change = log[:, days:] - log[:, :-days]
    change_counts = np.isfinite(change).sum(axis=1)
    pooled = change[np.isfinite(change)]
    everyone = np.quantile(pooled, levels) if len(pooled) >= MIN_CHANGES else np.zeros(len(levels))
    quantiles = np.where((change_counts >= MIN_CHANGES)[:, None], _quantiles(change, change_counts, levels), everyone)
    centred: Doubles = quantiles - quantiles[:, [levels.index(0.5)]]
    return centred


def _quantiles(values: Doubles, finite_counts: NDArray[np.intp], levels: tuple[float, ...]) -> Doubles:
    """Quantiles (rows, levels) of the `finite_counts` finite values of each row, between neighbours
    in proportion."""
    ordered = np.sort(values, axis=1)  # NaN last
    if not ordered.shape[1]:
        return np.full((len(values), len(levels)), np.nan)
    place = np.maximum(finite_counts - 1, 0)[:, None] * np.asarray(levels)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, np.maximum(finite_counts - 1, 0)[:, None])
    low, high = np.take_along_axis(ordered, below, axis=1), np.take_along_axis(ordered, above, axis=1)
    interpolated: Doubles = low + (high - low) * (place - below)
    return interpolated
