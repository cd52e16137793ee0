"""Intervals that follow a model's own errors, known at each cutoff and not earlier."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest, calibration
from forecaster.evaluation.rolling_calibration import RollingCalibration
from tests import panels

LEVELS = (0.1, 0.5, 0.9)
DAYS, HELD_OUT = 140, 56


def fleet(noise: float = 0.3) -> Panel:
    """Thirty depots about a hundred orders, log-normal."""
    ordinary, random = panels.panel(30, DAYS, 7), np.random.default_rng(0)
    counts = np.expm1(np.log(101) + noise * random.normal(size=ordinary.demand.shape)).astype(np.float32)
    return replace(ordinary, demand=counts, open=np.ones_like(ordinary.open))


def narrow(panel: Panel) -> Forecast:
    """Forecast the correct median, and a third of the distances that would cover four fifths."""
    reach = 1.2816 * 0.1 * np.array([-1, 0, 1])
    quantiles = np.tile(np.expm1(np.log(101) + reach), (len(panel.depot_ids), panel.horizon, 1)).astype(np.float32)
    open_ = panel.open[:, panel.history :]
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, LEVELS, quantiles, open_)


def widths(forecast: Forecast) -> Floats:
    log = np.log1p(forecast.quantiles)
    relative: Floats = (log[..., 2] - log[..., 0]) / (2 * 1.2816 * 0.3)
    return relative


def test_narrow_intervals_widen_with_actuals_to_nominal_coverage() -> None:
    panel = fleet()
    at = backtest.cutoffs(panel, HELD_OUT)
    rolling = RollingCalibration(narrow)
    folds = backtest.folds(rolling, panel, at)
    assert widths(folds[0].forecast).mean() == pytest.approx(1 / 3, rel=0.01)  # nothing is known yet
    np.testing.assert_allclose([widths(f.forecast).mean() for f in folds[1:]], 1, atol=0.15)
    for fold in folds:
        np.testing.assert_array_equal(fold.forecast.median, narrow(panel.at(fold.forecast.cutoff)).median)
    last = calibration.stretched(narrow(panel), rolling.factors(panel))
    assert widths(last).mean() == pytest.approx(1, abs=0.08)


def test_a_cutoff_uses_only_earlier_actuals() -> None:
    """Cutoffs a day apart: one day of yesterday's forecast has an actual. Later days may have any
    value."""
    panel = fleet()
    at = backtest.cutoffs(panel, 21, every=1)
    place = panel.days.tolist().index(at[9])
    mad = replace(panel, demand=np.where(np.arange(DAYS) > place, np.float32(9e6), panel.demand))
    calm, wild = (backtest.folds(RollingCalibration(narrow), of_panel, at) for of_panel in (panel, mad))
    for calm_fold, wild_fold in list(zip(calm, wild, strict=True))[:10]:
        np.testing.assert_array_equal(calm_fold.forecast.quantiles, wild_fold.forecast.quantiles)
    assert widths(wild[12].forecast).mean() > 1.5 * widths(calm[12].forecast).mean()


def test_forecasts_before_the_first_cutoff_count() -> None:
    panel = fleet()
    at = backtest.cutoffs(panel, HELD_OUT)
    earlier = [narrow(panel.at(at[0] - timedelta(days=7 * weeks))) for weeks in (1, 2, 3, 4)]
    assert widths(RollingCalibration(narrow, earlier)(panel.at(at[0]))).mean() == pytest.approx(1, abs=0.1)


def test_training_days_do_not_count() -> None:
    """Forecasts that began before the end of training count on the days after it."""
    panel = fleet()
    at = backtest.cutoffs(panel, HELD_OUT)[0]
    earlier = [narrow(panel.at(at - timedelta(days=back))) for back in (10, 4)]
    for until, width in ((at, 1 / 3), (at - timedelta(days=4), 1)):
        rolling = RollingCalibration(narrow, earlier, trained_until=until)
        assert widths(rolling(panel.at(at))).mean() == pytest.approx(width, abs=0.15)


def test_closed_days_do_not_count() -> None:
    panel = fleet()
    at = backtest.cutoffs(panel, HELD_OUT)
    shut = replace(panel, open=np.arange(DAYS + 7)[None] < DAYS - HELD_OUT + np.zeros((30, 1)))
    for fold in backtest.folds(RollingCalibration(narrow), shut, at):
        assert widths(fold.forecast).mean() == pytest.approx(1 / 3, rel=0.01)


def test_a_stretched_forecast_keeps_its_median_its_order_and_its_zeros() -> None:
    quantiles = np.float32([[[0, 0, 0], [5, 10, 30], [8, 9, 9.5]]])
    days = tuple(panels.panel(1, 20, 3).target_dates)
    before = Forecast(("A",), panels.panel(1, 20, 3).cutoff, days, LEVELS, quantiles, np.array([[False, True, True]]))
    stretched = calibration.stretched(before, np.float32([[2, 1, 2], [30, 1, 0.5], [0.3, 1, 1]])).quantiles
    np.testing.assert_array_equal(stretched[..., 1], quantiles[..., 1])
    np.testing.assert_array_equal(stretched[0, 0], 0)
    assert stretched[0, 1, 0] == 0  # so far down that it would be negative
    assert stretched[0, 1, 2] == pytest.approx(np.sqrt(11 * 31) - 1, rel=1e-6)
    assert stretched[0, 2].tolist() == pytest.approx([np.expm1(np.log(10) + 0.3 * np.log(9 / 10)), 9, 9.5], rel=1e-6)
