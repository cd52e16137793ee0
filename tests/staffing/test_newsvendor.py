"""Crews by hand, and compared with all crews on a fine grid of demand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Staffing
from forecaster.core.arrays import Ints
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import roster
from tests.panels import LEVELS, forecast

NINE = tuple(tenth / 10 for tenth in range(1, 10))
RISING = [10, 20, 30, 40, 50, 60, 90, 100, 110]


def costs(short: float, idle: float, orders: float = 10, **more: Any) -> Staffing:
    return Staffing(orders_per_driver=orders, cost_short=short, cost_idle=idle, **more)


def drivers(predicted: Any, staffing: Staffing) -> Ints:
    return roster(predicted, staffing).drivers


def test_crew_suffices_with_the_critical_ratio_of_the_costs() -> None:
    """38 against 22: level 0.6333, a third of the way from 60 at level 0.6 to 90 at level 0.7: 70
    orders."""
    predicted = forecast([[RISING]], levels=NINE)
    assert drivers(predicted, costs(38, 22)).tolist() == [[7]]
    assert drivers(predicted, costs(38, 22, orders=9.9)).tolist() == [[8]]
    assert drivers(predicted, costs(1, 1)).tolist() == [[5]]


def test_cost_and_chance_by_hand() -> None:
    """Demand is uniform from 0 to 40 (normal tails reach a little beyond): 1, 2, 3 or 4 drivers, a
    quarter each.

    Two drivers: short of 1 or of 2 with a quarter each, idle with a quarter: (1 + 2) / 4 * 8 + 1 /
    4 * 4 = 7.
    """
    need = Need(np.array([0.0, 2.0, 4.0])[:, None], (0.0, 0.5, 1.0))
    crews = np.arange(6, dtype=np.int32)
    assert need.mean.tolist() == [2.5]
    assert need.suffices(crews).tolist() == [0, 0.25, 0.5, 0.75, 1, 1]
    assert need.idle(crews).tolist() == [0, 0, 0.25, 0.75, 1.5, 2.5]
    assert need.cost(crews, costs(8, 4)).tolist() == [20, 12, 7, 5, 6, 10]


def test_costs_of_one_more_and_one_fewer_are_those_of_such_crews() -> None:
    predicted, money = forecast([[RISING]], levels=NINE), costs(38, 22)
    plan = roster(predicted, money)
    need = Need.of(predicted.quantiles, NINE, 10)
    expected = [need.cost(np.array([[n]], np.int32), money).item() for n in (6, 7, 8)]
    costs_around = [plan.one_fewer.item(), plan.expected_cost.item(), plan.one_more.item()]
    assert costs_around == pytest.approx(expected)
    assert (
        costs_around[1] == pytest.approx(min(costs_around)) == pytest.approx(costs_around[2])
    )  # at the critical ratio one more driver costs the same
    assert plan.chance_short.item() == pytest.approx(1 - (0.6 + 0.1 / 3))  # 7 drivers carry 70 orders


def test_one_more_and_one_fewer_cost_more_than_the_optimal_crew() -> None:
    predicted, money = forecast([[RISING]], levels=NINE), costs(30, 22)
    plan = roster(predicted, money)
    crew = plan.drivers.item()
    need = Need.of(predicted.quantiles, NINE, 10)
    expected = [need.cost(np.array([[n]], np.int32), money).item() for n in (crew - 1, crew, crew + 1)]
    costs_around = [plan.one_fewer.item(), plan.expected_cost.item(), plan.one_more.item()]
    assert costs_around == pytest.approx(expected)
    assert costs_around[1] + 0.1 < min(costs_around[0], costs_around[2])


def test_tails_beyond_the_outermost_levels_have_the_mean_of_a_normal() -> None:
    """Standard normal around 10: beyond level 0.9 its mean is 10 + 1.755, so the end is 10 + 2 *
    1.755 - 1.2816."""
    normal = [10 - 1.2816, 10 - 0.8416, 10.0, 10 + 0.8416, 10 + 1.2816]
    need = Need.of(np.array(normal), (0.1, 0.2, 0.5, 0.8, 0.9), 1)
    assert need.knots[[0, -1]] == pytest.approx([20 - 12.2284, 12.2284], abs=1e-3)
    assert (need.knots[-1] + need.knots[-2]) / 2 == pytest.approx(11.755, abs=1e-3)
    assert Need.of(np.array([1.0, 3.0, 9.0]), LEVELS, 1).knots[0] == 0  # and no demand is negative


@given(
    quantiles=st.lists(st.floats(0, 400), min_size=3, max_size=9),
    short=st.floats(0.5, 100),
    idle=st.floats(0.5, 100),
    orders=st.floats(3, 90),
)
def test_no_other_crew_has_a_lower_expected_cost(
    quantiles: list[float], short: float, idle: float, orders: float
) -> None:
    """Compared with each crew's average cost over a uniform grid of the same quantile function."""
    levels = tuple(np.linspace(0.1, 0.9, len(quantiles)).round(6).tolist())
    predicted = forecast([[sorted(quantiles)]], levels=levels)
    money = costs(short, idle, orders, crew={"min": 0})
    plan = roster(predicted, money)
    need = Need.of(predicted.quantiles, levels, orders)
    shares = (np.arange(20_000) + 0.5) / 20_000
    needed = np.ceil(np.interp(shares, need.levels, need.knots[:, 0, 0]))
    crews = np.arange(int(needed.max()) + 2)
    bill = np.array(
        [short * np.clip(needed - n, 0, None).mean() + idle * np.clip(n - needed, 0, None).mean() for n in crews]
    )
    least = 0.01 * (short + idle) * max(1.0, float(needed.max()) / 50)  # tolerance of the grid
    assert plan.expected_cost.item() == pytest.approx(bill[plan.drivers.item()], abs=least)
    exact = need.cost(crews.astype(np.int32)[:, None, None], money).ravel()
    assert plan.expected_cost.item() <= exact.min() + 1e-4 * (short + idle)
    assert exact == pytest.approx(bill, abs=least)
    assert (np.diff(exact, 2) >= -1e-6 * (short + idle)).all()  # convexity, which makes greedy allocation optimal


