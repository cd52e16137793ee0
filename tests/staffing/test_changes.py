"""Published crews change only if that is worthwhile: by hand, and compared with all possible
choices."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Staffing
from forecaster.core.forecast import Forecast
from forecaster.ledger.publication import LeftCrew, PublishedDay, PublishedDepot, PublishedRoster
from forecaster.staffing.changes import PublishedCrews, choose, keep_unless_worthwhile, published_crews
from forecaster.staffing.lending import LEAST_NEED, DepotVans, breaches
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import Roster, roster
from forecaster.staffing.shortage import floors
from forecaster.staffing.vans import VanPool
from tests.panels import LEVELS, forecast

MONEY = Staffing(orders_per_driver=10, cost_short=30, cost_idle=10)


def crews(*drivers: int, had_change: bool = False) -> PublishedCrews:
    column = np.array(drivers, np.int32)[:, None]
    return PublishedCrews(column, np.full(column.shape, had_change))


def replanned(
    predicted: Forecast, before: PublishedCrews, fleet: VanPool | None = None, **keys: Any
) -> tuple[Roster, Roster]:
    """Return the plan, and the resulting roster."""
    money = MONEY.model_copy(update=keys)
    plan = roster(predicted, money, fleet)
    return plan, keep_unless_worthwhile(plan, before, predicted, money, fleet)


def drivers(plan: Roster) -> list[int]:
    return [int(count) for count in plan.drivers.ravel()]


def test_crew_changes_only_if_that_saves_more_than_it_costs() -> None:
    """Five drivers are certainly needed, and four are published: the fifth saves 30. A surplus one
    costs 10."""
    predicted = forecast([[[50, 50, 50]], [[50, 50, 50]]])
    for cost, expected in ((29, [5, 5]), (30, [4, 5]), (9, [5, 5]), (10, [5, 6])):
        before = crews(4, 5) if cost > 20 else crews(5, 6)
        _, after = replanned(predicted, before, change_cost=cost)
        assert drivers(after) == expected
    _, after = replanned(predicted, crews(4, 6), change_cost=30)
    assert after.left == {(0, 0): LeftCrew(5, 30.0, 30.0), (1, 0): LeftCrew(5, 10.0, 30.0)}
    assert after.expected_cost.ravel().tolist() == [30, 10]
    assert after.changed is not None
    assert after.changed.ravel().tolist() == [False, False]


def test_unpublished_closed_and_out_of_limit_crews_follow_the_plan() -> None:
    predicted = forecast([[[50, 50, 50]], [[50, 50, 50]], [[50, 50, 50]]], closed=[(1, 0)])
    limits = MONEY.crew.model_copy(update={"max": 5})
    _, after = replanned(predicted, crews(-1, 4, 7), change_cost=1000, crew=limits)
    assert drivers(after) == [5, 0, 5]
    assert after.changed is not None
    assert after.changed.ravel().tolist() == [False, True, True]


def test_crew_below_its_floor_changes_at_any_cost() -> None:
    """0.7 of the median's 10 drivers are 7."""
    predicted = forecast([[[100, 100, 100]], [[100, 100, 100]]])
    assert drivers(replanned(predicted, crews(6, 7), change_cost=1000)[1]) == [10, 7]


def test_depots_exchanging_a_van_are_decided_together() -> None:
    """Six vans, published as three and three; now the first depot certainly needs two, the second
    four. The exchange saves 10 and 30 and changes two crews."""
    predicted, fleet = forecast([[[20, 20, 20]], [[40, 40, 40]]]), VanPool(6, np.zeros(2, np.intp))
    assert drivers(replanned(predicted, crews(3, 3), fleet, change_cost=19)[1]) == [2, 4]
    # at 25 the first crew alone would stay, which is impossible if the second gets its van: 40
    # saved, 50 spent
    plan, after = replanned(predicted, crews(3, 3), fleet, change_cost=25)
    assert drivers(plan) == [2, 4]
    assert drivers(after) == [3, 3]
    assert after.left == {(0, 0): LeftCrew(2, 10.0, 25.0), (1, 0): LeftCrew(4, 30.0, 25.0)}
    # with a seventh van each depot decides separately
    assert drivers(replanned(predicted, crews(3, 3), VanPool(7, np.zeros(2, np.intp)), change_cost=25)[1]) == [3, 4]


def test_after_the_hour_only_crews_lacking_two_drivers_change_again() -> None:
    predicted = forecast([[[50, 50, 50]], [[60, 60, 60]], [[30, 30, 30]]])
    _, after = replanned(predicted, crews(4, 4, 6, had_change=True), change_hour=14)
    assert drivers(after) == [4, 6, 6]
    assert after.left == {(0, 0): LeftCrew(5, 30.0, 0, 14), (2, 0): LeftCrew(3, 30.0, 0, 14)}
    assert drivers(replanned(predicted, crews(4, 4, 6), change_hour=14)[1]) == [5, 6, 3]


