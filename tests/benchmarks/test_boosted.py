"""Blends of the network's quantiles and trees': no weight knows a later day, and no model that is trained anew does."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from tests import panels
from tests.benchmarks import boosted, retrained
from tests.benchmarks.boosted import Forecasts

LEVELS = (0.1, 0.5, 0.9)


def said(median: float, cutoffs: int, depots: int = 2, horizon: int = 7) -> Forecasts:
    """A model that says the same on all days, half as much and twice as much at most."""
    one = np.array([median / 2, median, 2 * median], np.float32)
    return Forecasts(np.broadcast_to(one, (cutoffs, depots, horizon, 3)).copy(), 1.0)


def test_quantiles_are_averaged_as_logs_by_the_weight_of_each_cutoff() -> None:
    ours, trees = said(3, 2).quantiles, said(15, 2).quantiles
    blend = boosted.blended(ours, trees, np.array([0.5, 1.0]))
    np.testing.assert_allclose(blend[0, 0, 0, 1], 7.0, rtol=1e-6)  # 8 lies half way from 4 to 16
    np.testing.assert_allclose(blend[1], trees[1], rtol=1e-6)


def test_the_weight_is_the_one_that_the_days_known_so_far_tell() -> None:
    ours, trees = said(10, 3), said(20, 3)
    actuals = np.full((3, 2, 7), 20.0, np.float32)
    actuals[2:] = 10.0
    assert boosted.tree_weight(ours, trees, actuals, LEVELS, known=2) == 1.0
    assert boosted.tree_weight(ours, trees, np.full_like(actuals, np.nan), LEVELS, known=2) == 0.5


def test_all_lines_are_scored_on_the_held_out_days_alone() -> None:
    counts = np.tile(10.0 + np.arange(140) % 3 / 10, (2, 1))
    counts[:, -56:] *= 2
    panel = panels.bare(counts)
    result = boosted.compared("small", panel, LEVELS, said(10, 12), said(20, 12))
    wape = {line: metrics["wape"] for line, metrics in result.metrics.items()}
    assert wape["ours"] == pytest.approx(0.5, abs=0.01)
    assert wape["lightgbm"] == pytest.approx(0.0, abs=0.01)
    assert wape["half and half"] == pytest.approx(1 - (np.sqrt(11 * 21) - 1) / 20, abs=0.01)
    # Before the held-out days ours was right, so what is weighed once stays with it, and what is weighed again moves.
    assert result.weights[0] == 0.0
    assert wape["weighed once"] == wape["ours, moved to the weighed median"] == wape["ours"]
    assert result.weights[-1] > 0.5
    assert wape["half and half"] < wape["weighed at each cutoff"] < wape["ours"]


def test_a_model_that_is_trained_anew_at_each_cutoff_knows_no_day_after_it() -> None:
    panel = panels.bare(np.arange(280.0).reshape(2, 140))
    at = [panel.cutoff - timedelta(days=days) for days in (14, 7)]

    def train(known: Panel, _: object) -> retrained.Predictor:
        return lambda before: panels.forecast(np.full((2, 7, 3), np.nanmax(known.demand[0])), cutoff=before.cutoff)

    predict = retrained.trained_anew(panel, at, panels.spec(), train)
    medians: list[Forecast] = [predict(panel.at(cutoff)) for cutoff in at]
    assert [float(forecast.median[0, 0]) for forecast in medians] == [125.0, 132.0]
