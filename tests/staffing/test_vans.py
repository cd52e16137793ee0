"""Vans go where they save most, compared with an exact solver, and loans explain the difference
between homes and places."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Staffing, Vans
from forecaster.core.arrays import Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError
from forecaster.ledger.publication import Shortage
from forecaster.staffing.lending import LEAST_NEED
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import roster
from forecaster.staffing.placing import FLOOR, Claims
from forecaster.staffing.shortage import claims
from forecaster.staffing.vans import Loan, VanPool
from tests.panels import LEVELS, forecast
from tests.staffing.exact import best_scores

MONEY = Staffing(orders_per_driver=10, cost_short=30, cost_idle=10)


def fleet(total: int, cities: list[int], home: list[int] | None = None, sharing: int = 1) -> VanPool:
    homes = None if home is None else np.array(home, np.int32)
    return VanPool(total, np.array(cities, np.intp), homes, sharing)


def days(random: np.random.Generator, depots: int, horizon: int = 2) -> Forecast:
    return forecast(np.sort(random.gamma(2, 15, (depots, horizon, len(LEVELS))), axis=-1))


def day_of(predicted: Forecast, money: Staffing, cars: VanPool, day: int = 0) -> tuple[Claims, Ints, Doubles]:
    """Claims of depots on a day, the vans that they want, and the vans that they need."""
    need = Need.of(predicted.quantiles[:, day], predicted.levels, money.orders_per_driver)
    desired = roster(predicted, money).drivers[:, day]
    wanted = -(-desired // cars.drivers_per_van)
    vans_needed = np.maximum(need.level(0.5) / cars.drivers_per_van, LEAST_NEED)
    return claims(desired, need, money, cars), wanted, vans_needed


@given(
    seed=st.integers(0, 10_000),
    cities=st.lists(st.integers(0, 2), min_size=2, max_size=6),
    share=st.floats(0.2, 1.2),
    homes=st.sampled_from([None, "as many"]),
    sharing=st.integers(1, 2),
    least=st.sampled_from([0, 1]),
    growth=st.sampled_from([0.0, 1.0, 4.0]),
)
def test_allocation_is_optimal_if_cities_share_no_vans(
    seed: int, cities: list[int], share: float, homes: str | None, sharing: int, least: int, growth: float
) -> None:
    """By first vans, then floors, then shares at the floor, then expected savings; and no lender is
    too short."""
    random = np.random.default_rng(seed)
    predicted = days(random, len(cities))
    limits = MONEY.crew.model_copy(update={"min": least})
    money = MONEY.model_copy(update={"crew": limits, "cost_short_growth": growth})
    free = roster(predicted, money).drivers
    total = max(round(share * free.max(axis=1).sum() / sharing), len(cities))
    home = None if homes is None else random.multinomial(total, np.ones(len(cities)) / len(cities)).tolist()
    cars = fleet(total, cities, home, sharing)
    plan = roster(predicted, money, cars)
    assert plan.vans is not None
    assert (plan.vans.sum(axis=0) <= total).all()
    assert (plan.drivers <= plan.vans * sharing).all()
    for day in range(2):
        claimed, wanted, need = day_of(predicted, money, cars, day)
        best = best_scores(claimed, wanted, need, cars)
        assert best is not None
        assert claimed.worth(plan.vans[:, day]) == pytest.approx(best, rel=1e-5, abs=1e-5)


@given(seed=st.integers(0, 10_000))
def test_allocation_respects_totals_homes_and_lending_in_any_order(seed: int) -> None:
    """No van is created or stands idle while a depot of its city lacks one, no lender is shorter
    than a borrower would be without its last van, and the order of the depots does not matter."""
    random = np.random.default_rng(seed)
    depots = int(random.integers(2, 25))
    cities, home = random.integers(0, 3, depots), random.integers(0, 5, depots)
    predicted = days(random, depots, 1)
    cars = fleet(max(int(home.sum()) + int(random.integers(-4, 8)), 1), cities.tolist(), home.tolist())
    claimed, wanted, need = day_of(predicted, MONEY, cars)
    plan = roster(predicted, MONEY, cars)
    assert plan.vans is not None
    placed = plan.vans[:, 0]
    assert placed.sum() <= cars.total
    assert (placed <= wanted).all()
    reserve = max(cars.total - home.sum(), 0)
    beyond = [max(placed[cities == city].sum() - home[cities == city].sum(), 0) for city in range(3)]
    assert sum(beyond) <= reserve
    for city in range(3):
        of_city = cities == city
        if (placed < wanted)[of_city].any():
            assert beyond[city] == reserve - sum(beyond) + beyond[city] or placed.sum() == cars.total
            assert placed[of_city].sum() >= home[of_city].sum() or placed.sum() == cars.total
    for lender in np.flatnonzero((placed < home) & (placed < wanted)):
        for borrower in np.flatnonzero((placed > home) & (cities == cities[lender])):
            assert placed[lender] / need[lender] >= (placed[borrower] - 1) / need[borrower] - 1e-9
    mixed = random.permutation(depots)
    again = roster(
        replace(predicted, quantiles=predicted.quantiles[mixed], open=predicted.open[mixed]),
        MONEY,
        fleet(cars.total, cities[mixed].tolist(), home[mixed].tolist()),
    )
    assert again.vans is not None
    assert again.vans[:, 0].tolist() == placed[mixed].tolist()
    assert claimed.worth(placed)[1] <= (claimed.tier == FLOOR).sum()


@given(seed=st.integers(0, 10_000))
def test_another_van_never_reduces_a_crew_if_vans_have_no_home(seed: int) -> None:
    random = np.random.default_rng(seed)
    predicted = days(random, 12, 1)
    rosters_by_van = [roster(predicted, MONEY, fleet(total, [0] * 12)).drivers for total in range(1, 60)]
    assert all((fewer <= more).all() for fewer, more in pairwise(rosters_by_van))


def test_floors_are_filled_before_further_claims() -> None:
    """The medians need 2, 4 and 6 drivers; 0.7 of these is 1.4, 2.8 and 4.2: floors of 2, 3 and 5
    vans. The third depot's need for more than three is the least certain."""
    predicted = forecast([[[18, 20, 22]], [[38, 40, 42]], [[30, 60, 61]]])
    linear = MONEY.model_copy(update={"cost_short_growth": 0})
    assert roster(predicted, linear, fleet(10, [0, 0, 0])).drivers.ravel().tolist() == [2, 3, 5]
    bare = linear.model_copy(update={"crew": MONEY.crew.model_copy(update={"min_share": 0})})
    assert roster(predicted, bare, fleet(10, [0, 0, 0])).drivers.ravel().tolist() == [2, 4, 4]


