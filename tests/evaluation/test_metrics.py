"""Each metric by hand and against its definition; signs, and what has nothing to be measured on."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

import numpy as np
import pytest

from forecaster.evaluation.metrics import measure, seasonal_scale
from forecaster.values import Doubles, Fold
from tests.panels import LEVELS, NAN, fold

ONE = np.ones(1)


def test_all_metrics_of_two_days_by_hand() -> None:
    """Actuals 10 and 20, medians 12 and 16, bands 8 to 14 and 10 to 18."""
    found = measure([fold([[[8, 12, 14], [10, 16, 18]]], [[10, 20]])], np.array([1.5]))
    pinball = [
        np.mean([0.1 * 2, 0.5 * 2, 0.1 * 4]),  # 10 above 8; 12 above 10; 14 above 10
        np.mean([0.1 * 10, 0.5 * 4, 0.9 * 2]),  # 20 above all three
    ]
    wanted = {
        "mape": (2 / 10 + 4 / 20) / 2,
        "wape": 6 / 30,
        "mase": 3 / 1.5,
        "bias": -2 / 30,
        "wql": 2 * sum(pinball) / 30,
        "coverage": 0.5,
        "width": 14 / 30,
        "days": 2,
    }
    assert found == pytest.approx(wanted)


def test_bias_is_forecast_minus_actual() -> None:
    assert measure([fold([[[0, 11, 12]]], [[10]])], ONE)["bias"] == pytest.approx(0.1)
    assert measure([fold([[[0, 9, 12]]], [[10]])], ONE)["bias"] == pytest.approx(-0.1)


ORACLES: dict[str, Callable[[Doubles, Doubles, Doubles], float]] = {
    "mape": lambda a, q, s: float(np.nanmean(np.where(a > 0, abs(q[..., 1] - a) / np.where(a > 0, a, 1), NAN))),
    "wape": lambda a, q, s: float(np.nansum(abs(q[..., 1] - a)) / np.nansum(a)),
    "mase": lambda a, q, s: float(np.mean(np.nanmean(abs(q[..., 1] - a), axis=1) / s)),
    "bias": lambda a, q, s: float(np.nansum(q[..., 1] - a) / np.nansum(a)),
    "wql": lambda a, q, s: float(
        np.mean([2 * np.nansum((a - q[..., i]) * (t - (a < q[..., i]))) for i, t in enumerate(LEVELS)]) / np.nansum(a)
    ),
    "coverage": lambda a, q, s: float(((q[..., 0] <= a) & (a <= q[..., 2])).sum() / np.isfinite(a).sum()),
    "width": lambda a, q, s: float((q[..., 2] - q[..., 0])[np.isfinite(a)].sum() / np.nansum(a)),
    "days": lambda a, q, s: float(np.isfinite(a).sum()),
}


@pytest.mark.parametrize("name", ORACLES)
def test_each_metric_is_its_definition_over_many_folds(name: str) -> None:
    random = np.random.default_rng(3)
    folds, actuals, quantiles = [], [], []
    for _ in range(3):
        a = random.poisson(3, (4, 7)).astype(np.float32)
        a[random.random(a.shape) < 0.2] = NAN
        q = np.sort(random.gamma(2, 2, (4, 7, 3)), axis=-1).astype(np.float32)
        folds.append(fold(q, a))
        actuals.append(a.astype(float))
        quantiles.append(q.astype(float))
    scale = np.array([1.0, 2.0, 0.5, 3.0])
    wanted = ORACLES[name](np.concatenate(actuals, axis=1), np.concatenate(quantiles, axis=1), scale)
    assert measure(folds, scale)[name] == pytest.approx(wanted)


def test_unknown_days_count_for_nothing() -> None:
    known = measure([fold([[[8, 12, 14]]], [[10]])], ONE)
    assert measure([fold([[[8, 12, 14], [0, 1e9, 2e9]]], [[10, NAN]])], ONE) == known
    assert known["days"] == 1


def test_the_ends_of_the_band_belong_to_it() -> None:
    said = [[[8, 12, 14]] * 4]
    assert measure([fold(said, [[8, 14, 7.9, 14.1]])], ONE)["coverage"] == 0.5


def test_days_without_orders_are_left_out_of_mape_alone() -> None:
    found = measure([fold([[[0, 1, 2], [0, 11, 12]]], [[0, 10]])], ONE)
    assert found["mape"] == pytest.approx(0.1)
    assert found["wape"] == pytest.approx(0.2)
    assert found["days"] == 2


def test_where_nobody_ever_came_shares_are_unknown() -> None:
    found = measure([fold([[[0, 1, 2]]], [[0]])], ONE)
    assert {name for name, value in found.items() if isnan(value)} == {"mape", "wape", "bias", "wql", "width"}
    assert found["mase"] == 1
    assert found["coverage"] == 1


@pytest.mark.parametrize("folds", [[], [fold([[[0, 1, 2]], [[0, 1, 2]]], [[NAN], [NAN]])]])
def test_with_nothing_to_score_every_metric_is_unknown(folds: list[Fold]) -> None:
    found = measure(folds, np.ones(2))
    assert found.pop("days") == 0
    assert all(isnan(value) for value in found.values())


def test_mase_is_the_mean_over_depots_that_have_a_scale_and_a_scored_day() -> None:
    said = [[[0, 12, 20]]] * 4
    found = measure([fold(said, [[10], [11], [NAN], [3]])], np.array([2.0, 1.0, 1.0, NAN]))
    assert found["mase"] == pytest.approx((2 / 2 + 1 / 1) / 2)


def test_the_scale_is_the_mean_weekly_change_by_hand() -> None:
    week = [1, 2, 3, 4, 5, 6, 7]
    demand = np.array(
        [
            [*week, 2, 2, 3, 7, 5, 6, 7],  # changes 1, 0, 0, 3, 0, 0, 0
            [*week, *week],  # constant from week to week: no scale
            [*week, NAN, 9, NAN, NAN, NAN, NAN, NAN],  # one known change: 7
            [NAN] * 14,
        ],
        np.float32,
    )
    usable = np.ones_like(demand, bool)
    np.testing.assert_allclose(seasonal_scale(demand, usable), [4 / 7, NAN, 7, NAN])
    usable[0, 3] = False  # closed on the day before the change of 3
    np.testing.assert_allclose(seasonal_scale(demand, usable)[0], 1 / 6)
    assert np.isnan(seasonal_scale(demand[:, :5], usable[:, :5])).all()
