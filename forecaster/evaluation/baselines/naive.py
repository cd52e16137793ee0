"""Seasonal naive and seasonal window average: the same weekday of the last weeks, also used where
other baselines fail.

Source: Hyndman & Athanasopoulos, Forecasting: Principles and Practice (3rd ed.), section 5.2.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.naive_quantiles import mean_count, never_narrower, within_history
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor

SEASON = 7
WEEKS = 8  # largest age of the last known same weekday
AVERAGED = 4
RECENT = 91  # days whose errors give the quantiles
ENOUGH = 21  # errors; with fewer, those of all depots are used


def seasonal_naive(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Seasonal naive: the last known count of the same weekday. Nothing is learned."""
    return lambda before: last_weeks(before, levels, 1)


def seasonal_window_average(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Seasonal window average: the mean of the last four known counts of the same weekday. Nothing
    is learned."""
    return lambda before: last_weeks(before, levels, AVERAGED)


def complete(panel: Panel, levels: tuple[float, ...], quantiles: Doubles) -> Forecast:
    """Make a forecast of raw quantiles (depots, horizon, levels): sorted, not below zero, zero on
    closed days, and the seasonal naive's for a depot with a non-finite quantile on an open day."""
    open_ = panel.open[:, panel.history :]
    unusable: Bools = np.any(~np.isfinite(quantiles).all(axis=-1) & open_, axis=-1)
    if unusable.any():
        quantiles = np.where(unusable[:, None, None], last_weeks(panel, levels, 1).quantiles, quantiles)
    ordered = np.sort(np.maximum(quantiles, 0.0), axis=-1)
    open_quantiles: Floats = np.where(open_[:, :, None], ordered, 0.0).astype(np.float32)
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, open_quantiles, open_)


def last_weeks(panel: Panel, levels: tuple[float, ...], weeks: int) -> Forecast:
    """Forecast the mean of the last `weeks` known same weekdays, with the recent errors of such
    means around it, in log counts.

    A depot without any same weekday gets its own mean, or all depots' median. No quantile exceeds
    twice the largest count of the depot's history (`naive_quantiles`).
    """
    days = SEASON * WEEKS
    demand, open_ = panel.past(days)
    point = _weekday_mean(np.where(open_[:, :days], demand, np.nan).astype(float), panel.horizon, weeks)
    point = np.where(np.isnan(point), mean_count(panel)[:, None], point)
    errors = [_error_quantiles(panel, weeks, levels, week) for week in range(-(-panel.horizon // SEASON))]
    by_week = never_narrower(np.stack(errors, axis=1), levels)
    log = np.log1p(point)[:, :, None] + by_week[:, np.arange(panel.horizon) // SEASON]
    return complete(panel, levels, within_history(np.expm1(log), panel, point))


def _weekday_mean(counts: Doubles, horizon: int, weeks: int) -> Doubles:
    """Mean of each target day's last known same weekdays, (depots, horizon); NaN if none is known."""
    days = counts.shape[1]
    total, count = np.zeros((len(counts), horizon)), np.zeros((len(counts), horizon))
    for step in range(horizon):
        same = counts[:, days - SEASON + step % SEASON :: -SEASON]
        used = np.isfinite(same) & (np.isfinite(same).cumsum(axis=1) <= weeks)
        total[:, step], count[:, step] = np.sum(same, axis=1, where=used), used.sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _error_quantiles(panel: Panel, weeks: int, levels: tuple[float, ...], weeks_ahead: int) -> Doubles:
    """Quantiles (depots, levels) of log count minus log forecast on the last days, about their
    median, for days `weeks_ahead` weeks after the first week ahead."""
    # as many errors as for the first week
    recent = slice(max(panel.history - RECENT - SEASON * weeks_ahead, 0), panel.history)
    counts = np.where(panel.open[:, recent], panel.demand[:, recent], np.nan).astype(float)
    first = SEASON * (weeks + weeks_ahead)
    count = max(counts.shape[1] - first, 0)
    before = np.stack([counts[:, SEASON * week : SEASON * week + count] for week in range(weeks)])
    # NaN if any week is unknown
    error = np.log1p(counts[:, first:]) - np.log1p(before.mean(axis=0))
    pooled = error[np.isfinite(error)]
    quantiles = np.zeros((len(counts), len(levels))) + (np.quantile(pooled, levels) if len(pooled) >= ENOUGH else 0.0)
    enough = np.isfinite(error).sum(axis=1) >= ENOUGH
    if enough.any():
        quantiles[enough] = np.nanquantile(error[enough], levels, axis=1).T
    centred: Doubles = quantiles - quantiles[:, [levels.index(0.5)]]
    return centred
