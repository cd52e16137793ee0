"""The gate compares a candidate with what is published without it, and a bias is removed before it judges."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

from forecaster.config import Gate
from forecaster.core.forecast import Candidate, Forecast, Scores
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation.rolling_calibration import RollingCalibration
from forecaster.training import backtest, fit_candidate
from forecaster.training.gate import judge
from tests import panels

LEVELS = panels.LEVELS
SPEC = panels.spec().model_copy(update={"gate": Gate(coverage=(0.0, 1.0))})
DAYS = 28


def low_by(share: float) -> backtests.Predictor:
    """A model whose medians are too low by a share of what comes."""

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
def test_a_biased_candidate_goes_out_with_a_caution_where_the_published_model_is_worse(instead: str) -> None:
    spec = SPEC.model_copy(update={"gate": SPEC.gate.model_copy(update={"beat": ()})})
    models = {"candidate": low_by(0.05), "seasonal_naive": low_by(0.0), instead: low_by(0.2)}
    verdict = judge(scored(**models), spec)
    assert verdict.admitted
    assert verdict.objections[-1].startswith(f"{instead} would be published instead")
    del models[instead]
    assert not judge(scored(**models), spec).admitted


def test_a_sure_bias_is_removed_before_the_gate_judges_and_from_the_model_that_goes_out() -> None:
    spec = SPEC.model_copy(update={"backtest": SPEC.backtest.model_copy(update={"days": DAYS})})
    rolling = RollingCalibration(low_by(0.1), [low_by(0.1)(KNOWN.at(day)) for day in days_before(5)])
    scores = backtests.run({"candidate": rolling}, KNOWN, DAYS)
    assert not judge(scores, spec.model_copy(update={"gate": Gate(beat=(), coverage=(0.0, 1.0))})).admitted
    corrected, again = backtest.with_bias_removed(rolling, scores, KNOWN, spec)
    assert abs(again["candidate"].metrics["bias"]) < 0.005
    assert again["candidate"].metrics["wape"] < 0.1 * scores["candidate"].metrics["wape"]
    parameters = {"blend": {}, "calibration": np.ones((7, 3))}
    blank = Candidate(parameters, {}, KNOWN.encoding, KNOWN.calendar_names, LEVELS, 7, {})
    final = fit_candidate.calibrated_after_backtest(blank, corrected, KNOWN, spec)
    np.testing.assert_allclose(final.parameters["blend"]["offset"], -np.log(0.9), atol=0.01)
    np.testing.assert_allclose(final.summary[fit_candidate.OFFSETS], -np.log(0.9), atol=0.01)


def test_a_bias_within_its_bound_is_left_alone() -> None:
    rolling = RollingCalibration(low_by(0.02), [low_by(0.02)(KNOWN.at(day)) for day in days_before(5)])
    scores = backtests.run({"candidate": rolling}, KNOWN, DAYS)
    assert backtest.with_bias_removed(rolling, scores, KNOWN, SPEC) == (rolling, scores)


def days_before(weeks: int) -> list[date]:
    first = backtests.cutoffs(KNOWN, DAYS)[0]
    return [first - timedelta(days=7 * week) for week in range(weeks, 0, -1)]
