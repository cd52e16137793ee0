"""The seasonal-naive forecast: what every model has to beat, and what goes out when no model may.

The median is the last known count of the same weekday; the quantiles around it are those of the depot's own weekly
changes in log counts. Source: Hyndman & Athanasopoulos, Forecasting: Principles and Practice (3rd ed.), section 5.2.
"""

from __future__ import annotations

import numpy as np

from forecaster.values import Doubles, Forecast, Panel

SEASON = 7
WEEKS = 8  # weeks that the last known same weekday may lie back
RECENT = 91  # days whose weekly changes make the quantiles
ENOUGH = 21  # weekly changes; with fewer the changes of all depots are used


def seasonal_naive(panel: Panel, levels: tuple[float, ...]) -> Forecast:
    """A forecast for every depot; one without any same weekday gets its own mean, or all depots' median."""
    history, horizon = panel.history, panel.horizon
    known = np.where(panel.open[:, :history], panel.demand, np.nan).astype(float)
    point = np.full((len(panel.depot_ids), horizon), np.nan)
    for week in range(1, WEEKS + 1):
        for ahead in range(horizon):
            day = history + ahead - SEASON * week
            if 0 <= day < history:
                point[:, ahead] = np.where(np.isnan(point[:, ahead]), known[:, day], point[:, ahead])
    count = np.isfinite(known).sum(axis=1)
    mean = np.where(count > 0, np.nansum(known, axis=1) / np.maximum(count, 1), np.nan)
    middle = float(np.median(mean[count > 0])) if (count > 0).any() else 0.0
    point = np.where(np.isnan(point), np.where(np.isnan(mean), middle, mean)[:, None], point)

    spread = _spread(np.log1p(known[:, -RECENT:]), levels)
    log = np.log1p(point)[:, :, None] + spread[:, None, :]
    open_ = panel.open[:, history:]
    quantiles = np.where(open_[:, :, None], np.maximum(np.expm1(log), 0.0), 0.0).astype(np.float32)
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, quantiles, open_)


def _spread(log: Doubles, levels: tuple[float, ...]) -> Doubles:
    """Quantiles (depots, levels) of each depot's weekly log changes, about their median."""
    change = log[:, SEASON:] - log[:, :-SEASON]
    found = np.full((len(log), len(levels)), np.nan)
    known = np.isfinite(change).sum(axis=1)
    pooled = change[np.isfinite(change)]
    everyone = np.quantile(pooled, levels) if len(pooled) >= ENOUGH else np.zeros(len(levels))
    enough = known >= ENOUGH
    if enough.any():
        found[enough] = np.nanquantile(change[enough], levels, axis=1).T
    found[~enough] = everyone
    centred: Doubles = found - found[:, [levels.index(0.5)]]
    return centred
