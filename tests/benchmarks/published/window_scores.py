"""Scores of one window as fev 0.8.0 computes them: MASE, WAPE, WQL and SQL over all known days of all its series.

Source: autogluon/fev at 1bc95fd, src/fev/metrics.py. MASE and SQL are scaled by the mean absolute change over a season
within the past of each series (Hyndman & Koehler 2006); a series without such a change is left out. WAPE and WQL divide
by the mean absolute actual, at least `EPSILON`. A score of a task is the mean of its windows' scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from forecaster.core.arrays import Doubles

METRICS = ("MASE", "WAPE", "WQL", "SQL")
EPSILON = 1.0


def scores_of(
    actual: Doubles, quantiles: Doubles, levels: Sequence[float], past: Doubles, season: int
) -> dict[str, float]:
    """Return the scores of quantiles (series, horizon, levels) against actuals (series, horizon);
    NaN is not scored.

    `past` (series, days) are the actuals up to the cutoff; the point forecast is the median.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a series without known days
        scale = np.nanmean(np.abs(past[:, season:] - past[:, :-season]), axis=1)[:, None]
    error = np.abs(actual - quantiles[:, :, list(levels).index(0.5)])
    loss = pinball_loss(actual, quantiles, levels).mean(axis=-1)
    size = max(float(np.nanmean(np.abs(actual))), EPSILON)
    return {
        "MASE": _mean_of_finite(error, scale),
        "WAPE": float(np.nanmean(error)) / size,
        "WQL": float(np.nanmean(loss)) / size,
        "SQL": _mean_of_finite(loss, scale),
    }


def pinball_loss(actual: Doubles, quantiles: Doubles, levels: Sequence[float]) -> Doubles:
    """Return twice the quantile loss, (series, horizon, levels), so that at the median it is the
    absolute error."""
    gap = actual[:, :, None] - quantiles
    loss: Doubles = 2 * np.where(gap >= 0, np.asarray(levels) * gap, (np.asarray(levels) - 1) * gap)
    return loss


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric."""
    return {metric: float(np.mean([score[metric] for score in scores])) for metric in METRICS}


def _mean_of_finite(values: Doubles, scale: Doubles) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = values / scale
    return float(np.mean(scaled[np.isfinite(scaled)]))