def test_smallest_share_comes_next_if_vans_do_not_cover_the_floors() -> None:
    """Needs of 2, 4 and 6 vans: one each; then 1/6, 1/4 and 2/6 are the smallest shares."""
    predicted = forecast([[[18, 20, 22]], [[38, 40, 42]], [[58, 60, 62]]])
    by_vans = [roster(predicted, MONEY, fleet(total, [0, 0, 0])).drivers.ravel().tolist() for total in range(3, 7)]
    assert by_vans == [[1, 1, 1], [1, 1, 2], [1, 2, 2], [1, 2, 3]]


def test_growing_cost_shares_a_shortage_between_depots() -> None:
    """Each needs ten drivers, the first certainly, the second with a probability of at most 0.9
    from the fifth on. Of twelve vans the first has ten at a linear cost; with a growth of 4 the
    next van goes where more is missing."""
    predicted = forecast([[[100, 100, 100]], [[40, 100, 100]]])
    bare = MONEY.crew.model_copy(update={"min_share": 0})
    crews = {
        growth: roster(
            predicted, MONEY.model_copy(update={"cost_short_growth": growth, "crew": bare}), fleet(12, [0, 0])
        ).drivers.ravel()
        for growth in (0, 4)
    }
    assert crews[0].tolist() == [10, 2]
    assert abs(crews[4][0] - crews[4][1]) <= 2


