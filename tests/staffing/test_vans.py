"""Vans go where they save most, against an exact solver, and loans are what homes and places differ by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp  # the second opinion, in tests alone

from forecaster.config import Staffing, Vans
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError
from forecaster.staffing.newsvendor import Need, roster
from forecaster.staffing.vans import Loan, VanPool
from tests.panels import LEVELS, forecast

MONEY = Staffing(orders_per_driver=10, cost_short=30, cost_idle=10)


def fleet(total: int, cities: list[int], home: list[int] | None = None, sharing: int = 1) -> VanPool:
    homes = None if home is None else np.array(home, np.int32)
    return VanPool(total, np.array(cities, np.intp), homes, sharing)


def days(random: np.random.Generator, depots: int, horizon: int = 2) -> Forecast:
    return forecast(np.sort(random.gamma(2, 15, (depots, horizon, len(LEVELS))), axis=-1))


def cheapest(predicted: Forecast, money: Staffing, cars: VanPool, day: int) -> float:
    """The least expected cost of one day by mixed-integer programming: one binary for each crew of each depot."""
    need = Need.of(predicted.quantiles, predicted.levels, money.orders_per_driver)
    most = roster(predicted, money).drivers[:, day].max() + 1
    crews = np.tile(np.arange(most, dtype=np.int32)[:, None], len(predicted.depot_ids))
    bill = Need(need.knots[:, :, day], need.levels).cost(crews, money).T  # (depots, crews)
    vans = -(-crews.T // cars.drivers_per_van)
    home = np.zeros(len(bill), int) if cars.home is None else cars.home
    reserve = max(cars.total - int(home.sum()), 0)
    cities = np.unique(cars.city)
    size = bill.size + len(cities)  # and for each city the vans without a home that it gets
    chosen = np.zeros((len(bill), size))
    for depot in range(len(bill)):
        chosen[depot, depot * most : (depot + 1) * most] = 1
    placed = np.zeros((len(cities) + 2, size))
    limits = []
    for i, city in enumerate(cities):
        placed[i, : bill.size] = np.where((cars.city == city)[:, None], vans, 0).ravel()
        placed[i, bill.size + i] = -1
        limits.append(home[cars.city == city].sum())
    placed[-2, bill.size :], placed[-1, : bill.size] = 1, vans.ravel()
    limits += [reserve, cars.total]
    allowed = crews.T.ravel() >= money.crew.min
    solution = milp(
        np.concatenate([bill.ravel(), np.zeros(len(cities))]),
        integrality=np.ones(size),
        bounds=(np.zeros(size), np.concatenate([allowed, np.full(len(cities), reserve)])),
        constraints=[LinearConstraint(chosen, 1, 1), LinearConstraint(placed, -np.inf, np.array(limits))],
        options={"mip_rel_gap": 0},
    )
    assert solution.success, solution.message
    return float(solution.fun)


@given(
    seed=st.integers(0, 10_000),
    cities=st.lists(st.integers(0, 2), min_size=2, max_size=6),
    share=st.floats(0.2, 1.2),
    homes=st.sampled_from([None, "fewer", "as many", "more"]),
    sharing=st.integers(1, 2),
    least=st.sampled_from([0, 1]),
)
@settings(max_examples=60, deadline=None)
def test_no_other_placing_is_expected_to_cost_less(
    seed: int, cities: list[int], share: float, homes: str | None, sharing: int, least: int
) -> None:
    random = np.random.default_rng(seed)
    predicted = days(random, len(cities))
    money = MONEY.model_copy(update={"crew": MONEY.crew.model_copy(update={"min": least})})
    free = roster(predicted, money).drivers
    total = max(round(share * free.max(axis=1).sum() / sharing), len(cities))
    number = {None: 0, "fewer": total // 2, "as many": total, "more": total + 3}[homes]
    home = None
    if homes is not None:  # each depot has a van of its own, so that the smallest crews are possible
        home = (1 + random.multinomial(max(number - len(cities), 0), np.ones(len(cities)) / len(cities))).tolist()
    cars = fleet(total, cities, home, sharing)
    plan = roster(predicted, money, cars)
    assert plan.vans is not None
    assert (plan.vans.sum(axis=0) <= total).all()
    assert (plan.drivers <= plan.vans * sharing).all()
    for day in range(2):
        assert plan.expected_cost[:, day].sum() == pytest.approx(cheapest(predicted, money, cars, day), abs=1e-6)


def test_the_last_van_goes_where_it_saves_most() -> None:
    """Both want three drivers; of five vans the depot whose third driver is the surer need has three."""
    predicted = forecast([[[15, 22, 30]], [[25, 28, 30]]])
    plan = roster(predicted, MONEY, fleet(5, [0, 0]))
    assert roster(predicted, MONEY).drivers.tolist() == [[3], [3]]
    assert plan.drivers.tolist() == [[2], [3]]
    assert plan.vans is not None
    assert plan.vans.tolist() == [[2], [3]]
    assert plan.one_more[0, 0] < plan.expected_cost[0, 0]  # what one more van would be worth is told all the same


def test_too_few_vans_for_all_first_drivers_leave_the_least_needed_at_home() -> None:
    predicted = forecast([[[0, 0, 3]], [[30, 40, 50]], [[60, 70, 80]]])
    assert roster(predicted, MONEY, fleet(2, [0, 0, 0])).drivers.tolist() == [[0], [1], [1]]
    assert roster(predicted, MONEY, fleet(3, [0, 0, 0])).drivers.tolist() == [[1], [1], [1]]  # before anybody's second


def test_vans_stay_in_their_city_and_those_without_a_home_go_anywhere() -> None:
    predicted = forecast([[[30, 30, 30]], [[30, 30, 30]]])
    assert roster(predicted, MONEY, fleet(5, [0, 1], [4, 1])).drivers.tolist() == [[3], [1]]
    assert roster(predicted, MONEY, fleet(6, [0, 1], [4, 1])).drivers.tolist() == [[3], [2]]
    assert roster(predicted, MONEY, fleet(6, [0, 1])).drivers.tolist() == [[3], [3]]


def test_what_a_depot_has_beyond_its_own_is_lent_by_its_neighbours() -> None:
    cars = fleet(12, [0, 0, 0, 1, 1], [5, 1, 1, 3, 1])
    placed = np.array([[1, 5], [3, 1], [3, 1], [4, 3], [0, 1]], np.int32)
    assert cars.loans(placed) == (Loan(0, 0, 1, 2), Loan(0, 0, 2, 2), Loan(0, 4, 3, 1))
    assert fleet(12, [0, 0, 0, 1, 1]).loans(placed) == ()  # where no van has a home, none is lent


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_loans_add_up_to_what_stands_elsewhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    cities, home = random.integers(0, 3, 12).tolist(), random.integers(0, 4, 12)
    predicted = days(random, 12)
    cars = fleet(int(home.sum()) + int(random.integers(-5, 5)), cities, home.tolist())
    plan = roster(predicted, MONEY, cars)
    assert plan.vans is not None
    moved = np.zeros((12, 2), int)
    for loan in plan.loans:
        assert cities[loan.lender] == cities[loan.borrower]
        assert loan.vans > 0
        moved[loan.lender, loan.day] -= loan.vans
        moved[loan.borrower, loan.day] += loan.vans
    extra = plan.vans - home[:, None]
    assert (moved[extra > 0] <= extra[extra > 0]).all()
    assert (moved[extra <= 0] >= extra[extra <= 0]).all()
    for city in range(3):
        in_city = np.array(cities) == city
        for day in range(2):
            borrowed = np.maximum(extra[in_city, day], 0).sum()
            spare = np.maximum(-extra[in_city, day], 0).sum()
            assert moved[in_city, day].clip(0).sum() == min(borrowed, spare)


def test_a_shared_van_carries_one_driver_after_the_other() -> None:
    predicted = forecast([[[50, 50, 50]], [[10, 10, 10]]])
    plan = roster(predicted, MONEY, fleet(4, [0, 0], sharing=2))
    assert plan.drivers.tolist() == [[5], [1]]
    assert plan.vans is not None
    assert plan.vans.tolist() == [[3], [1]]


def test_closed_depots_have_no_vans_and_lend_theirs() -> None:
    predicted = forecast([[[20, 20, 20]], [[20, 20, 20]]], closed=[(1, 0)])
    plan = roster(predicted, MONEY, fleet(2, [0, 0], [1, 1]))
    assert plan.vans is not None
    assert plan.vans.tolist() == [[2], [0]]
    assert plan.loans == (Loan(0, 1, 0, 1),)


def test_homes_and_cities_come_from_the_depots_attributes() -> None:
    attributes: dict[str, Any] = {"city": ("Ulm", "Bonn", "Ulm"), "vans": ("3", "", "2.0")}
    pool = VanPool.of(Vans(total=9, home="vans"), attributes, 3)
    assert pool.home is not None
    assert pool.home.tolist() == [3, 0, 2]
    assert pool.city.tolist() == [1, 0, 1]
    assert VanPool.of(Vans(total=9), {}, 2).city.tolist() == [0, 0]
    with pytest.raises(SpecError, match="found 'two' in the depots' column 'vans', wanted a number of vans"):
        VanPool.of(Vans(total=9, home="vans"), {"vans": ("two",)}, 1)
