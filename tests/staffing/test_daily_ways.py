"""One day by hand: crews of each rostering policy, and their cost per city."""

from __future__ import annotations

from datetime import date

import numpy as np

from forecaster.core.arrays import Ints
from forecaster.core.forecast import Fold
from forecaster.ledger.value import BUFFER, FORESIGHT, LAST_WEEK, MODEL, MORE_VANS, PUBLISHED, WayCost
from forecaster.staffing import daily_ways
from forecaster.staffing.cost_backtest import BUFFERS
from forecaster.staffing.roster_ways import RosterWays
from forecaster.staffing.vans import VanPool
from tests.panels import fold
from tests.staffing.test_cost_backtest import staffed

COSTS = staffed().staffing
DAY = date(2024, 1, 15)
assert COSTS is not None
ROSTERS = RosterWays.of_depots(COSTS, None, 2)


def sure(*orders: float, actual: tuple[float, ...]) -> Fold:
    """A forecast without uncertainty for depots on one day, and its actuals."""
    return fold([[[count] * 3] for count in orders], [[count] for count in actual], cutoff=date(2024, 1, 14))


def before(*orders: float) -> np.ndarray:
    """Two weeks of the same count at each depot."""
    return np.repeat(np.array(orders)[:, None], 14, axis=1).astype(float)


def drivers(ways: dict[str, Ints]) -> dict[str, list[int]]:
    return {way: crew[0, :, 0].tolist() for way, crew in ways.items()}


def test_each_policy_rosters_from_its_own_information() -> None:
    """Forecasts of 120 and 10, actuals of 110 and 10, last week 100 and 10, at 10 orders per
    driver; a planner set 11 drivers."""
    day = sure(120, 10, actual=(110, 10))
    published = np.array([[[11], [1]]], np.int32)
    ways = daily_ways.crews(day, published, before(100, 10), (0.1, 0.0), ROSTERS)
    assert drivers(ways) == {
        PUBLISHED: [11, 1],
        MODEL: [12, 1],
        LAST_WEEK: [10, 1],
        BUFFER: [14, 2],  # 13.2 and 1.1, rounded up
        FORESIGHT: [11, 1],
    }
    rows = daily_ways.bills(ways, day, ("Town", "Port"), ROSTERS, DAY)
    assert [row for row in rows if row.way == MODEL] == [
        WayCost(DAY, "Port", MODEL, 0, 0, 0, 1, 1),
        WayCost(DAY, "Town", MODEL, 10, 0, 1, 12, 1),
    ]
    assert {row.way: row.cost for row in rows if row.city == "Town"} == {
        PUBLISHED: 0,
        MODEL: 10,
        LAST_WEEK: 30,
        BUFFER: 30,
        FORESIGHT: 0,
    }
    assert {row.way: row.cost for row in rows if row.city == "Port"}[BUFFER] == 10


def test_ten_more_vans_go_where_vans_are_missing() -> None:
    day = sure(120, 40, actual=(120, 40))
    fleet = VanPool(total=8, city=np.array([0, 0]))
    ways = daily_ways.crews(
        day, np.array([[[4], [4]]], np.int32), before(120, 40), BUFFERS[0], RosterWays.of_depots(COSTS, fleet, 2)
    )
    assert int(ways[MODEL].sum()) == 8
    assert drivers(ways)[MORE_VANS] == [12, 4]
    rows = {row.way: row for row in daily_ways.bills(ways, day, ("Town", "Town"), ROSTERS, DAY)}
    assert (rows[MODEL].cost, rows[MORE_VANS].cost) == (8 * 30, 0)


def test_depot_without_a_known_count_is_not_billed() -> None:
    day = sure(120, 10, actual=(110, np.nan))
    ways = daily_ways.crews(day, np.array([[[11], [9]]], np.int32), before(100, 10), BUFFERS[0], ROSTERS)
    rows = daily_ways.bills(ways, day, ("Town", "Port"), ROSTERS, DAY)
    assert {row.city for row in rows} == {"Town"}


def test_buffer_is_the_cheapest_on_earlier_days_and_zero_before_the_first() -> None:
    assert daily_ways.best_buffer([]) == (0.0, 0.0)
    costs = daily_ways.buffer_costs(sure(100, actual=(120,)), ROSTERS)
    assert len(costs) == len(BUFFERS)
    assert costs[BUFFERS.index((0.0, 0.0))] == 60
    assert daily_ways.best_buffer([costs]) == (0.11, 0.0)  # the first buffer that makes ten drivers twelve
    assert daily_ways.best_buffer([costs, daily_ways.buffer_costs(sure(100, actual=(140,)), ROSTERS)]) == (
        0.31,
        0.0,
    )


def test_last_week_is_the_same_weekday_even_with_an_earlier_cutoff() -> None:
    """Days 0 to 13 had 10, 20, … 140 orders; the target is day 15, a week after day 8 with 90."""
    day = fold([[[50.0] * 3]], [[90.0]], cutoff=date(2024, 1, 14))
    late = Fold(
        type(day.forecast)(
            day.forecast.depot_ids,
            date(2024, 1, 14),
            (date(2024, 1, 16),),
            day.forecast.levels,
            day.forecast.quantiles,
            day.forecast.open,
        ),
        day.actuals,
    )
    orders = 10.0 * (1 + np.arange(14.0))[None]
    ways = daily_ways.crews(late, np.array([[[5]]], np.int32), orders, BUFFERS[0], ROSTERS)
    assert drivers(ways)[LAST_WEEK] == [9]


def test_every_policy_rosters_and_bills_each_shift_separately() -> None:
    """42 orders in halves of 21 need three drivers per shift, while the day as a whole needs five."""
    halves = [
        {"name": "early", "start": "06:00", "end": "14:00", "share": 0.5},
        {"name": "late", "start": "14:00", "end": "22:00", "share": 0.5},
    ]
    costs = staffed(shifts=halves).staffing
    assert costs is not None
    rosters, day = RosterWays.of_depots(costs, None, 1), sure(42, actual=(45,))
    ways = daily_ways.crews(day, np.array([[[2]], [[4]]], np.int32), before(38), BUFFERS[0], rosters)
    assert {way: crew[:, 0, 0].tolist() for way, crew in ways.items()} == {
        PUBLISHED: [2, 4],
        MODEL: [3, 3],
        LAST_WEEK: [2, 2],
        BUFFER: [2, 2],  # 30 % less than 42 is 14.7 per shift
        FORESIGHT: [3, 3],
    }
    rows = {row.way: row for row in daily_ways.bills(ways, day, ("Town",), rosters, DAY)}
    assert (rows[PUBLISHED].cost, rows[PUBLISHED].short, rows[PUBLISHED].idle) == (30 + 10, 1, 1)
    assert (rows[LAST_WEEK].cost, rows[LAST_WEEK].drivers) == (60, 4)
    assert (rows[MODEL].cost, rows[MODEL].drivers, rows[FORESIGHT].cost) == (0, 6, 0)
    assert daily_ways.buffer_costs(day, rosters)[BUFFERS.index((0.0, 0.0))] == 0
