"""A model that is retrained at each cutoff has seen no later day."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from tests import panels
from tests.benchmarks import retrained


def test_a_model_retrained_at_each_cutoff_has_seen_no_later_day() -> None:
    panel = panels.bare(np.arange(280.0).reshape(2, 140))
    at = [panel.cutoff - timedelta(days=days) for days in (14, 7)]

    def train(past: Panel, _: object) -> retrained.Predictor:
        return lambda before: panels.forecast(np.full((2, 7, 3), np.nanmax(past.demand[0])), cutoff=before.cutoff)

    predict = retrained.retrain_at(panel, at, panels.spec(), train)
    medians: list[Forecast] = [predict(panel.at(cutoff)) for cutoff in at]
    assert [float(forecast.median[0, 0]) for forecast in medians] == [125.0, 132.0]
