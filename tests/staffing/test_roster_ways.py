"""Rosters of past days by shift, computed by hand, and equal to whole days if one shift is the
whole day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forecaster.config import Staffing, Vans
from forecaster.staffing.cost_backtest import BUFFER, FORESIGHT, LAST_WEEK, OURS, Bill
from forecaster.staffing.roster_ways import RosterWays
from forecaster.staffing.vans import VanPool
from tests.panels import bare, fold
from tests.staffing.shifts.test_shift_crews import EARLY, FIVE, LATE, costs
from tests.staffing.test_cost_backtest import charged, day, staffed, week_fold, weeks

SHIFTS = {"shifts": [EARLY, LATE]}  # 0.6 and 0.4 of the day, eight hours each


def test_each_shift_is_billed_separately() -> None:
    """60 certain orders need four drivers early and three late, also last week; on one day there
    were 80, five and four."""
    week = week_fold([60] * 5, [60] * 6 + [80], 3)
    bills = charged([week], [week], weeks([60] * 4), staffed(**SHIFTS))
    assert bills[OURS] == Bill(OURS, 2 * 30, 2, 0, 1 / 7, 7, hours=7 * 7 * 8)
    assert bills[LAST_WEEK] == Bill(LAST_WEEK, 2 * 30, 2, 0, 1 / 7, 7, hours=7 * 7 * 8)
    assert bills[FORESIGHT] == Bill(FORESIGHT, 0, 0, 0, 0, 7, hours=(6 * 7 + 9) * 8)


def test_missing_and_idle_drivers_of_different_shifts_do_not_cancel() -> None:
    """The actuals need five early and four late, the crew is last week's four and three, and the
    buffer that was best before adds the missing ones."""
    bills = charged(
        [week_fold([60] * 5, [80] * 7, 3)], [week_fold([60] * 5, [80] * 7, 2)], weeks([60] * 4), staffed(**SHIFTS)
    )
    assert (bills[LAST_WEEK].short, bills[LAST_WEEK].idle) == (14, 0)
    assert (bills[BUFFER].short, bills[BUFFER].idle) == (0, 0)


def test_limits_reduce_shifts_in_proportion_and_add_to_the_largest() -> None:
    """100 orders need six and four; a maximum of seven leaves four and three, and a minimum of two
    on a day with no need joins the early shift."""
    full = fold([[[100] * 5], [[0] * 5]], [[100], [0]], levels=FIVE, cutoff=day(20))
    need = np.array([[10.0], [0.0]])
    assert RosterWays(costs(crew={"max": 7, "min": 2}), None).limited(need, full)[:, :, 0].T.tolist() == [
        [4, 3],
        [2, 0],
    ]


def test_shared_vans_limit_all_rosters_alike() -> None:
    """Six and four drivers on five vans with two drivers each: one early driver has none."""
    full = fold([[[100] * 5]], [[100]], levels=FIVE, cutoff=day(20))
    ways = RosterWays(costs(), VanPool.of(Vans(total=5, drivers_per_van=2), {}, 1))
    assert ways.cheapest(full)[:, 0, 0].tolist() == [5, 4]
    assert ways.limited(np.array([[10.0]]), full)[:, 0, 0].tolist() == [5, 4]


@pytest.mark.parametrize("limits", [{}, {"crew": {"max": 4, "min": 2}}, {"vans": {"total": 9}}])
def test_single_whole_day_shift_is_billed_like_the_day(limits: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    orders = np.sort(random.gamma(3, 12, (4, 7, 5)), axis=-1)
    week = fold(orders, random.gamma(3, 12, (4, 7)), levels=FIVE, cutoff=day(20))
    panel = bare(np.round(random.gamma(3, 12, (4, 28))))
    whole = {"name": "day", "start": "09:00", "end": "17:00", "share": 1}
    by_day = charged([week], [week], panel, staffed(**limits))
    assert charged([week], [week], panel, staffed(shifts=[whole], **limits)) == by_day


def test_hours_are_per_shift_and_unknown_days_have_unknown_need() -> None:
    money = Staffing.model_validate(
        {
            "orders_per_driver": 10,
            "cost_short": 30,
            "cost_idle": 10,
            "shifts": [{**EARLY, "end": "10:30"}, {**LATE, "start": "22:00", "end": "06:00"}],
        }
    )
    assert RosterWays(money, None).hours.tolist() == [4.5, 8]
    week = fold(np.full((1, 1, 5), 41.0), np.array([[41.0]]), levels=FIVE, cutoff=day(20))
    assert np.isnan(RosterWays(money, None).needed(np.array([[np.nan]]), week)).all()
    by_day = RosterWays(money.model_copy(update={"shifts": ()}), None)
    assert by_day.needed(np.array([[41.0]]), week).tolist() == [[[5.0]]]
    assert by_day.hours.tolist() == [8]
