"""Published shifts change only if that is worthwhile: by hand, and for random publications and
forecasts."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.core.forecast import Forecast
from forecaster.ledger.publication import LeftCrew, PublishedDay, PublishedDepot, PublishedRoster
from forecaster.staffing.changes import NOT_PUBLISHED, PublishedCrews, published_crews
from forecaster.staffing.need import Need
from forecaster.staffing.shifts import shift_changes, shift_crews
from forecaster.staffing.shifts.shift_crews import ShiftRoster
from forecaster.staffing.shortage import floors
from forecaster.staffing.vans import VanPool
from tests.panels import LEVELS, forecast
from tests.staffing.shifts.test_shift_crews import costs

SURE = [[[100, 100, 100]]]  # ten orders per driver: six early, four late


def published(*shifts: tuple[int, int], had_change: bool = False) -> PublishedCrews:
    """Early and late crews of depots on one day."""
    crews = np.array(shifts, np.int32).T[:, :, None]
    return PublishedCrews(crews.sum(axis=0), np.full(crews.shape[1:], had_change), shifts=crews)


def replanned(predicted: Forecast, before: PublishedCrews, fleet: VanPool | None = None, **keys: Any) -> ShiftRoster:
    money = costs(**keys)
    return shift_changes.keep_unless_worthwhile(
        shift_crews.roster(predicted, money, fleet), before, predicted, money, fleet
    )


def crews(result: ShiftRoster) -> list[list[int]]:
    return result.crews[:, :, 0].T.tolist()


@pytest.mark.parametrize(
    ("before", "change_cost", "expected"),
    [
        ((5, 4), 29, [6, 4]),  # a driver missing early costs 30
        ((5, 4), 30, [5, 4]),
        ((6, 5), 9, [6, 4]),  # a surplus driver late costs 10
        ((6, 5), 10, [6, 5]),
        ((5, 5), 39, [6, 4]),  # ten drivers as in the plan, but one of them in the wrong shift
        ((5, 5), 40, [5, 5]),
    ],
)
def test_shifts_change_only_if_that_saves_more_than_it_costs(
    before: tuple[int, int], change_cost: float, expected: list[int]
) -> None:
    result = replanned(forecast(SURE), published(before), change_cost=change_cost)
    assert crews(result) == [expected]
    assert result.drivers.tolist() == [[sum(expected)]]


def test_left_crew_names_the_plans_crew_of_each_shift() -> None:
    result = replanned(forecast(SURE), published((5, 5)), change_cost=40)
    assert result.left == {(0, 0): LeftCrew(10, 40.0, 40.0, None, (("early", 6), ("late", 4)))}
    assert result.expected_cost.tolist() == [[40.0]]
    assert result.changed is not None
    assert not result.changed.any()


def test_second_change_after_the_hour_requires_two_more_drivers_over_all_shifts() -> None:
    for before, expected in (((5, 4), [5, 4]), ((5, 3), [6, 4]), ((8, 2), [6, 4]), ((7, 3), [7, 3])):
        assert crews(replanned(forecast(SURE), published(before, had_change=True), change_hour=12)) == [expected]


def test_shifts_stay_only_if_their_shared_vans_exist() -> None:
    """Six vans with two drivers each carry six and four; the published six and six also need six
    vans, seven and three would need a seventh."""
    fleet = VanPool(6, np.zeros(1, np.intp), drivers_per_van=2)
    kept = replanned(forecast(SURE), published((6, 6)), fleet, change_cost=99)
    assert (crews(kept), kept.vans.tolist() if kept.vans is not None else None) == ([[6, 6]], [[6]])
    assert crews(replanned(forecast(SURE), published((7, 3)), fleet, change_cost=99)) == [[6, 4]]


@given(seed=st.integers(0, 10_000))
def test_kept_shifts_respect_vans_floors_and_total_cost(seed: int) -> None:
    random = np.random.default_rng(seed)
    depots = int(random.integers(2, 10))
    city, home = random.integers(0, 3, depots).astype(np.intp), random.integers(0, 5, depots).astype(np.int32)
    fleet = VanPool(max(int(home.sum()) + int(random.integers(-3, 6)), 1), city, home, int(random.integers(1, 3)))
    morning, noon = (forecast(np.sort(random.gamma(2, 15, (depots, 1, 3)), axis=-1)) for _ in range(2))
    first = shift_crews.roster(morning, costs(), fleet)
    before = PublishedCrews(first.drivers, np.zeros((depots, 1), bool), shifts=first.crews)
    cost = float(random.choice([5, 20, 100]))
    plan, result = shift_crews.roster(noon, costs(), fleet), replanned(noon, before, fleet, change_cost=cost)
    assert result.vans is not None
    assert result.vans.sum() <= fleet.total
    need = Need.of(noon.quantiles, LEVELS, 10)
    assert (result.drivers >= np.minimum(plan.drivers, floors(need, costs()))).all()
    assert (result.crews.sum(axis=0) == result.drivers).all()
    is_plan, is_before = (result.crews == plan.crews).all(axis=0), (result.crews == first.crews).all(axis=0)
    assert (is_plan | is_before).all()
    changes = [int((roster.crews != first.crews).any(axis=0).sum()) for roster in (result, plan)]
    assert result.expected_cost.sum() + cost * changes[0] <= plan.expected_cost.sum() + cost * changes[1] + 1e-6


def test_published_shifts_are_read_unless_their_names_differ() -> None:
    predicted = forecast([[[10, 20, 30]], [[10, 20, 30]]])
    predicted = Forecast(
        ("D0", "D1"), date(2024, 1, 1), (date(2024, 1, 2),), LEVELS, predicted.quantiles, predicted.open
    )

    def depot(name: str, *shifts: tuple[str, int]) -> PublishedDepot:
        crew = PublishedRoster(None, 0.1, 5.0, 6.0, 7.0, shifts=shifts)
        total = sum(count for _, count in shifts)
        return PublishedDepot(name, (PublishedDay(date(2024, 1, 2), 1, True, (1.0, 2.0, 3.0), total, crew),))

    depots = [depot("D0", ("late", 1), ("early", 3)), depot("D1", ("day", 4))]
    before = published_crews(depots, predicted, costs(change_cost=5), "UTC", datetime(2024, 1, 1, 20, tzinfo=UTC))
    assert before is not None
    assert before.shifts is not None
    assert (before.drivers[:, 0].tolist(), before.shifts[:, 0, 0].tolist()) == ([4, NOT_PUBLISHED], [3, 1])
