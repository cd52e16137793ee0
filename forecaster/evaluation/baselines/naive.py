"""Forecast a day by the same weekday of the last weeks; it also speaks where another baseline has nothing to say.

Source: Hyndman & Athanasopoulos, Forecasting: Principles and Practice (3rd ed.), section 5.2.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor

SEASON = 7
WEEKS = 8  # that the last known same weekday may lie back
AVERAGED = 4
RECENT = 91  # days whose errors make the quantiles
ENOUGH = 21  # errors; with fewer those of all depots are used


def seasonal_naive(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """The last known count of the same weekday. Nothing is learnt."""
    return lambda before: last_weeks(before, levels, 1)


def seasonal_window_average(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """The mean of the last four known counts of the same weekday. Nothing is learnt."""
    return lambda before: last_weeks(before, levels, AVERAGED)


def completed(panel: Panel, levels: tuple[float, ...], quantiles: Doubles) -> Forecast:
    """A forecast of the given quantiles (depots, horizon, levels): put in order, not below zero, zero on closed days,
    and the seasonal naive's for a depot where any of an open day is not finite."""
    open_ = panel.open[:, panel.history :]
    lost: Bools = np.any(~np.isfinite(quantiles).all(axis=-1) & open_, axis=-1)
    if lost.any():
        quantiles = np.where(lost[:, None, None], last_weeks(panel, levels, 1).quantiles, quantiles)
    ordered = np.sort(np.maximum(quantiles, 0.0), axis=-1)
    kept: Floats = np.where(open_[:, :, None], ordered, 0.0).astype(np.float32)
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, kept, open_)


def last_weeks(panel: Panel, levels: tuple[float, ...], weeks: int) -> Forecast:
    """The mean of the last `weeks` known same weekdays, and around it what such means missed of late, in log counts.

    A depot without any same weekday gets its own mean, or all depots' median.
    """
    days = SEASON * WEEKS
    demand, open_ = panel.past(days)
    point = _mean_of(np.where(open_[:, :days], demand, np.nan).astype(float), panel.horizon, weeks)
    point = np.where(np.isnan(point), _mean(panel)[:, None], point)
    log = np.log1p(point)[:, :, None] + _missed(panel, weeks, levels)[:, None, :]
    return completed(panel, levels, np.expm1(log))


def _mean_of(known: Doubles, horizon: int, weeks: int) -> Doubles:
    """Mean of each target day's last known same weekdays, (depots, horizon); NaN where none is known."""
    days = known.shape[1]
    total, count = np.zeros((len(known), horizon)), np.zeros((len(known), horizon))
    for step in range(horizon):
        same = known[:, days - SEASON + step % SEASON :: -SEASON]
        taken = np.isfinite(same) & (np.isfinite(same).cumsum(axis=1) <= weeks)
        total[:, step], count[:, step] = np.sum(same, axis=1, where=taken), taken.sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean(panel: Panel) -> Doubles:
    """Each depot's mean of all known counts; where none is known, the median of these means."""
    known = np.isfinite(panel.demand) & panel.open[:, : panel.history]
    count = known.sum(axis=1)
    mean = np.sum(panel.demand, axis=1, where=known, dtype=float) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.median(mean[count > 0]) if count.any() else 0.0)


def _missed(panel: Panel, weeks: int, levels: tuple[float, ...]) -> Doubles:
    """Quantiles (depots, levels) of log count minus log forecast on the last days, about their median."""
    recent = slice(max(panel.history - RECENT, 0), panel.history)
    known = np.where(panel.open[:, recent], panel.demand[:, recent], np.nan).astype(float)
    count = max(known.shape[1] - SEASON * weeks, 0)
    before = np.stack([known[:, SEASON * week : SEASON * week + count] for week in range(weeks)])
    error = np.log1p(known[:, SEASON * weeks :]) - np.log1p(before.mean(axis=0))  # NaN where any week is unknown
    pooled = error[np.isfinite(error)]
    found = np.zeros((len(known), len(levels))) + (np.quantile(pooled, levels) if len(pooled) >= ENOUGH else 0.0)
    own = np.isfinite(error).sum(axis=1) >= ENOUGH
    if own.any():
        found[own] = np.nanquantile(error[own], levels, axis=1).T
    centred: Doubles = found - found[:, [levels.index(0.5)]]
    return centred
