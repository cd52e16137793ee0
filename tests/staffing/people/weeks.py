"""Small weeks to plan, and a direct check of a contract's rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from forecaster.config import EmploymentContract, Shift
from forecaster.ledger.week_plan import Duty, WeekPlan
from forecaster.staffing.people.week_planner import Staff, WantedShift, WeekTask
from forecaster.staffing.people.week_plans import instants

MONDAY = date(2026, 10, 19)
NOW = datetime(2026, 10, 18, 8, tzinfo=UTC)
EARLY = Shift(name="early", start="06:00", end="14:00", share=0.4)
LATE = Shift(name="late", start="14:00", end="22:00", share=0.4)
NIGHT = Shift(name="night", start="22:00", end="06:00", share=0.2)


def days_from(first: date, count: int) -> list[date]:
    return [first + timedelta(days=step) for step in range(count)]


def wanted(shift: Shift, day: date, *savings: float, zone: str = "UTC") -> WantedShift:
    return WantedShift(day, shift.name, *instants(shift, day, ZoneInfo(zone)), savings)


def staff(people: int, name: str = "full-time", **rules: Any) -> Staff:
    return Staff(EmploymentContract(name=name, per_depot=people, **rules), people)


def plan_week(
    depot_id: str,
    days: Sequence[date],
    shifts: Sequence[WantedShift],
    crew: Sequence[Staff],
    *,
    at: datetime = NOW,
    before: WeekPlan | None = None,
    explain: bool = True,
) -> WeekPlan:
    """Plan of a week, with the cost of each rule."""
    task = WeekTask(depot_id, tuple(days), tuple(shifts), tuple(crew), 38, at, before)
    return task.explain(task.plan()) if explain else task.plan()


def broken_rules(duties: Sequence[Duty], contract: EmploymentContract) -> list[str]:
    """Rules broken by a person's shifts; `duties` are in date order."""
    broken = []
    for earlier, later in pairwise(duties):
        if earlier.date == later.date:
            broken.append(f"two shifts on {later.date}")
        if (later.start - earlier.end).total_seconds() < contract.min_rest_hours * 3600:
            broken.append(f"rest before {later.date}")
    working = {duty.date for duty in duties}
    for day in working:
        if all(day + timedelta(days=step) in working for step in range(contract.max_days_in_row + 1)):
            broken.append(f"days in a row from {day}")
        monday = day - timedelta(days=day.weekday())
        week = [duty for duty in duties if monday <= duty.date < monday + timedelta(days=7)]
        if len(week) > contract.max_shifts_week:
            broken.append(f"shifts in the week of {monday}")
        hours = sum((duty.end - duty.start).total_seconds() for duty in week) / 3600
        if contract.hours_week is not None and contract.cost_overtime is None and hours > contract.hours_week + 1e-9:
            broken.append(f"hours in the week of {monday}")
    return broken
