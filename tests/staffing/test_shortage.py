"""Savings of drivers under a growing cost of shortage: by hand, and compared with the sum over all
days."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Staffing
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import roster
from forecaster.staffing.placing import FIRST, FLOOR, FURTHER
from forecaster.staffing.shortage import claims, driver_savings
from forecaster.staffing.vans import VanPool
from tests.panels import forecast

MONEY = Staffing(orders_per_driver=10, cost_short=8, cost_idle=4, cost_short_growth=1)


def need_of(*knots: float) -> Need:
    return Need(np.array(knots)[:, None], tuple(np.linspace(0, 1, len(knots))))


def test_first_drivers_save_the_growing_cost_of_missing_ones() -> None:
    """One to four drivers are needed, on a quarter of the days each. The second saves 8 on the
    three quarters that need it, 8 (2 - 1) / 3 more on those that need three, 8 (2/4) on those that
    need four, and costs 4 on the rest: 6 + 2/3 + 1 - 1."""
    need = need_of(0, 2, 4)
    savings = driver_savings(np.array([4], np.int32), need, MONEY)
    assert savings == pytest.approx([8 * (1 + (1 / 2 + 2 / 3 + 3 / 4) / 4), 6 + 2 / 3 + 1 - 1, 2.5, -1])
    linear = MONEY.model_copy(update={"cost_short_growth": 0})
    assert driver_savings(np.array([3], np.int32), need, linear) == pytest.approx([8, 5, 2])


@given(seed=st.integers(0, 10_000), growth=st.floats(0, 10))
def test_savings_are_decreasing_differences_of_the_expected_cost(seed: int, growth: float) -> None:
    """Cost of a crew, day by day: the k-th missing driver of N costs 8 (1 + growth (k - 1) / N)."""
    random = np.random.default_rng(seed)
    knots = np.sort(random.gamma(2, 3, (6, 3)), axis=0)
    need, money = Need(knots, tuple(np.linspace(0, 1, 6))), MONEY.model_copy(update={"cost_short_growth": growth})
    crews = np.array([3, 1, 5], np.int32)
    most = int(np.ceil(knots.max())) + 1
    exceeds = np.array([1 - need.suffices(np.full(3, k, np.int32)) for k in range(most + 1)])
    chances = -np.diff(exceeds, axis=0, prepend=1)

    def cost(crew: int, depot: int) -> float:
        bills = [
            sum(8 * (1 + growth * k / needed) for k in range(needed - crew)) + 4 * max(crew - needed, 0)
            for needed in range(most + 1)
        ]
        return float(chances[:, depot] @ bills)

    expected = [cost(n, depot) - cost(n + 1, depot) for depot in range(3) for n in range(crews[depot])]
    savings = driver_savings(crews, need, money)
    assert savings == pytest.approx(expected, abs=1e-9)
    for depot, start in enumerate((0, 3, 4)):
        assert (np.diff(savings[start : start + crews[depot]]) <= 1e-9).all()


def test_equal_missing_shares_have_equal_marginal_cost_at_any_depot_size() -> None:
    """Both have a certain need and miss half of it: their last driver saves 8 (1 + 4/8) with a need
    of eight, and 8 (1 + 40/80) with a need of eighty."""
    small, large = need_of(8, 8, 8), need_of(80, 80, 80)
    savings = [driver_savings(np.array([n], np.int32), need, MONEY) for n, need in ((8, small), (80, large))]
    assert savings[0][3] == pytest.approx(8 * (1 + 4 / 8))
    assert savings[1][39] == pytest.approx(8 * (1 + 40 / 80))


def test_growth_never_increases_the_wanted_crew() -> None:
    predicted = forecast([[[20, 30, 50]], [[5, 60, 90]]])
    crews = [
        roster(predicted, MONEY.model_copy(update={"cost_short_growth": growth})).drivers.tolist() for growth in (0, 50)
    ]
    assert crews[0] == crews[1]


def test_claims_are_tiered_and_a_van_saves_the_sum_of_its_drivers() -> None:
    """Five drivers, two to a van: the first two are the minimum crew; 0.7 of the median's 5 is 3.5,
    so the van of the third and fourth is at the floor, with 2 of 5 placed before it."""
    need = need_of(5, 5, 5)
    pool = VanPool(9, np.zeros(1, np.intp), None, 2)
    claimed = claims(np.array([5], np.int32), need, MONEY, pool)
    assert claimed.tier.tolist() == [FIRST, FLOOR, FURTHER]
    assert claimed.share.tolist() == [1, 0.4, 1]
    assert claimed.saving == pytest.approx([8 * (1.8 + 1.6), 8 * (1.4 + 1.2), 8])