@pytest.mark.parametrize(("short", "idle", "expected"), [(1, 999, 1), (999, 1, 5)])
def test_ratio_beyond_the_outermost_level_is_read_from_the_tail(short: float, idle: float, expected: int) -> None:
    """From 30 at level 0.9 the tail reaches 2 * 0.4734 / 1.2816 = 0.74 times the distance from 20
    to 30: to 37.4."""
    assert drivers(forecast([[[10, 20, 30]]]), costs(short, idle, orders=8)).tolist() == [[expected]]


def test_closed_days_have_no_drivers_and_open_days_at_least_one() -> None:
    predicted = forecast([[[0, 0, 0], [0, 0, 0], [0, 0, 0.1]]], closed=[(0, 1)])
    plan = roster(predicted, costs(1, 3))
    assert plan.drivers.tolist() == [[1, 0, 1]]
    assert plan.drivers.dtype == np.int32
    assert plan.expected_cost[0, :2].tolist() == [3, 0]  # the driver without work is idle
    assert plan.chance_short[0, :2].tolist() == [0, 0]
    assert np.isnan(plan.one_more[0, 1])


def test_depot_without_orders_gets_the_minimum_crew() -> None:
    """A model forecasts 0.0075 orders when it means none; half an order counts as a possible one."""
    never = forecast([[[0.0, 0.0075, 0.02]] * 2, [[0.0, 0.5, 1.0]] * 2])
    for least in (0, 1, 2):
        staffing = costs(38, 22, crew={"min": least})
        assert drivers(never, staffing).tolist() == [[least] * 2, [max(least, 1)] * 2]
    assert roster(never, costs(38, 22, crew={"min": 0})).expected_cost[0].tolist() == [0, 0]
    loads = forecast([[[0.2, 0.3, 0.4]]])  # truckloads, each of which is a driver's day
    assert drivers(loads, costs(38, 22, orders=1, crew={"min": 0})).tolist() == [[1]]


def test_limits_hold_and_exclude_steps_beyond_them() -> None:
    predicted = forecast([[[10, 20, 30], [70, 80, 90]]])
    plan = roster(predicted, costs(1, 1, crew={"min": 3, "max": 6}))
    assert plan.drivers.tolist() == [[3, 6]]
    assert np.isnan(plan.one_fewer).tolist() == [[True, False]]
    assert np.isnan(plan.one_more).tolist() == [[False, True]]
    with pytest.raises(ValueError, match="found min 3 and max 2"):
        costs(1, 1, crew={"min": 3, "max": 2})


def test_float_rounding_adds_no_driver() -> None:
    """Thirty orders are three drivers' work, even if float32 gives 30.000002."""
    assert drivers(forecast([[[10, np.float32(30.000002), 50]]]), costs(1, 1)).tolist() == [[3]]
    assert drivers(forecast([[[10, 30.1, 50]]]), costs(1, 1)).tolist() == [[4]]


def test_higher_shortage_cost_never_means_fewer_drivers() -> None:
    random = np.random.default_rng(0)
    predicted = forecast(np.sort(random.gamma(2, 40, (5, 7, 9)), axis=-1), levels=NINE)
    crews = [drivers(predicted, costs(short, 20)) for short in (1, 5, 15, 20, 40, 100, 1000)]
    for fewer, more in pairwise(crews):
        assert (more >= fewer).all()
    assert (crews[-1] > crews[0]).any()
