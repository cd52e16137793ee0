"""Replay the last days: at each cutoff every model forecasts from what lay before it, then meets what came.

Cutoffs are a horizon apart, so that each of the held-out days is forecast exactly once by each model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta

import numpy as np

from forecaster.errors import NoUsableData
from forecaster.evaluation.metrics import measure, seasonal_scale
from forecaster.values import Fold, Forecast, Panel, Scores

Predictor = Callable[[Panel], Forecast]


def cutoffs(panel: Panel, days: int) -> list[date]:
    """The cutoffs of folds that together cover the last `days` days, oldest first."""
    first = panel.cutoff - timedelta(days=days)
    if (np.datetime64(first) - panel.days[0]).astype(int) < panel.horizon:
        raise NoUsableData(
            f"{panel.history} days of history, and backtest.days holds out {days}: nothing is left to learn from"
        )
    return [first + timedelta(days=ahead) for ahead in range(0, days, panel.horizon)]


def folds(predict: Predictor, panel: Panel, at: list[date]) -> tuple[Fold, ...]:
    """One fold a cutoff; actuals are NaN where the day is not known, not there yet, or the depot was closed."""
    found = []
    for cutoff in at:
        before = panel.at(cutoff)
        forecast = predict(before)
        actuals = np.where(forecast.open, panel.actuals(cutoff), np.nan).astype(np.float32)
        found.append(Fold(forecast, actuals))
    return tuple(found)


def run(predictors: Mapping[str, Predictor], panel: Panel, days: int) -> dict[str, Scores]:
    """Every model's scores on the same folds over the last `days` days of the panel."""
    at = cutoffs(panel, days)
    before = panel.at(at[0])
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    scores = {}
    for name, predict in predictors.items():
        found = folds(predict, panel, at)
        scores[name] = Scores(name, found, measure(found, scale), scale)
    return scores
