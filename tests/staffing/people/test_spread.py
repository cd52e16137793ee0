"""Weekend and late shifts are balanced over people by a declared weight, and the cost of that is
reported."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from itertools import product

import pytest

from forecaster.config import Staffing
from forecaster.ledger.week_plan import Duty, Position, RuleCost, WeekPlan
from forecaster.staffing.people.rule_sentences import rule_sentence
from forecaster.staffing.people.week_planner import WeekTask
from forecaster.staffing.people.week_problem import Spread, Staff, WantedShift
from tests.staffing.people.weeks import EARLY, LATE, MONDAY, NIGHT, NOW, broken_rules, days_from, staff, wanted

WEEK = timedelta(days=7)
SPREAD = Spread(4.0, frozenset({"late"}))


def task(
    first: date, shifts: list[WantedShift], crew: Staff, spread: Spread | None, before: WeekPlan | None
) -> WeekTask:
    return WeekTask("D0", tuple(days_from(first, 7)), tuple(shifts), (crew,), 38.0, NOW, before, spread=spread)


def eight_weeks(spread: Spread | None) -> tuple[Counter[str], float]:
    """Weekend and late shifts of six people over eight weeks, with three drivers a day, and the
    total cost."""
    before, burdens, cost = None, Counter[str](), 0.0
    for week in range(8):
        first = MONDAY + week * WEEK
        shifts = [
            wanted(shift, day, *savings)
            for day, (shift, savings) in product(days_from(first, 7), ((EARLY, (30.0, 20.0)), (LATE, (25.0,))))
        ]
        crew = staff(6)
        before = task(first, shifts, crew, spread, before).plan()
        cost += before.cost
        for who in before.positions:
            assert broken_rules(who.duties, crew.contract) == []
            burdens[who.name] += sum(SPREAD.is_unpopular(duty.date, duty.shift) for duty in who.duties)
    return burdens, cost


def test_unpopular_shifts_are_balanced_over_eight_weeks_at_no_extra_cost() -> None:
    free, cost = eight_weeks(None)
    fair, fair_cost = eight_weeks(SPREAD)
    assert sum(free.values()) == sum(fair.values()) == 8 * (7 + 4)  # late every day, and early twice at weekends
    assert max(fair.values()) - min(fair.values()) <= 3
    assert max(free.values()) - min(free.values()) > 20
    assert fair_cost == pytest.approx(cost) == 0


def burdened(name: str, shifts: int) -> Position:
    """A person with `shifts` earlier late shifts."""
    duties = []
    for number in range(shifts):
        late = wanted(LATE, MONDAY - (2 + 2 * number) * timedelta(days=1))
        duties.append(Duty(late.date, "late", late.start, late.end, NOW))
    return Position(name, "full-time", (), before=tuple(reversed(duties)))


def test_balancing_costs_at_most_its_weight_and_reports_the_cost() -> None:
    """A person with six more late shifts than the average is not assigned another one that saves
    only 20."""
    crew = staff(2, max_shifts_week=1)
    before = WeekPlan("D0", (burdened("full-time 1", 12), burdened("full-time 2", 0)), (), (), 0.0, 0.0, 0.0)
    shifts = [wanted(LATE, MONDAY, 20.0, 20.0)]
    for weight, missing in ((3.0, 0), (4.0, 1)):
        spread = task(MONDAY, shifts, crew, replace(SPREAD, weight=weight), before)
        plan = spread.explain(spread.plan())
        assert plan.missing == missing
    assert plan.cost == 20
    assert {who.name for who in plan.positions if who.duties} == {"full-time 2"}
    cost = next(rule for rule in plan.rules if rule.rule == "spread_weight")
    assert cost == RuleCost("", "spread_weight", 4.0, 20.0)
    assert rule_sentence(cost) == "Spreading weekend and late shifts over people and granting wishes costs 20."
    assert plan.late_shifts == ("late",)


def working(plan: WeekPlan) -> list[str]:
    return [who.name for who in plan.positions if who.duties]


@pytest.mark.parametrize(("saving", "missing"), [(3.9, 1), (4.1, 0)])
def test_wish_for_a_free_day_is_worth_the_weight(saving: float, missing: int) -> None:
    wishes = {"full-time 1": (MONDAY,)}
    shift = [wanted(EARLY, MONDAY, 30.0)]
    both = replace(task(MONDAY, shift, staff(2), SPREAD, None), wishes=wishes)
    assert working(both.plan()) == ["full-time 2"]
    assert working(replace(both, wishes={}).plan()) == ["full-time 1"]
    alone = replace(task(MONDAY, [wanted(EARLY, MONDAY, saving)], staff(1), SPREAD, None), wishes=wishes)
    plan = alone.explain(alone.plan())
    assert plan.missing == missing
    rules = [rule.rule for rule in plan.rules if rule.rule == "spread_weight"]
    assert rules == ["spread_weight"] * missing
    assert replace(alone, spread=None).plan().missing == 0


def test_declined_wish_gives_priority_for_the_next_one() -> None:
    worked = wanted(EARLY, MONDAY)
    duty = Duty(worked.date, "early", worked.start, worked.end, NOW)
    declined = Position("full-time 2", "full-time", (), before=(duty,), wishes=(MONDAY,))
    before = WeekPlan("D0", (Position("full-time 1", "full-time", ()), declined), (), (), 0.0, 0.0, 0.0)
    tuesday = MONDAY + timedelta(days=1)
    shift = [wanted(EARLY, tuesday, 30.0)]
    wishes = {"full-time 1": (tuesday,), "full-time 2": (MONDAY, tuesday)}
    plan = replace(task(tuesday, shift, staff(2), SPREAD, before), wishes=wishes).plan()
    assert working(plan) == ["full-time 1"]
    assert [who.declined_wishes for who in plan.positions] == [0, 1]


def test_late_shifts_end_after_20_00_or_on_the_next_day() -> None:
    shifts = (EARLY, LATE, NIGHT)
    assert Staffing(orders_per_driver=10, cost_short=38, cost_idle=22, shifts=shifts).late_shifts == {"late", "night"}
