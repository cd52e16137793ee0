"""Plans of all depots: from the columns of the depots source and the published days to each
person's shifts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from forecaster.config import Shift
from forecaster.core.knowledge import Finding
from forecaster.demand.validation import reference_tables
from forecaster.staffing import rosters
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.people import week_plans
from forecaster.staffing.people.worker import Worker
from tests.demand.history.test_past_panels import TONIGHT, write
from tests.staffing.test_rosters import DEPOTS, published, spec_of

PEOPLE = (
    "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10, shifts: [{name: early, start: 06:00, end: 14:00, "
    "share: 0.5}, {name: late, start: 14:00, end: 22:00, share: 0.5}], people: [{name: full-time, per_depot: vans}]}"
)


def planned(folder: Path, roster: Roster | None = None, **more: Any) -> tuple[week_plans.PlannedWeeks, Any]:
    """Plans of two depots, A with 40 orders a day and B with 10, with three people each."""
    spec = spec_of(folder, DEPOTS + PEOPLE)
    panel, depots = published(folder, DEPOTS + PEOPLE)
    assert spec.staffing is not None
    forecast_roster = rosters.plan(_forecast(depots, panel), panel, spec)
    given = {"timezone": "UTC", "at": TONIGHT, "before": {}} | more
    return week_plans.plan_weeks(depots, roster or forecast_roster, panel, spec.staffing, **given), depots


def _forecast(depots: Any, panel: Any) -> Any:
    from tests.panels import forecast

    values = [[day.quantiles for day in depot.days] for depot in depots]
    levels = (0.1, 0.5, 0.9)
    short = [[[quantiles[0], quantiles[len(quantiles) // 2], quantiles[-1]] for quantiles in rows] for rows in values]
    return replace(forecast(short, levels=levels, cutoff=panel.cutoff), depot_ids=panel.depot_ids)


def test_each_depot_has_the_number_of_people_in_its_column(tmp_path: Path) -> None:
    result, depots = planned(tmp_path)
    assert result.troubles == ()
    first, second = result.plans
    assert [position.name for position in first.positions] == ["full-time 1", "full-time 2", "full-time 3"]
    for plan, depot in zip(result.plans, depots, strict=True):
        crews = {(day.target_date, shift): count for day in depot.days for shift, count in day.roster.shifts}
        assert {(cover.date, cover.shift): cover.wanted for cover in plan.shifts} == crews
    # forty orders need two drivers per shift; five shifts per person
    assert (first.missing, second.missing) == (28 - 15, 0)


def test_named_people_are_planned_and_kept_without_their_table(tmp_path: Path) -> None:
    """A needs four drivers a day, two early and two late; with Ana there are four people."""
    off = date(2024, 3, 12)
    people = [Worker("A", "Ana", "full-time", ((off, off),), ("late",)), Worker("A", "Zoe", "no such contract")]
    first, _ = planned(tmp_path, people=people)
    plan = first.plans[0]
    assert [position.name for position in plan.positions] == ["Ana", "full-time 1", "full-time 2", "full-time 3"]
    assert plan.missing == 28 - 20
    assert {duty.shift for duty in plan.positions[0].duties} == {"early"}
    again, _ = planned(tmp_path, before={plan.depot_id: plan for plan in first.plans})
    assert week_plans.people_of_plans(first.plans) == week_plans.people_of_plans(again.plans)
    assert again.plans[0].positions[0].name == "Ana"
    gone, _ = planned(tmp_path, before={plan.depot_id: plan for plan in first.plans}, people=())
    assert gone.plans[0].positions[0].name == "full-time 1"


def test_depots_left_unplanned_at_the_time_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(week_plans, "PLAN_SECONDS", -1.0)
    result, _ = planned(tmp_path)
    assert result.plans == ()
    assert result.troubles == ("2 depots have no plan of the week: the limit of -1 seconds was reached",)


def test_invalid_numbers_of_people_are_reported_and_ignored(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,city,vans", "A,Ulm,two", "B,Ulm,3", "C,Ulm,", "D,Ulm,501", "E,Ulm,4.0")
    findings: list[Finding] = []
    depots = reference_tables.depots(spec_of(tmp_path, DEPOTS + PEOPLE), findings)
    assert depots["vans"].tolist() == ["", "3", "", "", "4.0"]
    [finding] = findings
    assert (finding.rule, finding.count) == ("people_form", 2)


def test_shift_over_midnight_ends_on_the_next_day_despite_clock_changes() -> None:
    night = Shift(name="night", start="22:00", end="06:00", share=1)
    zone = ZoneInfo("Europe/Berlin")  # clocks go back on 25 October 2026 and forward on 29 March

    def hours(day: date) -> float:
        start, end = week_plans.instants(night, day, zone)
        return (end - start).total_seconds() / 3600

    assert (hours(date(2026, 10, 23)), hours(date(2026, 10, 24)), hours(date(2026, 3, 28))) == (8, 9, 7)
    assert week_plans.instants(night, date(2026, 10, 24), zone)[0] == datetime(2026, 10, 24, 20, tzinfo=UTC)
