"""Premiums of people in a published week: for another person in the same crew, a move, a refusal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from forecaster.planning import refresh, schedules
from forecaster.planning.people import person_days, shift_edits
from forecaster.planning.people.person_days import PersonDay
from forecaster.planning.people.shift_edits import ShiftEdit
from forecaster.planning.schedules import ScheduleChange
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import THURSDAY, current, publish_as_of, publish_nights
from tests.planning.test_shift_edits import STAFFING, plan, shift_of

ADDED, REMOVED = 15.0, 45.0
NOTICED = STAFFING.replace(
    "cost_idle: 22", f"cost_idle: 22, notice_days: 2, change_premium: [{{added: {ADDED}, removed: {REMOVED}}}]"
)
PEOPLE = "person,depot_id,contract,first,not\nAna,A,full-time,,\nBo,A,full-time,,\n"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    fleet = publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=NOTICED, people=PEOPLE)
    publish_thursday(fleet.spec)
    return fleet


def publish_thursday(spec: Spec) -> None:
    assert spec.staffing is not None
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        depots, week, at = current(spec).depots, (THURSDAY, THURSDAY), datetime.now(UTC)
        schedules.publish_days(connection, spec.name, depots, week, spec.staffing, by="Ana", at=at)


def test_first_plan_of_people_changes_no_published_crew(tmp_path: Path) -> None:
    """Nobody was planned when the week was published, so planning people for its crews costs no
    premium."""
    people = "people: [{name: full-time, per_depot: 9}], "
    table = "people_table: {source: {kind: csv, path: people.csv}, columns: {off_from: first, cannot_work: not}}, "
    crews = NOTICED.replace(people, "").replace(table, "")
    fleet = publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=crews)
    publish_thursday(fleet.spec)
    fleet.file.write_text(fleet.file.read_text("utf-8").replace("shifts:", f"{people}shifts:"), "utf-8")
    publish_as_of(load(fleet.file), AS_OF)
    assert names(fleet.spec, "early")
    assert changes(fleet.spec) == []


def changes(spec: Spec) -> list[ScheduleChange]:
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        every = schedules.read_changes(connection, spec.name, THURSDAY, "A")
    return [change for change in every if change.premium is not None]


def names(spec: Spec, shift: str) -> list[str]:
    """People who work a shift on Thursday; for "" those who are free."""
    return [who.name for who in plan(spec).positions if shift_of(spec, who.name) == shift]


def test_replacing_a_person_costs_one_cancelled_and_one_added_shift(fleet: Fleet) -> None:
    leaves, comes = names(fleet.spec, "early")[0], names(fleet.spec, "")[0]
    edits = [ShiftEdit(leaves, THURSDAY, ""), ShiftEdit(comes, THURSDAY, "early")]
    shift_edits.save(fleet.spec, "A", edits, by="Vic")
    [change] = changes(fleet.spec)
    assert change.before == change.crews
    assert (change.premium, change.saving) == (ADDED + REMOVED, 0)
    publish_as_of(fleet.spec, AS_OF)  # a run without changes owes nothing
    assert changes(fleet.spec) == [change]


def test_swap_by_a_planner_costs_two_changes_without_lost_hours(fleet: Fleet) -> None:
    early, late = names(fleet.spec, "early")[0], names(fleet.spec, "late")[0]
    edits = [ShiftEdit(early, THURSDAY, "late"), ShiftEdit(late, THURSDAY, "early")]
    shift_edits.save(fleet.spec, "A", edits, by="Vic")
    assert [change.premium for change in changes(fleet.spec)] == [2 * ADDED]


def test_premium_is_owed_to_the_substitute_but_not_to_the_decliner(fleet: Fleet) -> None:
    leaves = names(fleet.spec, "early")[0]
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        row = PersonDay("A", THURSDAY, leaves, "early", "declined", leaves, datetime.now(UTC))
        person_days.answer(connection, fleet.spec.name, row)
        refresh.refresh_within(connection, fleet.spec.name, fleet.spec.paths)
    assert leaves in names(fleet.spec, "")
    [change] = changes(fleet.spec)
    assert change.before == change.crews
    assert change.premium == ADDED


def test_no_premium_is_owed_for_a_swap_between_people(fleet: Fleet) -> None:
    leaves, comes = names(fleet.spec, "early")[0], names(fleet.spec, "")[0]
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        row = PersonDay("A", THURSDAY, leaves, "early", "offered", leaves, datetime.now(UTC))
        assert person_days.answer(connection, fleet.spec.name, row)
    shift_edits.take(fleet.spec, "A", THURSDAY, "early", person=comes)
    assert comes in names(fleet.spec, "early")
    assert changes(fleet.spec) == []
