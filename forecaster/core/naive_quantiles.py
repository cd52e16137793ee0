"""Quantiles around a seasonal naive's median, for the published fallback and the baseline of a
backtest.

Their spread is that of changes in log counts, which explodes if days of zero and of thousands
alternate (a step from 0 to 15,000 is a factor of 15,001). No quantile therefore exceeds `MOST`
times the largest count that the depot's history supports; quantiles below it are unchanged.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.panel import Panel

MOST = 2.0  # limit of a depot's quantiles, in multiples of the largest count of its history


def mean_count(panel: Panel) -> Doubles:
    """Mean of all known counts of each depot, (depots,); for a depot without any, the median of
    these means."""
    observed = np.isfinite(panel.demand) & panel.open[:, : panel.history]
    count = observed.sum(axis=1)
    mean = np.sum(panel.demand, axis=1, where=observed, dtype=float) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.median(mean[count > 0]) if count.any() else 0.0)


def never_narrower(by_week: Doubles, levels: tuple[float, ...]) -> Doubles:
    """Widen distances from the median (depots, weeks, levels) so that none shrinks from one week
    ahead to the next; a short history has less evidence of later weeks."""
    lower, upper = np.minimum.accumulate(by_week, axis=1), np.maximum.accumulate(by_week, axis=1)
    wider: Doubles = np.where(np.array(levels) < 0.5, lower, upper)
    return wider


def within_history(quantiles: Doubles, panel: Panel, point: Doubles) -> Doubles:
    """Limit quantiles (depots, horizon, levels) to `MOST` times the largest count of the depot's
    history, or of its median `point` (depots, horizon) if that is larger.

    A depot whose known counts are all zero stays zero. The history of a cold depot (`cold_start`)
    is too short to show its largest count: the past guessed from its peers counts as well.
    """
    supported = np.maximum(largest_count(panel), point.max(axis=1, initial=0.0))
    bounded: Doubles = np.minimum(quantiles, MOST * supported[:, None, None])
    return bounded


def largest_count(panel: Panel) -> Doubles:
    """Largest known count on each depot's open days and, for a cold depot, on its guessed days; 0
    if there is none."""
    observed = np.isfinite(panel.demand) & panel.open[:, : panel.history]
    largest: Doubles = np.max(panel.demand, axis=1, where=observed, initial=0.0).astype(np.float64)
    cold = np.flatnonzero(panel.cold)
    if len(cold):
        past, open_ = panel.past(panel.history, cold)
        guessed: Floats = np.where(np.isfinite(past) & open_[:, : panel.history], past, 0.0)
        largest[cold] = guessed.max(axis=1, initial=0.0)
    return largest
