"""Premiums of changes to the cent, from the texts of two laws.

New York City: NYC Administrative Code § 20-1222 subdivision a, schedule change premiums
(https://codelibrary.amlegal.com/codes/newyorkcity/latest/NYCadmin/0-0-0-133714). Oregon: ORS
653.455 (2), compensation for work schedule changes without the advance notice of ORS 653.436
(https://legalfix.com/statutes/state-codes/oregon/volume-16/chapter-653/section-653-455).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Staffing
from forecaster.staffing.changes import keep_unless_worthwhile
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import PublishedSchedule, cheapest_crew, roster
from forecaster.staffing.notice.premiums import NoticePeriod, Premium, change_premium, schedule, with_schedule
from forecaster.staffing.rosters import roster_for
from tests.panels import LEVELS, bare, forecast

COSTS: dict[str, Any] = {"orders_per_driver": 10, "cost_short": 30, "cost_idle": 10, "notice_days": 14}
NEW_YORK = [
    {"within_days": 14, "added": 10, "removed": 20},
    {"within_days": 7, "added": 15, "removed": 45},
    {"within_hours": 24, "added": 15, "removed": 75},
]
OREGON = [{"added_hours": 1, "removed_hours_share": 0.5}]
NOW = datetime(2025, 6, 2, 9, tzinfo=UTC)  # 05:00 in New York


def staffing(steps: list[dict[str, Any]] | None = None, **keys: Any) -> Staffing:
    return Staffing.model_validate({**COSTS, "change_premium": steps or NEW_YORK, **keys})


@pytest.mark.parametrize(
    ("days", "hours", "added", "removed"),
    [
        (20, 480, 0, 0),
        (14, 337, 0, 0),  # not less than 14 days' notice
        (13, 313, 10, 20),  # a.1 and a.2: less than 14 days' but at least 7 days' notice
        (7, 169, 10, 20),
        (6, 145, 15, 45),  # a.3 and a.4: less than 7 days' but at least 24 hours' notice
        (1, 24, 15, 45),
        (1, 23.9, 15, 75),  # a.3 and a.5: less than 24 hours' notice
        (0, 1, 15, 75),
        (0, -2, 15, 75),
    ],
)
def test_new_york_city_pays_fixed_sums_by_notice(days: int, hours: float, added: float, removed: float) -> None:
    assert change_premium(staffing(), NoticePeriod(days, hours), 8) == Premium(added, removed)


@pytest.mark.parametrize(
    ("wage", "hours", "added", "removed"),
    [
        (21.5, 8, 21.5, 86),  # (2)(a): one hour of pay; (2)(b): half the pay of 8 cancelled hours
        (15.95, 8, 15.95, 63.8),
        (15.45, 7.5, 15.45, 57.94),  # 57.9375
        (16.15, 3, 16.15, 24.23),  # three hours fewer: 24.225
    ],
)
def test_oregon_pays_one_hour_or_half_of_the_lost_hours(
    wage: float, hours: float, added: float, removed: float
) -> None:
    law = staffing(OREGON, hourly_wage=wage)
    assert change_premium(law, NoticePeriod(13, 300), hours) == Premium(added, removed)
    assert change_premium(law, NoticePeriod(0, 2), hours) == Premium(added, removed)
    assert change_premium(law, NoticePeriod(14, 330), hours) == Premium(0, 0)


def test_notice_is_measured_in_local_calendar_days_and_elapsed_hours() -> None:
    new_york = ZoneInfo("America/New_York")
    assert NoticePeriod.of(NOW, date(2025, 6, 3), time(6), new_york) == NoticePeriod(1, 25.0)
    assert NoticePeriod.of(NOW + timedelta(hours=19.5), date(2025, 6, 3), time(6), new_york) == NoticePeriod(0, 5.5)
    clocks_go_back = datetime(2025, 11, 1, 10, tzinfo=UTC)  # 06:00 on the day before
    assert NoticePeriod.of(clocks_go_back, date(2025, 11, 2), time(6), new_york) == NoticePeriod(1, 25.0)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"change_premium": []}, "found notice_days without change_premium, wanted both"),
        ({"notice_days": None}, "found change_premium without notice_days, wanted both"),
        ({"change_premium": OREGON}, "found hours of pay and no hourly_wage"),
        ({"change_premium": NEW_YORK[1:]}, "found no step for the whole notice, wanted within_days: 14"),
        ({"change_premium": [*NEW_YORK, NEW_YORK[0]]}, "two steps of the same notice"),
        ({"notice_days": 7, "change_premium": [NEW_YORK[0], {"added": 1}]}, "a step beyond notice_days: 7"),
        ({"change_premium": [{"within_days": 14}]}, "found no premium, wanted added and removed"),
        ({"change_premium": [{"within_days": 1, "within_hours": 9, "added": 1}]}, "found within_days and within_hours"),
    ],
)
def test_rejects_a_notice_without_premiums(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Staffing.model_validate({**COSTS, "change_premium": NEW_YORK, **keys})


def published(crews: list[int], added: float, removed: float) -> PublishedSchedule:
    column = np.array(crews, np.int32)[None, :, None]
    return PublishedSchedule(column, np.full(column.shape, added), np.full(column.shape, removed))


def test_scheduled_crew_moves_only_while_each_driver_saves_more_than_the_premium() -> None:
    """Five drivers are certainly needed: the fifth saves 30, and each further one costs 10."""
    predicted = forecast([[[50, 50, 50]]] * 4)
    for premium, crews in ((0, [5, 5, 5, 5]), (9, [5, 5, 5, 5]), (11, [5, 5, 5, 6]), (31, [4, 3, 5, 6])):
        plan = published([4, 3, 5, 6], premium, premium)
        assert roster(predicted, staffing(), None, plan).drivers.ravel().tolist() == crews


@given(
    st.lists(st.integers(0, 120), min_size=3, max_size=3),
    st.integers(0, 15),
    st.sampled_from([0.0, 3.0, 10.0, 29.0, 45.0]),
    st.sampled_from([0.0, 3.0, 9.0, 20.0, 75.0]),
)
def test_no_other_crew_costs_less_including_its_premium(
    orders: list[int], crew: int, added: float, removed: float
) -> None:
    predicted = forecast([[sorted(orders)]])
    money, plan = staffing(), published([crew], added, removed)
    need = Need.of(predicted.quantiles, LEVELS, money.orders_per_driver)
    chosen = int(cheapest_crew(need, predicted.open, money, plan)[0, 0])

    def total(drivers: int) -> float:
        here = np.array([[drivers]], np.int32)
        return float(need.cost(here, money)[0, 0] + plan.premium(here[None])[0, 0])

    assert total(chosen) <= min(map(total, range(1, 30))) + 1e-4


DAYS = [date(2025, 6, 2) + timedelta(days=ahead) for ahead in range(3)]


def test_reason_states_the_saving_of_a_change_and_its_premium() -> None:
    """Monday is today, with a premium of 45 per removed driver; Tuesday is not published."""
    predicted = forecast([[[50, 50, 50]] * 2, [[50, 50, 50]] * 2], cutoff=date(2025, 6, 1))
    told = {("D0", DAYS[0]): {"": 6}, ("D1", DAYS[0]): {"": 3}}
    assert predicted.depot_ids == ("D0", "D1")
    money = staffing([{"added": 15, "removed": 45}])
    crews = with_schedule(None, told, predicted, money, {}, "UTC", NOW)
    assert crews is not None
    after = roster_for(predicted, bare(np.ones((2, 10))), money, crews)
    assert after is not None
    assert after.drivers.tolist() == [[6, 5], [5, 5]]
    left = after.left[0, 0]
    assert (left.drivers, left.saving, left.change_cost) == (5, 10.0, 45.0)
    assert list(after.left) == [(0, 0)]
    assert after.changed is not None
    assert after.changed.tolist() == [[False, False], [True, False]]
    assert crews.premium(after.drivers[None]).tolist() == [[0, 0], [30, 0]]
    assert keep_unless_worthwhile(after, crews, predicted, money, None).drivers.tolist() == after.drivers.tolist()


def test_each_shift_has_its_own_hours_and_notice() -> None:
    shifts = [
        {"name": "early", "start": "06:00", "end": "14:00", "share": 0.5},
        {"name": "late", "start": "14:00", "end": "18:00", "share": 0.5},
    ]
    predicted = forecast([[[50, 50, 50]] * 2], cutoff=date(2025, 6, 1))
    money = staffing(OREGON, hourly_wage=20, shifts=shifts)
    told = {("D0", DAYS[0]): {"early": 5, "late": 1}, ("D0", DAYS[1]): {"one": 3}}
    plan = schedule(told, predicted, money, {}, "UTC", NOW)
    assert plan is not None
    assert plan.has.tolist() == [[True, False]]  # the other day was published with other shifts
    assert plan.removed[:, 0, 0].tolist() == [80, 40]
    after = roster_for(
        predicted, bare(np.ones((1, 10))), money, with_schedule(None, told, predicted, money, {}, "UTC", NOW)
    )
    assert after is not None
    # each shift needs three: two early drivers are idle at 10 and cost 80 to cancel; a late one
    # saves 30 for 20
    assert after.crews[:, 0, 0].tolist() == [5, 3]
