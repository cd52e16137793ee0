"""The gate compares a candidate with the model that would be published instead."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from forecaster.config import Gate
from forecaster.core.forecast import Forecast, Scores
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest as backtests
from forecaster.training.gate import judge
from tests import panels

LEVELS = panels.LEVELS
SPEC = panels.spec().model_copy(update={"gate": Gate(coverage=(0.0, 1.0))})
DAYS = 28


def low_by(share: float) -> backtests.Predictor:
    """Return a model whose medians are too low by a share of the actuals."""

    def predict(panel: Panel) -> Forecast:
        mean = FLEET.at(panel.cutoff + timedelta(days=panel.horizon)).demand[:, -panel.horizon :]
        quantiles = mean[..., None] * np.array([0.8, 1, 1.2]) * (1 - share)
        open_ = panel.open[:, panel.history :]
        return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, LEVELS, quantiles.astype(np.float32), open_)

    return predict


FLEET = panels.panel(12, 160, 7)
KNOWN = FLEET.at(FLEET.days[150].astype(object))


def scored(**models: backtests.Predictor) -> dict[str, Scores]:
    return backtests.run(models, KNOWN, DAYS)


@pytest.mark.parametrize("instead", ["prior", "champion"])
def test_a_biased_candidate_is_admitted_with_a_caution_if_the_published_model_is_worse(instead: str) -> None:
    spec = SPEC.model_copy(update={"gate": SPEC.gate.model_copy(update={"beat": ()})})
    models = {"candidate": low_by(0.05), "seasonal_naive": low_by(0.0), instead: low_by(0.2)}
    verdict = judge(scored(**models), spec)
    assert verdict.admitted
    assert verdict.objections[-1].startswith(f"{instead} would be published instead")
    del models[instead]
    assert not judge(scored(**models), spec).admitted
