"""Each metric by hand and against its definition; signs, and sets of days that cannot be measured."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Fold
from forecaster.evaluation.metrics import by, intervals, measure, of_days, scored, seasonal_scale, totals
from tests.panels import LEVELS, NAN, fold, scale

ONE_DEPOT = scale([1])


def test_all_metrics_of_two_days_by_hand() -> None:
    """Actuals 10 and 20, medians 12 and 16, bands 8 to 14 and 10 to 18."""
    metrics = measure([fold([[[8, 12, 14], [10, 16, 18]]], [[10, 20]])], scale([1.5], [4]))
    pinball = [
        np.mean([0.1 * 2, 0.5 * 2, 0.1 * 4]),  # 10 above 8; 12 above 10; 14 above 10
        np.mean([0.1 * 10, 0.5 * 4, 0.9 * 2]),  # 20 above all three
    ]
    expected = {
        "mape": (2 / 10 + 4 / 20) / 2,
        "smape": (2 / 22 + 4 / 36) / 2,
        "wape": 6 / 30,
        "mae": 3,
        "rmse": 10**0.5,
        "mase": 3 / 1.5,
        "rmsse": (10 / 4) ** 0.5,
        "bias": -2 / 30,
        "wql": 2 * sum(pinball) / 30,
        "coverage": 0.5,
        "width": 14 / 30,
        "winkler": (6 + 8 + 2 / 0.1) / 30,  # 20 lies 2 above its band
        "pinball_0.1": (0.1 * 2 + 0.1 * 10) / 2,
        "pinball_0.5": (0.5 * 2 + 0.5 * 4) / 2,
        "pinball_0.9": (0.1 * 4 + 0.9 * 2) / 2,
        "days": 2,
    }
    assert metrics == pytest.approx(expected)


def test_bias_is_forecast_minus_actual() -> None:
    assert measure([fold([[[0, 11, 12]]], [[10]])], ONE_DEPOT)["bias"] == pytest.approx(0.1)
    assert measure([fold([[[0, 9, 12]]], [[10]])], ONE_DEPOT)["bias"] == pytest.approx(-0.1)


ORACLES: dict[str, Callable[[Doubles, Doubles, Doubles], float]] = {
    "mape": lambda a, q, s: float(np.nanmean(np.where(a > 0, abs(q[..., 1] - a) / np.where(a > 0, a, 1), NAN))),
    "smape": lambda a, q, s: float(np.nanmean(abs(q[..., 1] - a) / np.maximum(a + q[..., 1], 1e-9))),
    "mae": lambda a, q, s: float(np.nanmean(abs(q[..., 1] - a))),
    "rmse": lambda a, q, s: float(np.nanmean((q[..., 1] - a) ** 2) ** 0.5),
    "rmsse": lambda a, q, s: float(np.mean(np.sqrt(np.nanmean((q[..., 1] - a) ** 2, axis=1)) / s)),
    "wape": lambda a, q, s: float(np.nansum(abs(q[..., 1] - a)) / np.nansum(a)),
    "mase": lambda a, q, s: float(np.mean(np.nanmean(abs(q[..., 1] - a), axis=1) / s)),
    "bias": lambda a, q, s: float(np.nansum(q[..., 1] - a) / np.nansum(a)),
    "wql": lambda a, q, s: float(
        np.mean([2 * np.nansum((a - q[..., i]) * (t - (a < q[..., i]))) for i, t in enumerate(LEVELS)]) / np.nansum(a)
    ),
    "coverage": lambda a, q, s: float(((q[..., 0] <= a) & (a <= q[..., 2])).sum() / np.isfinite(a).sum()),
    "winkler": lambda a, q, s: float(
        np.nansum(np.maximum(q[..., 2], a) - np.minimum(q[..., 0], a)) / np.nansum(a)
        + 9 * np.nansum(np.maximum(q[..., 0] - a, 0) + np.maximum(a - q[..., 2], 0)) / np.nansum(a)
    ),
    **{
        f"pinball_{t}": lambda a, q, s, i=i, t=t: float(  # type: ignore[misc]
            np.nanmean(np.where(a < q[..., i], (1 - t) * (q[..., i] - a), t * (a - q[..., i])) + 0 * a)
        )
        for i, t in enumerate(LEVELS)
    },
    "width": lambda a, q, s: float((q[..., 2] - q[..., 0])[np.isfinite(a)].sum() / np.nansum(a)),
    "days": lambda a, q, s: float(np.isfinite(a).sum()),
}


@pytest.mark.parametrize("name", ORACLES)
def test_each_metric_matches_its_definition_over_many_folds(name: str) -> None:
    random = np.random.default_rng(3)
    folds, actuals, quantiles = [], [], []
    for _ in range(3):
        a = random.poisson(3, (4, 7)).astype(np.float32)
        a[random.random(a.shape) < 0.2] = NAN
        q = np.sort(random.gamma(2, 2, (4, 7, 3)), axis=-1).astype(np.float32)
        folds.append(fold(q, a))
        actuals.append(a.astype(float))
        quantiles.append(q.astype(float))
    size = np.array([1.0, 2.0, 0.5, 3.0])
    expected = ORACLES[name](np.concatenate(actuals, axis=1), np.concatenate(quantiles, axis=1), size)
    assert measure(folds, scale(size))[name] == pytest.approx(expected)


def test_unknown_days_do_not_count() -> None:
    of_known_day = measure([fold([[[8, 12, 14]]], [[10]])], ONE_DEPOT)
    assert measure([fold([[[8, 12, 14], [0, 1e9, 2e9]]], [[10, NAN]])], ONE_DEPOT) == of_known_day
    assert of_known_day["days"] == 1


def test_the_ends_of_the_band_count_as_inside() -> None:
    quantiles = [[[8, 12, 14]] * 4]
    assert measure([fold(quantiles, [[8, 14, 7.9, 14.1]])], ONE_DEPOT)["coverage"] == 0.5


def test_days_without_orders_are_left_out_of_mape_only() -> None:
    metrics = measure([fold([[[0, 1, 2], [0, 11, 12]]], [[0, 10]])], ONE_DEPOT)
    assert metrics["mape"] == pytest.approx(0.1)
    assert metrics["wape"] == pytest.approx(0.2)
    assert metrics["days"] == 2


def test_without_any_orders_shares_are_nan() -> None:
    metrics = measure([fold([[[0, 1, 2]]], [[0]])], ONE_DEPOT)
    assert {name for name, value in metrics.items() if isnan(value)} == {
        "mape", "wape", "bias", "wql", "width", "winkler",
    }  # fmt: skip
    assert metrics["mase"] == 1
    assert metrics["coverage"] == 1


@pytest.mark.parametrize("folds", [[], [fold([[[0, 1, 2]], [[0, 1, 2]]], [[NAN], [NAN]])]])
def test_with_nothing_to_score_every_metric_is_nan(folds: list[Fold]) -> None:
    metrics = measure(folds, scale([1, 1]))
    assert metrics.pop("days") == 0
    assert all(isnan(value) for value in metrics.values())


def test_mase_is_the_mean_over_depots_that_have_a_scale_and_a_scored_day() -> None:
    quantiles = [[[0, 12, 20]]] * 4
    metrics = measure([fold(quantiles, [[10], [11], [NAN], [3]])], scale([2.0, 1.0, 1.0, NAN]))
    assert metrics["mase"] == pytest.approx((2 / 2 + 1 / 1) / 2)


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
    np.testing.assert_allclose(seasonal_scale(demand, usable).absolute, [4 / 7, NAN, 7, NAN])
    np.testing.assert_allclose(seasonal_scale(demand, usable).squared, [10 / 7, NAN, 49, NAN])
    usable[0, 3] = False  # closed on the day before the change of 3
    np.testing.assert_allclose(seasonal_scale(demand, usable).absolute[0], 1 / 6)
    assert np.isnan(seasonal_scale(demand[:, :5], usable[:, :5]).absolute).all()


def test_a_forecast_that_is_nan_makes_its_metrics_nan() -> None:
    metrics = measure([fold([[[8, NAN, 14]], [[8, 12, 14]]], [[10], [10]])], scale([1, 1]))
    assert {name for name, value in metrics.items() if isnan(value)} == {
        "mape", "smape", "wape", "mae", "rmse", "mase", "rmsse", "bias", "wql", "pinball_0.5",
    }  # fmt: skip


def test_metrics_match_utilsforecast() -> None:
    from utilsforecast import losses

    random = np.random.default_rng(5)
    history, actual = random.poisson(20, (3, 28)), random.poisson(20, (3, 7)) + 1
    quantiles = np.sort(random.gamma(20, 1, (3, 7, 3)), axis=-1)
    past, future = (_long(counts, start) for counts, start in ((history, 0), (actual, 28)))
    for place, name in enumerate(("low", "m", "high")):
        future[name] = quantiles[:, :, place].ravel()
    future["m-lo-80"], future["m-hi-80"] = future["low"], future["high"]
    ours = measure([fold(quantiles, actual)], seasonal_scale(history.astype(np.float32), np.ones((3, 28), bool)))
    theirs = {
        "mape": losses.mape(future, ["m"]),
        "smape": losses.smape(future, ["m"]),
        "mae": losses.mae(future, ["m"]),
        "mase": losses.mase(future, ["m"], 7, past),
        "rmsse": losses.rmsse(future, ["m"], 7, past),
        "coverage": losses.coverage(future, ["m"], 80),
        "pinball_0.1": losses.quantile_loss(future.assign(m=future["low"]), {"m": "m"}, 0.1),
        "pinball_0.9": losses.quantile_loss(future.assign(m=future["high"]), {"m": "m"}, 0.9),
    }
    assert {name: ours[name] for name in theirs} == pytest.approx(
        {name: float(table["m"].mean()) for name, table in theirs.items()}, rel=1e-6
    )
    quantile_loss = losses.mqloss(future, {"m": ["low", "m", "high"]}, np.array(LEVELS))["m"].mean()
    assert ours["wql"] == pytest.approx(2 * quantile_loss / actual.mean(), rel=1e-6)
    assert np.sign(ours["bias"]) == np.sign(losses.bias(future, ["m"])["m"].mean())


def _long(counts: Any, start: int) -> pd.DataFrame:
    depots, days = counts.shape
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(depots), days),
            "ds": np.tile(np.arange(start, start + days), depots),
            "y": counts.ravel().astype(float),
        }
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def test_parts_are_measured_by_their_labels() -> None:
    days = scored([fold([[[8, 12, 14], [10, 16, 18]], [[0, 1, 2], [0, 1, 2]]], [[10, 20], [NAN, 1]])], scale([1, 1]))
    by_depot = by(days, days.depot)
    assert list(by_depot) == ["0", "1"]
    assert by_depot["0"]["wape"] == pytest.approx(6 / 30)
    assert (by_depot["1"]["wape"], by_depot["1"]["days"]) == (0, 1)
    by_ahead = by(days, days.ahead)
    assert [by_ahead[ahead]["days"] for ahead in ("1", "2")] == [1, 2]
    assert by_ahead["2"]["mae"] == 2
    assert by(days[:0], []) == {}


def test_the_total_sums_depots_of_a_day() -> None:
    folds = [fold([[[8, 12, 14], [10, 16, 18]], [[0, 1, 2], [0, 5, 9]]], [[10, 20], [3, NAN]])]
    total = totals(scored(folds, scale([1, 1])))
    assert total.actual.tolist() == [13, 20]
    assert total.median.tolist() == [13, 16]  # unscored days are in neither sum
    metrics = of_days(total)
    assert metrics["wape"] == pytest.approx(4 / 33)
    assert isnan(metrics["mase"])


def test_intervals_are_pairs_of_mirrored_levels_the_widest_first() -> None:
    assert intervals((0.1, 0.2, 0.3, 0.5, 0.7, 0.9)) == [(0.1, 0.9), (0.3, 0.7)]
    levels = (0.1, 0.25, 0.5, 0.75, 0.9)
    metrics = measure([fold([[[0, 8, 10, 12, 20]]], [[13]], levels=levels)], ONE_DEPOT)
    assert (metrics["coverage"], metrics["coverage_50"]) == (1, 0)
    assert (metrics["width"], metrics["width_50"]) == (20 / 13, 4 / 13)
