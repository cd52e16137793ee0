"""Quantiles around a seasonal naive's median: what the fallback that goes out and the baseline of a
backtest share.

Their spread is that of changes in log counts, which explode where days of nothing and of thousands
take turns (a step from 0 to 15,000 is a factor of 15,001). No quantile therefore lies beyond `MOST`
times what the depot's history supports; below it nothing changes.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.panel import Panel

MOST = 2.0  # times the largest count of its history that a depot's quantiles may say


def mean_count(panel: Panel) -> Doubles:
    """Each depot's mean of all known counts, (depots,); where none is known, the median of these
    means."""
    observed = np.isfinite(panel.demand) & panel.open[:, : panel.history]
    count = observed.sum(axis=1)
    mean = np.sum(panel.demand, axis=1, where=observed, dtype=float) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.median(mean[count > 0]) if count.any() else 0.0)


def never_narrower(by_week: Doubles, levels: tuple[float, ...]) -> Doubles:
    """Distances from the median (depots, weeks, levels), none of which shrinks from one week ahead
    to the next, where a short history tells less of it."""
    lower, upper = np.minimum.accumulate(by_week, axis=1), np.maximum.accumulate(by_week, axis=1)
    wider: Doubles = np.where(np.array(levels) < 0.5, lower, upper)
    return wider


def within_history(quantiles: Doubles, panel: Panel, point: Doubles) -> Doubles:
    """Quantiles (depots, horizon, levels) about the median `point` (depots, horizon), none of them
    beyond `MOST` times the largest count of the depot's history.

    A depot of which nothing but zeros is known stays zero. A cold one (`cold_start`) has too short
    a history to say what is most: what its peers let guess of its past counts as well, and without
    peers what is forecast of it.
    """
    supported = np.maximum(largest_count(panel), point.max(axis=1, initial=0.0))
    bounded: Doubles = np.minimum(quantiles, MOST * supported[:, None, None])
    return bounded


def largest_count(panel: Panel) -> Doubles:
    """The largest count known of each depot's open days, and of a cold one's guessed days; 0 where
    there is none."""
    observed = np.isfinite(panel.demand) & panel.open[:, : panel.history]
    largest: Doubles = np.max(panel.demand, axis=1, where=observed, initial=0.0).astype(np.float64)
    cold = np.flatnonzero(panel.cold)
    if len(cold):
        past, open_ = panel.past(panel.history, cold)
        guessed: Floats = np.where(np.isfinite(past) & open_[:, : panel.history], past, 0.0)
        largest[cold] = guessed.max(axis=1, initial=0.0)
    return largest
