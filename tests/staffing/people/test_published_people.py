"""A person keeps a published shift, unless another person saves more than the premium of the
change."""

from __future__ import annotations

import pytest

from forecaster.config import Shift
from forecaster.staffing.people import flow
from forecaster.staffing.people.week_planner import WeekTask
from tests.staffing.people.weeks import EARLY, LATE, MONDAY, NOW, days_from, staff, wanted

SHIFT = (MONDAY, "early")
OVERTIME = staff(1, "overtime", hours_week=4, cost_overtime=5)  # an early shift costs 20 in overtime
SPARE = staff(1, "spare")


def worker(premium: float) -> str:
    """Person who works the shift published for `overtime 1`."""
    week, days = (wanted(EARLY, MONDAY, 38.0),), tuple(days_from(MONDAY, 2))
    before = WeekTask("D0", days, week, (OVERTIME,), 38.0, NOW).plan()
    task = WeekTask("D0", days, week, (OVERTIME, SPARE), 38.0, NOW, before, premiums={SHIFT: premium})
    [name] = [who.name for who in task.plan().positions if who.duties]
    return name


@pytest.mark.parametrize(("premium", "name"), [(0.0, "spare 1"), (19.0, "spare 1"), (21.0, "overtime 1")])
def test_another_person_takes_a_published_shift_only_above_the_premium(premium: float, name: str) -> None:
    assert worker(premium) == name


@pytest.mark.parametrize(("premium", "shift"), [(1.0, "late"), (3.0, "early")])
def test_quick_plan_includes_the_premium_of_a_move(premium: float, shift: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_is_whole", lambda x, program: False)
    days, early = tuple(days_from(MONDAY, 2)), wanted(EARLY, MONDAY, 38.0)
    before = WeekTask("D0", days, (early,), (SPARE,), 38.0, NOW).plan()
    week = early, wanted(LATE, MONDAY, 40.0)
    task = WeekTask("D0", days, week, (SPARE,), 38.0, NOW, before, premiums={SHIFT: premium})
    assert [duty.shift for duty in task.plan(0).positions[0].duties] == [shift]


def test_premiums_are_neither_cost_nor_gap_of_a_plan() -> None:
    week, days = (wanted(EARLY, MONDAY, 38.0),), tuple(days_from(MONDAY, 2))
    before = WeekTask("D0", days, week, (OVERTIME,), 38.0, NOW).plan()
    plan = WeekTask("D0", days, week, (OVERTIME, SPARE), 38.0, NOW, before, premiums={SHIFT: 21.0}).plan()
    assert (plan.cost, plan.gap) == (20, 0)


def test_shorter_shift_records_its_lost_hours() -> None:
    short = Shift(name="late", start="14:00", end="20:00", share=0.4)
    before = WeekTask("D0", (MONDAY,), (wanted(EARLY, MONDAY, 38.0),), (SPARE,), 38.0, NOW).plan()
    task = WeekTask("D0", (MONDAY,), (wanted(short, MONDAY, 38.0),), (SPARE,), 38.0, NOW, before)
    assert [(duty.shift, duty.lost_hours) for duty in task.plan().positions[0].duties] == [("late", 2)]