@pytest.mark.parametrize(("median", "crews", "lent"), [(10, [3, 1], (Loan(0, 1, 0, 1),)), (20, [2, 2], ())])
def test_depot_lends_no_van_to_one_with_a_larger_share_without_it(
    median: int, crews: list[int], lent: tuple[Loan, ...]
) -> None:
    """Both own two vans and together lack one; the second depot's need for two is less certain.
    Without its third van the first has 2/3. The second may lend if one van covers its median's
    need, but not if it covers half of it."""
    predicted = forecast([[[30, 30, 30]], [[5, median, 20]]])
    bare = MONEY.crew.model_copy(update={"min_share": 0})
    money = MONEY.model_copy(update={"cost_short_growth": 0, "crew": bare})
    assert roster(predicted, money).drivers.ravel().tolist() == [3, 2]
    plan = roster(predicted, money, fleet(4, [0, 0], [2, 2]))
    assert plan.drivers.ravel().tolist() == crews
    assert plan.loans == lent
    [(cell, reason)] = plan.shortages.items()
    assert (cell, reason) == ((1, 0) if lent else (0, 0), Shortage("", 4 / 5, network=True))


def test_the_last_van_goes_where_it_saves_most() -> None:
    """Both want three drivers; of five vans, the depot whose third driver is needed more certainly
    has three."""
    predicted = forecast([[[15, 22, 30]], [[25, 28, 30]]])
    plan = roster(predicted, MONEY, fleet(5, [0, 0]))
    assert roster(predicted, MONEY).drivers.tolist() == [[3], [3]]
    assert plan.drivers.tolist() == [[2], [3]]
    assert plan.vans is not None
    assert plan.vans.tolist() == [[2], [3]]
    assert plan.one_more[0, 0] < plan.expected_cost[0, 0]  # the value of one more van is reported anyway


def test_least_needed_first_driver_is_left_out_if_vans_are_too_few() -> None:
    predicted = forecast([[[0, 0, 3]], [[30, 40, 50]], [[60, 70, 80]]])
    assert roster(predicted, MONEY, fleet(2, [0, 0, 0])).drivers.tolist() == [[0], [1], [1]]
    # before anybody's second driver
    assert roster(predicted, MONEY, fleet(3, [0, 0, 0])).drivers.tolist() == [[1], [1], [1]]


def test_vans_stay_in_their_city_except_those_without_a_home() -> None:
    predicted = forecast([[[30, 30, 30]], [[30, 30, 30]]])
    assert roster(predicted, MONEY, fleet(5, [0, 1], [4, 1])).drivers.tolist() == [[3], [1]]
    assert roster(predicted, MONEY, fleet(6, [0, 1], [4, 1])).drivers.tolist() == [[3], [2]]
    assert roster(predicted, MONEY, fleet(6, [0, 1])).drivers.tolist() == [[3], [3]]


def test_vans_beyond_a_depots_own_are_lent_by_its_city() -> None:
    cars = fleet(12, [0, 0, 0, 1, 1], [5, 1, 1, 3, 1])
    placed = np.array([[1, 5], [3, 1], [3, 1], [4, 3], [0, 1]], np.int32)
    assert cars.loans(placed) == (Loan(0, 0, 1, 2), Loan(0, 0, 2, 2), Loan(0, 4, 3, 1))
    assert fleet(12, [0, 0, 0, 1, 1]).loans(placed) == ()  # if no van has a home, none is lent


@given(seed=st.integers(0, 10_000))
def test_loans_add_up_to_the_moved_vans(seed: int) -> None:
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


def test_shared_van_carries_one_driver_after_another() -> None:
    predicted = forecast([[[50, 50, 50]], [[10, 10, 10]]])
    plan = roster(predicted, MONEY, fleet(4, [0, 0], sharing=2))
    assert plan.drivers.tolist() == [[5], [1]]
    assert plan.vans is not None
    assert plan.vans.tolist() == [[3], [1]]


def test_closed_depots_lend_all_their_vans() -> None:
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
