"""Plans of a week: computed by hand, compared with all possible plans, and checked against the
rules across runs."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import EmploymentContract
from forecaster.core.language import use_language
from forecaster.ledger.week_plan import Duty, RuleCost, WeekPlan
from forecaster.staffing.people.rule_sentences import rule_sentence, summary
from forecaster.staffing.people.week_planner import Staff, WantedShift
from forecaster.staffing.people.worker import Worker
from tests.staffing.people.weeks import (
    EARLY,
    LATE,
    MONDAY,
    NIGHT,
    NOW,
    broken_rules,
    days_from,
    plan_week,
    staff,
    wanted,
)

DAY = timedelta(days=1)
SHIFTS = (EARLY, LATE, NIGHT)


def plan(first: date, count: int, shifts: Sequence[WantedShift], *crew: Staff, **more: Any) -> WeekPlan:
    return plan_week("D0", days_from(first, count), shifts, crew, **more)


def worked(result: WeekPlan) -> dict[str, list[tuple[int, str]]]:
    """Shifts of each person as (day of the month, shift)."""
    return {person.name: [(duty.date.day, duty.shift) for duty in person.duties] for person in result.positions}


def test_five_of_seven_days_are_worked_except_the_two_saving_least() -> None:
    savings = [10, 20, 5, 30, 30, 7, 40]
    week = [wanted(EARLY, day, saving) for day, saving in zip(days_from(MONDAY, 7), savings, strict=True)]
    result = plan(MONDAY, 7, week, staff(1))
    assert worked(result) == {
        "full-time 1": [(19, "early"), (20, "early"), (22, "early"), (23, "early"), (25, "early")]
    }
    assert (result.cost, result.missing, result.gap) == (12, 2, 0)
    assert result.rules == (RuleCost("full-time", "per_depot", 1, 12), RuleCost("full-time", "max_shifts_week", 5, 7))
    # without the limit of five, at most six days in a row are worked, and the one that saves 5
    # stays open
    assert summary(result) == "7 drivers needed over the week; 2 of them are not covered, at an expected cost of 12."
    assert [rule_sentence(rule) for rule in result.rules] == [
        "One more full-time driver in addition to the 1 would save 12.",
        "“At most 5 shifts a week” (full-time) costs 7.",
    ]


def test_a_week_is_planned_without_scipy() -> None:
    """Importing scipy would add half a second to each run that plans weeks."""
    code = (
        "import sys\n"
        "from tests.staffing.people.test_week_planner import plan\n"
        "from tests.staffing.people.weeks import EARLY, MONDAY, staff, wanted\n"
        "assert plan(MONDAY, 1, [wanted(EARLY, MONDAY, 30)], staff(1)).missing == 0\n"
        "print([name for name in ('scipy', 'jax', 'mlflow', 'prefect') if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    process = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (process.stdout.strip(), process.returncode) == ("[]", 0), process.stderr


def test_no_early_shift_follows_a_late_shift() -> None:
    """From 22:00 to 06:00 there are eight hours, of the eleven required for rest."""
    week = [wanted(LATE, MONDAY, 30), wanted(EARLY, MONDAY + DAY, 20)]
    result = plan(MONDAY, 2, week, staff(1))
    assert worked(result) == {"full-time 1": [(19, "late")]}
    assert RuleCost("full-time", "min_rest_hours", 11, 20) in result.rules
    assert worked(plan(MONDAY, 2, week, staff(1, min_rest_hours=8))) == {"full-time 1": [(19, "late"), (20, "early")]}


def test_rest_rule_includes_yesterday_of_the_previous_plan() -> None:
    before = plan(MONDAY, 1, [wanted(LATE, MONDAY, 30)], staff(1))
    tomorrow = [wanted(EARLY, MONDAY + DAY, 20)]
    assert plan(MONDAY + DAY, 1, tomorrow, staff(1)).missing == 0
    assert plan(MONDAY + DAY, 1, tomorrow, staff(1), before=before).missing == 1


def test_rest_of_more_than_a_day_extends_over_a_free_day() -> None:
    """A night shift of Monday ends on Tuesday at 06:00: 24 hours of rest allow a start on Wednesday
    at 06:00, but not at 05:00."""
    week = [wanted(NIGHT, MONDAY, 30), wanted(EARLY, MONDAY + 2 * DAY, 30)]
    assert plan(MONDAY, 3, week, staff(1, min_rest_hours=24)).missing == 0
    early = replace(week[1], start=week[1].start - timedelta(hours=1))
    assert plan(MONDAY, 3, [week[0], early], staff(1, min_rest_hours=24)).missing == 1


def test_clock_changes_shorten_or_lengthen_the_rest() -> None:
    """In New York clocks went forward on 8 March 2026 and back on 1 November."""
    for saturday, missing in ((date(2026, 3, 7), 1), (date(2026, 10, 31), 0)):
        week = [
            wanted(LATE, saturday, 30, zone="America/New_York"),
            wanted(EARLY, saturday + DAY, 20, zone="America/New_York"),
        ]
        assert plan(saturday, 2, week, staff(1, min_rest_hours=8)).missing == missing


def test_night_shift_counts_an_hour_more_when_clocks_go_back() -> None:
    saturday = date(2026, 10, 31)
    night = wanted(NIGHT, saturday, 30, zone="America/New_York")
    result = plan(saturday, 1, [night], staff(1, hours_week=8, cost_overtime=2.5))
    [duty] = result.positions[0].duties
    assert (duty.hours, result.overtime_hours, result.cost) == (9, 1, 2.5)
    assert plan(saturday, 1, [night], staff(1, hours_week=8)).missing == 1
    assert summary(result) == (
        "The 1 driver needed over the week is covered, with 1 hour of overtime, at an expected cost of 2."
    )
    assert " with 7,5 hours of overtime" in summary(
        replace(result, overtime_hours=7.5), number=lambda value: f"{value:g}".replace(".", ",")
    )


def test_overtime_is_used_if_cheaper_than_a_missing_driver() -> None:
    week = [wanted(EARLY, day, saving) for day, saving in zip(days_from(MONDAY, 3), (30, 15, 30), strict=True)]
    result = plan(MONDAY, 3, week, staff(1, hours_week=8, cost_overtime=2))  # a further shift costs 16
    assert worked(result) == {"full-time 1": [(19, "early"), (21, "early")]}
    assert (result.cost, result.overtime_hours) == (31, 8)
    assert RuleCost("full-time", "hours_week", 8, 31) in result.rules


def test_people_keep_their_shifts_and_a_dropped_shift_is_cancelled_once() -> None:
    week = [wanted(EARLY, day, 30, 20) for day in days_from(MONDAY, 4)]
    crew = staff(3)
    first = plan(MONDAY, 4, week, crew)
    again = plan(MONDAY, 4, week, crew, before=first, at=NOW + DAY)
    assert again == first
    fewer = [*week[:2], replace(week[2], savings=(30.0,)), week[3]]
    then = plan(MONDAY, 4, fewer, crew, before=first, at=NOW + DAY)
    [off] = [duty for person in then.positions for duty in person.cancelled]
    assert (off.date, off.since) == (MONDAY + 2 * DAY, NOW + DAY)
    assert {duty.since for person in then.positions for duty in person.duties} == {NOW}
    next_morning = plan(MONDAY + DAY, 3, fewer[1:], crew, before=then, at=NOW + 2 * DAY)
    assert [duty for person in next_morning.positions for duty in person.cancelled] == [off]
    assert {duty.since for person in next_morning.positions for duty in person.duties} == {NOW}


def test_plan_survives_a_json_round_trip() -> None:
    week = [wanted(shift, day, 30, 20, zone="Asia/Kolkata") for day in days_from(MONDAY, 3) for shift in SHIFTS]
    result = plan(MONDAY, 3, week, staff(2), staff(1, "part-time", max_shifts_week=3))
    assert WeekPlan.from_json(result.to_json()) == result


def test_plan_without_people_or_shifts_is_empty() -> None:
    nobody = plan(MONDAY, 2, [wanted(EARLY, MONDAY, 30)], staff(0))
    assert (nobody.positions, nobody.cost) == ((), 30)
    assert nobody.rules == (RuleCost("full-time", "per_depot", 0, 30),)
    idle = plan(MONDAY, 2, [], staff(1))
    assert (worked(idle), idle.cost, summary(idle)) == ({"full-time 1": []}, 0, "No drivers are needed on these days.")


def test_people_off_work_on_other_days_and_the_cost_is_reported() -> None:
    """Ana and Ben, one driver wanted on three days: on Tuesday both are off, and the shift worth 30
    stays open."""
    contract = staff(0).contract
    tuesday = ((MONDAY + DAY, MONDAY + DAY),)
    crew = Staff(contract, 0, (Worker("D0", "Ana", "full-time", tuesday), Worker("D0", "Ben", "full-time", tuesday)))
    week = [wanted(EARLY, day, 30) for day in days_from(MONDAY, 3)]
    result = plan(MONDAY, 3, week, crew)
    assert sorted(day for days in worked(result).values() for day, _ in days) == [19, 21]
    assert [(person.name, person.days_off, person.is_named) for person in result.positions] == [
        ("Ana", (MONDAY + DAY,), True),
        ("Ben", (MONDAY + DAY,), True),
    ]
    assert result.rules == (
        RuleCost("full-time", "days_off", 2, 30),
        RuleCost("full-time", "per_depot", 2, 30),
    )
    assert rule_sentence(result.rules[0]) == (
        "Days off (full-time) cost 30: people who are off could work open shifts."
    )
    with use_language("de"):
        assert rule_sentence(result.rules[0]).startswith("Freie Tage (full-time) kosten 30: ")


def test_shifts_that_a_person_cannot_work_go_to_others() -> None:
    crew = Staff(staff(0).contract, 1, (Worker("D0", "Ana", "full-time", cannot_work=("late",)),))
    week = [wanted(shift, MONDAY, 30) for shift in (EARLY, LATE)]
    result = plan(MONDAY, 1, week, crew)
    assert worked(result) == {"Ana": [(19, "early")], "full-time 1": [(19, "late")]}
    assert result.missing == 0


def test_named_people_keep_shifts_and_names_can_be_removed() -> None:
    person = Worker("D0", "Ana", "full-time", ((MONDAY, MONDAY),), ("late",))
    week = [wanted(EARLY, day, 30) for day in days_from(MONDAY, 3)]
    first = plan(MONDAY, 3, week, Staff(staff(0).contract, 0, (person,)))
    assert plan(MONDAY, 3, week, Staff(staff(0).contract, 0, (person,)), before=first, at=NOW + DAY) == first
    assert WeekPlan.from_json(first.to_json()) == first
    [position] = first.nameless().positions
    assert (position.name, position.days_off, position.cannot_work) == ("full-time, 1", (), ())
    assert position.duties == first.positions[0].duties
    assert "Ana" not in first.positions[0].key("D0")


contracts = st.builds(
    EmploymentContract,
    name=st.just("x"),
    per_depot=st.just(1),
    max_shifts_week=st.integers(1, 4),
    min_rest_hours=st.sampled_from([0.0, 8.0, 11.0, 24.0]),
    max_days_in_row=st.integers(1, 4),
    hours_week=st.sampled_from([None, 8.0, 20.0]),
)
savings = st.lists(st.integers(1, 40), min_size=0, max_size=2).map(lambda values: sorted(values, reverse=True))


def cheapest_of_all(
    week: Sequence[WantedShift], days: Sequence[date], crew: Sequence[Staff], past: Sequence[Any]
) -> float:
    """Minimum cost of uncovered shifts, by enumerating all weeks of all people."""
    by_day = [[None, *(shift for shift in week if shift.date == day)] for day in days]
    allowed = []
    for group, before in zip(crew, past, strict=True):
        mine = set()
        for way in product(*by_day):
            duties = [Duty(shift.date, shift.name, shift.start, shift.end, NOW) for shift in way if shift is not None]
            if not broken_rules([*before, *duties], group.contract):
                mine.add(tuple((duty.date, duty.shift) for duty in duties))
        allowed.append(mine)

    def cost(ways: Sequence[Any]) -> float:
        there = Counter(slot for way in ways for slot in way)
        return sum(sum(shift.savings[there[shift.date, shift.name] :]) for shift in week)

    return min(cost(ways) for ways in product(*allowed))


@given(
    st.lists(contracts, min_size=2, max_size=2), st.lists(savings, min_size=8, max_size=8), st.integers(0, 6), st.data()
)
def test_no_allowed_plan_costs_less(
    rules: list[EmploymentContract], values: list[list[int]], offset: int, data: st.DataObject
) -> None:
    first = MONDAY + offset * DAY
    days = days_from(first, 4)
    shifts = data.draw(st.sampled_from([(EARLY, LATE), (LATE, NIGHT), (EARLY, NIGHT)]))
    slots = [(day, shift) for day in days for shift in shifts]
    week = [wanted(shift, day, *value) for (day, shift), value in zip(slots, values, strict=True)]
    crew = [Staff(contract.model_copy(update={"name": name}), 1) for contract, name in zip(rules, "ab", strict=True)]
    yesterday = [wanted(LATE, first - DAY, 30)]
    before = plan(first - DAY, 1, yesterday, *crew) if data.draw(st.booleans()) else None
    past = [person.duties for person in before.positions] if before else [(), ()]
    result = plan(first, 4, week, *crew, before=before)
    assert result.cost == pytest.approx(cheapest_of_all(week, days, crew, past))
    assert result.gap == 0


@given(st.data())
def test_rules_hold_across_consecutive_runs_weeks_and_clock_changes(data: st.DataObject) -> None:
    """Ten consecutive runs, each with other needs; the worked shifts are those that each run
    planned for its first day."""
    first = data.draw(st.sampled_from([date(2026, 3, 4), date(2026, 10, 28), MONDAY]))
    zone = data.draw(st.sampled_from(["America/New_York", "Europe/Berlin", "Asia/Kolkata"]))
    crew = [
        staff(data.draw(st.integers(1, 5)), "full-time"),
        Staff(data.draw(contracts).model_copy(update={"name": "other"}), data.draw(st.integers(0, 3))),
    ]
    before, history = None, dict[str, list[Duty]]()
    for night in range(10):
        days = days_from(first + night * DAY, 7)
        week = [wanted(shift, day, *data.draw(savings), zone=zone) for day in days for shift in SHIFTS]
        result = plan(days[0], 7, week, *crew, before=before, at=NOW + night * DAY, explain=False)
        planned = Counter((duty.date, duty.shift) for person in result.positions for duty in person.duties)
        assert all(planned[cover.date, cover.shift] == cover.planned <= cover.wanted for cover in result.shifts)
        for person in result.positions:
            contract = next(group.contract for group in crew if group.contract.name == person.contract)
            worked_before = history.setdefault(person.name, [])
            assert broken_rules([*worked_before, *person.duties], contract) == []
            worked_before += [duty for duty in person.duties if duty.date == days[0]]
        before = WeekPlan.from_json(result.to_json())
