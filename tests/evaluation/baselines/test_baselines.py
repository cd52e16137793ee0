"""Every baseline forecasts from the days before its cutoff, and gives a sensible forecast for every
depot."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from datetime import timedelta
from functools import cache

import numpy as np
import pytest

from forecaster.core.language import use_language
from forecaster.core.language.sentences import retold, stored
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra
from forecaster.evaluation import backtest, baselines
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.statsforecast import fill_gaps
from forecaster.serving.fallback import seasonal_naive
from tests.panels import LEVELS, NAN, bare, panel

EMPTY, GAPS = 3, 1  # a depot without known days, and one with unknown and closed days


@cache
def tonight() -> Panel:
    """Four depots over 150 days: one of them with gaps and closed Sundays, one of them new."""
    ordinary = panel(4, 150, 7)
    demand, open_ = ordinary.demand.copy(), ordinary.open.copy()
    demand[EMPTY] = demand[GAPS, 30:41] = demand[GAPS, -2:] = NAN
    open_[GAPS, 6::7] = False
    return replace(ordinary, demand=demand, open=open_)


@cache
def fitted(name: str) -> Predictor:
    return baselines.fit(name, before(), LEVELS)


def before() -> Panel:
    return tonight().at(tonight().cutoff - timedelta(days=14))


@pytest.mark.parametrize("name", baselines.NAMES)
def test_every_depot_gets_ordered_quantiles_and_closed_days_are_zero(name: str) -> None:
    for cutoff in backtest.cutoffs(tonight(), 14):
        forecast = fitted(name)(tonight().at(cutoff))
        assert forecast.cutoff == cutoff
        assert forecast.levels == LEVELS
        assert np.isfinite(forecast.quantiles).all()
        assert (np.diff(forecast.quantiles, axis=2) >= 0).all()
        assert (forecast.quantiles[~forecast.open] == 0).all()
        assert (forecast.quantiles[:GAPS] > 0).all()


@pytest.mark.parametrize("name", baselines.NAMES)
def test_a_weekly_rhythm_is_forecast(name: str) -> None:
    scores = backtest.run({name: fitted(name)}, tonight(), 14)[name].metrics
    assert scores["mase"] < 1.1
    assert abs(scores["bias"]) < 0.1


@pytest.mark.parametrize("name", baselines.NAMES)
def test_days_after_the_cutoff_have_no_effect(name: str) -> None:
    cutoff = before().cutoff
    demand = tonight().demand.copy()
    demand[:, before().history :] *= 100
    changed = replace(tonight(), demand=demand)
    np.testing.assert_array_equal(
        fitted(name)(changed.at(cutoff)).quantiles, baselines.fit(name, before(), LEVELS)(before()).quantiles
    )


@pytest.mark.parametrize("name", baselines.NAMES)
def test_new_history_is_used(name: str) -> None:
    later = tonight()
    doubled = later.demand.copy()
    doubled[0, before().history :] *= 2
    plain, raised = fitted(name)(later), fitted(name)(replace(later, demand=doubled))
    # a stable past may make a method slow to react, but it must react
    assert raised.median[0].sum() > plain.median[0].sum()
    np.testing.assert_allclose(raised.median[2], plain.median[2], rtol=0.05)


@pytest.mark.parametrize("name", ["auto_ets", "theta", "mstl", "prophet", "lightgbm"])
def test_a_depot_without_history_gets_the_seasonal_naive(name: str) -> None:
    np.testing.assert_array_equal(
        fitted(name)(before()).quantiles[EMPTY], fitted("seasonal_naive")(before()).quantiles[EMPTY]
    )


@pytest.mark.parametrize("module", ["lightgbm", "prophet", "statsforecast"])
def test_a_missing_package_is_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "statsforecast.models", raising=False)
    name = {"statsforecast": "theta"}.get(module, module)
    with pytest.raises(
        MissingExtra, match=rf"the baseline {name} needs .*pip install 'harbor-forecaster\[baselines\]'"
    ):
        baselines.fit(name, tonight(), LEVELS)
    missing = baselines.fit_or_message(name, tonight(), LEVELS)
    assert isinstance(missing, str)
    with use_language("es"):
        assert retold(stored(missing), "").startswith(f"el modelo de referencia {name} necesita el paquete ")


def test_an_unknown_baseline_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown baseline 'sarima'; wanted one of seasonal_naive, "):
        baselines.fit("sarima", tonight(), LEVELS)


def test_the_seasonal_naive_baseline_matches_the_published_fallback() -> None:
    np.testing.assert_allclose(
        fitted("seasonal_naive")(before()).quantiles, seasonal_naive(before(), LEVELS).quantiles, rtol=1e-5
    )


def test_the_window_average_is_the_mean_of_the_last_four_known_same_weekdays() -> None:
    weeks = np.arange(1.0, 7.0)[:, None] * 10 + np.arange(7.0)  # week 1: 10 … 16, week 6: 60 … 66
    weeks[5, 2] = weeks[3, 2] = NAN  # the third weekday: 52, 32, 22 and 12 remain
    predict = baselines.fit("seasonal_window_average", bare(weeks.reshape(1, -1)), LEVELS)
    median = predict(bare(weeks.reshape(1, -1))).median[0]
    np.testing.assert_allclose(median, [45, 46, (52 + 32 + 22 + 12) / 4, 48, 49, 50, 51], rtol=1e-6)


def test_the_window_average_ignores_closed_days() -> None:
    counts = np.full((1, 42), 8.0)
    counts[0, 35] = 0
    predict = baselines.fit("seasonal_window_average", bare(counts), LEVELS)
    assert predict(bare(counts)).median[0, 0] == pytest.approx(6)
    assert predict(bare(counts, closed=[(0, 35)])).median[0, 0] == pytest.approx(8)
    assert predict(bare(counts, closed=[(0, 42)])).median[0, 0] == 0


def test_gaps_are_filled_by_the_same_weekday() -> None:
    imputed = fill_gaps(np.array([[1, 2, 3, 4, NAN, 6, 7, 11, NAN, 13, 14, 15, 16, 17], [NAN] * 14]))
    np.testing.assert_array_equal(imputed[0], [1, 2, 3, 4, 15, 6, 7, 11, 2, 13, 14, 15, 16, 17])
    assert np.isnan(imputed[1]).all()
    never = np.tile([2.0, 4, 6, 8, 10, 12, NAN], 3)[None]
    np.testing.assert_array_equal(fill_gaps(never)[0, 5:8], [12, 7, 2])


def test_prophet_logs_nothing_and_keeps_the_global_random_state(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    with caplog.at_level(logging.DEBUG):
        fitted("prophet")(before())
    assert np.random.random() == expected
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
