"""A canary is judged by pairs of losses: by hand, and over seeds of fleets with a known truth."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from forecaster.config import Canary, Gate
from forecaster.evaluation.canary import bounds, judge, share_of_error
from forecaster.evaluation.paired_test import Pairs
from forecaster.evaluation.student import quantile
from tests.evaluation.canary_fleets import Fleet, outcome

CANARY, GATE = Canary(), Gate()


def pairs(ours: list[list[float]], theirs: list[list[float]]) -> Pairs:
    """Losses by depot and day."""
    depots, days = np.shape(ours)
    depot, day = np.repeat(np.arange(depots), days), np.tile(np.arange(days).astype("datetime64[D]"), depots)
    return Pairs(depot, day, np.ravel(ours).astype(float), np.ravel(theirs).astype(float))


def test_bounds_by_hand() -> None:
    came = pairs([[12.0], [9.0], [12.0]], [[10.0], [10.0], [10.0]])  # one day: 33 against 30
    before = pairs([[10.0, 11.0, 9.0, 10.0]], [[10.0, 10.0, 10.0, 10.0]])  # four days, each ± 1 of 10 at most
    relative, low, high, days = bounds(came, before, 0.05)
    of_depots = (1.0**2 + (-2.0) ** 2 + 1.0**2) * 3 / 2 / 30**2
    of_a_day = (0 + 1 + 1 + 0) * 4 / 3 * 4 / 40**2
    assert of_depots > of_a_day > 0
    reach = quantile(0.95, 2) * sqrt(of_depots)  # three depots have two degrees of freedom, four days three
    assert (relative, days) == (pytest.approx(0.1), 1)
    assert (low, high) == (pytest.approx(0.1 - reach), pytest.approx(0.1 + reach))


def test_the_certainty_of_one_day_follows_from_the_days_of_the_backtest() -> None:
    came = pairs([[12.0 + depot % 3] for depot in range(300)], [[10.0]] * 300)
    unlike = pairs([[2.0, 18.0, 2.0, 18.0, 10.0]], [[10.0] * 5])
    relative, low, high, _ = bounds(came, unlike, 0.05)
    spread = sqrt((64.0 * 4) * 5 / 4 * 5 / 50**2)
    assert relative == pytest.approx(0.3)
    assert high - relative == pytest.approx(quantile(0.95, 4) * spread)
    assert low < 0


@pytest.mark.parametrize("days", [1, 2])
def test_without_a_backtest_one_or_two_days_decide_nothing(days: int) -> None:
    came = pairs([[20.0] * days] * 50, [[10.0] * days] * 50)
    assert bounds(came, None, 0.05) == (1.0, -inf, inf, days)
    assert judge(came, None, days, CANARY, GATE).decision == "wait"


def test_without_a_backtest_three_days_give_their_own_bounds() -> None:
    came = pairs([[20.0, 21.0, 19.0]] * 50, [[10.0, 10.0, 10.0]] * 50)
    _, low, _, _ = bounds(came, None, 0.05)
    days = sqrt((50.0**2 + 50.0**2) * 3 / 2) / 1500
    assert low == pytest.approx(1 - quantile(0.95, 2) * days)


def test_the_errors_of_all_looks_sum_to_that_of_one_test() -> None:
    assert sum(share_of_error(look, 7) for look in range(1, 200)) == pytest.approx(0.05)
    assert share_of_error(7, 7) == pytest.approx(0.05 / 8)


def test_an_identical_model_is_promoted_after_half_of_the_nights() -> None:
    losses = [[10.0, 11.0, 9.0, 12.0]] * 20
    came = pairs(losses, losses)
    assert judge(came, came, 3, CANARY, GATE).decision == "wait"
    verdict = judge(came, came, 4, CANARY, GATE)
    assert (verdict.decision, verdict.days) == ("promote", 4)
    assert verdict.reason == (
        "0.0 % worse than the champion in wape (+0.0 % to +0.0 %) over 4 days: surely worse by no more than 2%"
    )


def test_without_significance_the_model_is_promoted_after_all_nights() -> None:
    came = pairs([[10.0, 30.0], [30.0, 10.0]], [[20.0, 20.0], [20.0, 20.0]])
    unsure = pairs([[2.0, 18.0, 2.0, 18.0]], [[10.0] * 4])
    assert judge(came, unsure, 6, CANARY, GATE).decision == "wait"
    last = judge(came, unsure, 7, CANARY, GATE)
    assert last.decision == "promote"
    assert last.reason.endswith("inconclusive after 7 nights, so the gate's verdict stands")


def test_a_significantly_worse_model_is_not_promoted_after_all_nights() -> None:
    came = pairs([[11.0 + depot % 2] for depot in range(40)], [[10.0]] * 40)
    before = pairs([[10.0, 10.7, 9.3, 10.0, 10.3, 9.7, 10.0] * 4], [[10.0] * 28])
    assert judge(came, before, 6, CANARY, GATE).decision == "wait"
    last = judge(came, before, 7, CANARY, GATE)
    assert last.decision == "go back"
    assert last.reason.endswith("surely worse after 7 nights")


def test_another_objection_revokes_the_canary() -> None:
    came = pairs([[10.0, 9.0]] * 4, [[10.0, 10.0]] * 4)
    verdict = judge(came, None, 2, CANARY, GATE, "its 80 % range covers 20.0 %")
    assert (verdict.decision, verdict.reason) == ("go back", "its 80 % range covers 20.0 %")
    assert verdict.numbers()["low"] is None


def test_days_without_any_loss_decide_nothing() -> None:
    nothing = pairs([[0.0, 0.0]] * 3, [[0.0, 0.0]] * 3)
    verdict = judge(nothing, nothing, 2, CANARY, GATE)
    assert (verdict.decision, verdict.reason) == ("wait", "no loss to compare on 2 days")


def test_equal_models_are_revoked_in_fewer_than_one_of_twenty_fleets() -> None:
    for shared in (0.09, 0.3):
        decisions = [outcome(Fleet(64, shared, "equal"), seed, CANARY, GATE) for seed in range(200)]
        assert sum(decision == "go back" for decision, _ in decisions) < 10


def test_forecasts_a_fifth_too_high_are_revoked_within_three_nights() -> None:
    nights = [outcome(Fleet(64, 0.09, "a fifth too high"), seed, CANARY, GATE) for seed in range(200)]
    assert sum(decision == "go back" and night <= 3 for decision, night in nights) >= 180
