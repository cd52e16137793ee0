"""The difference of two models on the same days, and its significance."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from forecaster.evaluation.metrics import measure
from forecaster.evaluation.paired_test import difference, loss, pairs, scored
from tests.panels import NAN, fold, scale

SIZE = scale([1.0, 2.0])


def test_the_difference_and_its_bounds_by_hand() -> None:
    """Errors of two depots on two days: theirs are always 2; ours 1 and 1 on the first, 3 and 1 on
    the second."""
    ours = [fold([[[0, 11, 20], [0, 13, 20]], [[0, 11, 20], [0, 9, 20]]], [[10, 10], [10, 10]])]
    theirs = [fold([[[0, 12, 20]] * 2] * 2, [[10, 10], [10, 10]])]
    result = difference(ours, theirs, SIZE, "wape")
    assert result.relative == pytest.approx((6 - 8) / 8)
    residuals = np.array([-2 + 0.25 * 4, 0 + 0.25 * 4])  # for each day: the difference, minus its share of theirs
    error = np.sqrt((residuals**2).sum() * 2) / 8
    assert result.high - result.relative == pytest.approx(1.6448536 * error)
    assert result.relative - result.low == pytest.approx(1.6448536 * error)
    assert result.days == 2
    assert result.sentence("A", "B", "wape") == (
        "A is 25.0 % better than B in wape, which may be chance (-66.1 % to +16.1 % over 2 days)"
    )


def test_the_bounds_of_three_days_by_hand() -> None:
    """Our errors are 1.5, 2 and 4 and theirs are 2: the variance of three days has two degrees of
    freedom."""
    ours = [fold([[[0, 11.5, 20], [0, 12, 20], [0, 14, 20]]], [[10, 10, 10]])]
    theirs = [fold([[[0, 12, 20]] * 3], [[10, 10, 10]])]
    result = difference(ours, theirs, SIZE, "wape")
    assert result.relative == pytest.approx(1.5 / 6)
    residuals = np.array([-0.5, 0, 2]) - 2 * 1.5 / 6
    error = np.sqrt((residuals**2).sum() * 3 / 2) / 6
    assert result.high - result.relative == pytest.approx(1.6448536 * error)


def test_a_single_depot_is_compared_alone() -> None:
    ours = [fold([[[0, 11, 20]], [[0, 30, 40]]], [[10], [10]])]
    theirs = [fold([[[0, 12, 20]]] * 2, [[10], [10]])]
    result = pairs(ours, theirs, SIZE, "wape").difference(0)
    assert (result.relative, result.days) == (-0.5, 1)
    assert (result.low, result.high) == (-float("inf"), float("inf"))  # one day has no information about chance


def test_only_days_on_which_both_were_scored_count() -> None:
    ours = [fold([[[0, 11, 20], [0, 99, 100]]], [[10, 10]])]
    theirs = [fold([[[0, 12, 20], [0, 12, 20]]], [[10, NAN]])]
    assert difference(ours, theirs, scale([1]), "wape").relative == -0.5
    later = [fold([[[0, 12, 20]]], [[10]], cutoff=date(2030, 1, 1))]
    nothing = difference(ours, later, scale([1]), "wape")
    assert np.isnan(nothing.relative)
    assert nothing.days == 0
    assert nothing.sentence("A", "B", "wape") == "A and B have no day in common"


def test_a_model_is_no_better_than_itself() -> None:
    same = [fold([[[0, 11, 20]] * 3], [[10, 12, 14]])]
    result = difference(same, same, scale([1]), "wql")
    assert (result.relative, result.low, result.high) == (0, 0, 0)
    assert "which may be chance" in result.sentence("A", "B", "wql")


@pytest.mark.parametrize("metric", ["wape", "mape", "mase", "wql"])
def test_parts_of_a_metric_add_up_to_it(metric: str) -> None:
    random = np.random.default_rng(1)
    actual = random.poisson(20, (2, 7)).astype(np.float32) + 1
    actual[0, 2] = NAN
    folds = [fold(np.sort(random.gamma(20, 1, (2, 7, 3)), axis=-1), actual)]
    days = scored(folds, SIZE)
    parts, expected = loss(days, metric), measure(folds, SIZE)[metric]
    total = {"wape": days.actual.sum(), "mape": len(parts), "mase": 2, "wql": days.actual.sum() / 2}[metric]
    assert parts.sum() / total == pytest.approx(expected)
