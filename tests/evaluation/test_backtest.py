"""Each held-out day is forecast once, only from earlier knowledge."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import NoUsableData
from forecaster.evaluation import backtest
from forecaster.evaluation.metrics import scored
from forecaster.serving.fallback import seasonal_naive
from tests.panels import LEVELS, NAN, bare, panel


def naive(before: Panel) -> Forecast:
    return seasonal_naive(before, LEVELS)


@pytest.mark.parametrize(("days", "count"), [(7, 1), (8, 2), (14, 2), (30, 5)])
def test_each_held_out_day_is_forecast_exactly_once(days: int, count: int) -> None:
    tonight = panel(3, 90, 7)
    folds = backtest.run({"naive": naive}, tonight, days)["naive"].folds
    assert len(folds) == count
    times = Counter(
        day
        for fold in folds
        for step, day in enumerate(fold.forecast.target_dates)
        if np.isfinite(fold.actuals[:, step]).all()
    )
    assert times == Counter({tonight.cutoff - timedelta(days=back): 1 for back in range(days)})
    assert backtest.run({"naive": naive}, tonight, days)["naive"].metrics["days"] == 3 * days


def test_cutoffs_are_a_horizon_apart_and_begin_before_the_held_out_days() -> None:
    tonight = panel(3, 31, 7)  # January; the last day is the 31st
    assert backtest.cutoffs(tonight, 9) == [date(2024, 1, 22), date(2024, 1, 29)]
    assert backtest.cutoffs(bare([[1.0] * 31], horizon=3), 6) == [date(2024, 1, 25), date(2024, 1, 28)]


def test_with_a_long_horizon_cutoffs_are_a_week_apart_and_known_days_are_scored() -> None:
    tonight = panel(3, 120, 28)
    assert backtest.cutoffs(tonight, 14) == [tonight.cutoff - timedelta(14), tonight.cutoff - timedelta(7)]
    folds = backtest.folds(naive, tonight, backtest.cutoffs(tonight, 14))
    assert [np.isfinite(fold.actuals).all(axis=0).sum() for fold in folds] == [14, 7]
    assert folds[0].forecast.quantiles.shape == (3, 28, len(LEVELS))


def test_held_out_days_are_forecast_from_each_week_ahead_and_earlier_days_not_scored() -> None:
    tonight = panel(3, 120, 28)
    at = [tonight.cutoff - timedelta(back) for back in (35, 28, 21, 14, 7)]
    assert backtest.reaching_cutoffs(tonight, 14) == at
    scores = backtest.run({"naive": naive}, tonight, 14)["naive"]
    assert [fold.forecast.cutoff for fold in scores.folds] == at
    days = scored(scores.folds, scores.scale)
    for week in range(4):
        of_week = days.day[(days.ahead - 1) // 7 == week]
        np.testing.assert_array_equal(np.sort(of_week), np.repeat(tonight.days[106:120], 3))
    assert [backtest.first_scored(fold) for fold in scores.folds] == [21, 14, 7, 0, 0]
    near = backtest.first_weeks(scores.folds)
    assert [fold.forecast.cutoff for fold in near] == at[-2:]
    assert [len(fold.forecast.target_dates) for fold in near] == [7, 7]


def test_early_cutoffs_need_enough_history_and_a_horizon_beyond_a_week() -> None:
    shorter = panel(3, 80, 28)  # 59 days of it are known three weeks before the end
    assert backtest.reaching_cutoffs(shorter, 14) == [shorter.cutoff - timedelta(back) for back in (21, 14, 7)]
    week = panel(3, 120, 7)
    assert backtest.reaching_cutoffs(week, 14) == backtest.cutoffs(week, 14)
    folds = backtest.folds(naive, week, backtest.cutoffs(week, 14))
    assert backtest.first_weeks(folds) == folds


def test_holding_out_everything_is_rejected() -> None:
    assert backtest.cutoffs(panel(3, 31, 7), 23)
    with pytest.raises(NoUsableData, match=r"31 days of history, and the backtest \(backtest\.days\) holds out 24"):
        backtest.cutoffs(panel(3, 31, 7), 24)
    with pytest.raises(NoUsableData):
        backtest.cutoffs(panel(3, 31, 7), 400)


def test_a_predictor_gets_nothing_after_the_cutoff() -> None:
    panels_seen: list[Panel] = []

    def spy(before: Panel) -> Forecast:
        panels_seen.append(before)
        return naive(before)

    tonight = panel(3, 60, 7)
    backtest.run({"spy": spy}, tonight, 20)
    assert [before.cutoff for before in panels_seen] == backtest.cutoffs(tonight, 20)
    for before in panels_seen:
        assert before.demand.shape[1] == before.history == (before.cutoff - date(2023, 12, 31)).days
        assert before.days[-1] == np.datetime64(before.cutoff) + 7
        assert before.open.shape[1] == before.covariates.shape[1] == before.calendar.shape[1] == before.history + 7


def test_later_counts_do_not_change_forecasts() -> None:
    tonight = panel(3, 60, 7)
    at = backtest.cutoffs(tonight, 20)
    before = backtest.folds(naive, tonight, at)
    for index, cutoff in enumerate(at):
        demand = np.array(tonight.demand)
        demand[:, tonight.at(cutoff).history :] = 1e6
        after = backtest.folds(naive, replace(tonight, demand=demand), at)
        np.testing.assert_array_equal(after[index].forecast.quantiles, before[index].forecast.quantiles)
        assert (after[index].actuals[np.isfinite(after[index].actuals)] == 1e6).all()
        if index:
            np.testing.assert_array_equal(after[0].forecast.quantiles, before[0].forecast.quantiles)


def test_actuals_by_hand_are_nan_if_not_scored() -> None:
    """Two depots, eleven days, cutoff on the seventh: four days have actuals, of which one is
    unknown and one closed."""
    demand = np.array([np.arange(11.0), 10 + np.arange(11.0)])
    demand[0, 8] = NAN
    tonight = bare(demand, closed=[(1, 9)])
    (fold,) = backtest.folds(naive, tonight, [date(2024, 1, 7)])
    np.testing.assert_array_equal(fold.actuals, [[7, NAN, 9, 10, NAN, NAN, NAN], [17, 18, NAN, 20, NAN, NAN, NAN]])


def test_all_models_have_the_same_actuals_and_the_scale_excludes_held_out_days() -> None:
    tonight = panel(3, 60, 7)
    scores = backtest.run({"one": naive, "two": naive}, tonight, 14)
    assert scores["one"].metrics == scores["two"].metrics
    assert scores["two"].model == "two"
    at = backtest.cutoffs(tonight, 14)[0]
    demand = np.array(tonight.at(at).demand, float)
    scale = np.abs(demand[:, 7:] - demand[:, :-7]).mean(axis=1)
    error = np.nanmean(
        np.concatenate([np.abs(f.forecast.median - f.actuals) for f in scores["one"].folds], axis=1), axis=1
    )
    assert scores["one"].metrics["mase"] == pytest.approx(float(np.mean(error / scale)), rel=1e-6)