@given(
    worth=st.lists(st.integers(-20, 20), min_size=1, max_size=8),
    seed=st.integers(0, 10_000),
    free=st.integers(0, 4),
)
def test_chosen_items_are_optimal_within_the_vans(worth: list[int], seed: int, free: int) -> None:
    vans = np.random.default_rng(seed).integers(-3, 4, len(worth)).astype(np.int32)
    values = np.array(worth, float)
    chosen = choose(values, vans, free)
    assert vans[chosen].sum() <= free
    every = [np.array(choice) for choice in product([False, True], repeat=len(worth))]
    assert values[chosen].sum() == max(values[choice].sum() for choice in every if vans[choice].sum() <= free)


@given(seed=st.integers(0, 10_000))
def test_kept_crews_respect_vans_floors_and_lending(seed: int) -> None:
    random = np.random.default_rng(seed)
    depots = int(random.integers(2, 16))
    city, home = random.integers(0, 3, depots).astype(np.intp), random.integers(0, 5, depots).astype(np.int32)
    fleet = VanPool(max(int(home.sum()) + int(random.integers(-3, 6)), 1), city, home)
    morning, noon = (forecast(np.sort(random.gamma(2, 15, (depots, 1, 3)), axis=-1)) for _ in range(2))
    published = roster(morning, MONEY, fleet)
    before = PublishedCrews(published.drivers, random.random((depots, 1)) < 0.3)
    cost = float(random.choice([0, 5, 20, 100]))
    plan, after = replanned(noon, before, fleet, change_cost=cost, change_hour=12)
    assert after.vans is not None
    assert plan.vans is not None
    vans = after.vans[:, 0]
    assert vans.sum() <= fleet.total
    reserve = max(fleet.total - int(home.sum()), 0)
    assert sum(max(vans[city == c].sum() - home[city == c].sum(), 0) for c in range(3)) <= reserve
    need = Need.of(noon.quantiles, LEVELS, 10)
    assert (after.drivers >= np.minimum(plan.drivers, floors(need, MONEY))).all()
    usual = np.maximum(need.level(0.5)[:, 0], LEAST_NEED)
    assert breaches(vans, DepotVans(home, plan.desired[:, 0], usual), city) == {}
    assert set(np.unique(np.where(after.drivers == plan.drivers, 0, after.drivers - before.drivers))) <= {0}
    # the result, including changes, costs no more than the plan
    changes = [int((roster_.drivers != before.drivers).sum()) for roster_ in (after, plan)]
    if not before.had_change.any():
        assert after.expected_cost.sum() + cost * changes[0] <= plan.expected_cost.sum() + cost * changes[1] + 1e-6


def published_depot(changed_at: datetime | None, timezone: str | None = None) -> PublishedDepot:
    crew = PublishedRoster(None, 0.1, 5.0, 6.0, 7.0, changed_at=changed_at)
    days = (
        PublishedDay(date(2024, 1, 2), 1, True, (1.0, 2.0, 3.0), 4, crew),
        PublishedDay(date(2024, 1, 3), 2, False, (0.0, 0.0, 0.0), 0),
    )
    return PublishedDepot("D0", days, timezone=timezone)


@pytest.mark.parametrize(
    ("changed", "timezone", "had_change"),
    [
        (None, None, False),
        (datetime(2024, 1, 1, 14, 30, tzinfo=UTC), None, True),
        (datetime(2024, 1, 1, 13, 59, tzinfo=UTC), None, False),  # before the hour, changes are free
        (datetime(2023, 12, 31, 15, 0, tzinfo=UTC), None, False),  # yesterday
        (datetime(2024, 1, 1, 14, 30, tzinfo=UTC), "America/New_York", False),  # where it is 9:30
    ],
)
def test_published_crews_and_changes_are_read_from_the_publication(
    changed: datetime | None, timezone: str | None, had_change: bool
) -> None:
    predicted = forecast([[[10, 20, 30], [10, 20, 30]], [[10, 20, 30], [10, 20, 30]]])
    days = tuple(date(2024, 1, 2) + timedelta(days=step) for step in range(2))
    predicted = Forecast(("D0", "D1"), date(2024, 1, 1), days, LEVELS, predicted.quantiles, predicted.open)
    money, now = MONEY.model_copy(update={"change_hour": 14}), datetime(2024, 1, 1, 20, 0, tzinfo=UTC)
    before = published_crews([published_depot(changed, timezone)], predicted, money, "UTC", now)
    assert before is not None
    assert before.drivers.tolist() == [[4, -1], [-1, -1]]
    assert before.had_change.tolist() == [[had_change] * 2, [False] * 2]
    assert before.changed_at == ({} if changed is None else {(0, 0): changed})
    assert published_crews([], predicted, MONEY, "UTC", now) is None  # changes cost nothing
