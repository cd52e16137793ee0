"""Edits of a week: people moved by hand, the cost, and rules that forbid it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.errors import OverrideError
from forecaster.ledger import soundness
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import WeekPlan
from forecaster.planning import service
from forecaster.planning.people import person_days, shift_edits
from forecaster.planning.people.person_days import PersonDay
from forecaster.planning.people.shift_edits import EditAnswer, Move, ShiftEdit
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, PROPOSED, THURSDAY, current, day, publish_as_of, publish_nights

STAFFING = (
    "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, "
    "people_table: {source: {kind: csv, path: people.csv}, columns: {off_from: first, cannot_work: not}}, "
    "people: [{name: full-time, per_depot: 9}], shifts: [{name: early, start: 06:00, end: 14:00, share: 0.6}, "
    "{name: late, start: 14:00, end: 22:00, share: 0.4}]}\n"
)
FRIDAY = THURSDAY + DAY


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    named = [f"Ana,A,full-time,{FRIDAY},", "Bo,A,full-time,,late"]
    people = "\n".join(["person,depot_id,contract,first,not", *named, ""])
    return publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING, people=people)


def plan(spec: Spec, depot_id: str = "A") -> WeekPlan:
    return next(plan for plan in current(spec).plans if plan.depot_id == depot_id)


def shift_of(spec: Spec, person: str, on: date = THURSDAY) -> str:
    who = next(who for who in plan(spec).positions if who.name == person)
    return next((duty.shift for duty in who.duties if duty.date == on), "")


def edit(spec: Spec, person: str, shift: str | None, on: date = THURSDAY) -> EditAnswer:
    return shift_edits.save(spec, "A", [ShiftEdit(person, on, shift)], by="Ana")


def test_asking_about_an_edit_returns_its_cost_and_writes_nothing(fleet: Fleet) -> None:
    before = current(fleet.spec)
    working = [who.name for who in plan(fleet.spec).positions if any(duty.date == THURSDAY for duty in who.duties)]
    free = [ShiftEdit(name, THURSDAY, "") for name in working]
    answer = shift_edits.ask(fleet.spec, "A", free)
    assert {move.person for move in answer.moves if move.target_date == THURSDAY and not move.after} >= set(working)
    [effect] = [effect for effect in answer.days if effect.target_date == THURSDAY]
    assert (effect.drivers[0], effect.chance_short[1]) == (day(before).drivers, 1)
    assert effect.drivers[1] is not None
    assert effect.drivers[0] is not None
    assert effect.drivers[1] < effect.drivers[0]
    assert answer.cost[1] > answer.cost[0] == pytest.approx(answer.optimal_cost)
    assert {(move.person, move.before) for move in answer.optimal_moves if move.target_date == THURSDAY}
    assert current(fleet.spec) == before


def test_shift_set_by_hand_holds_until_it_is_released(fleet: Fleet) -> None:
    was = shift_of(fleet.spec, "Bo")
    assert edit(fleet.spec, "Bo", "").moves[0] == Move("Bo", THURSDAY, was, "")
    assert shift_of(fleet.spec, "Bo") == ""
    service.save(fleet.spec, PROPOSED)  # replans the depot
    assert shift_of(fleet.spec, "Bo") == ""
    publish_as_of(fleet.spec, AS_OF)
    bo = next(who for who in plan(fleet.spec).positions if who.name == "Bo")
    assert (bo.assigned, bo.forbidden_by, shift_of(fleet.spec, "Bo")) == (((THURSDAY, ""),), None, "")
    edit(fleet.spec, "Bo", None)
    assert all(not who.assigned for who in plan(fleet.spec).positions)


def test_people_added_beyond_the_optimum_count_as_attending_drivers(fleet: Fleet) -> None:
    before = day(current(fleet.spec)).drivers
    assert before is not None
    edits = [ShiftEdit(f"full-time {number}", THURSDAY, "early") for number in range(1, 10)]
    answer = shift_edits.save(fleet.spec, "A", edits, by="Ana")
    after = day(current(fleet.spec))
    assert after.drivers is not None
    assert after.roster is not None
    assert after.drivers > before
    assert sum(dict(after.roster.shifts).values()) == after.drivers
    assert answer.cost[1] > answer.cost[0]
    shift_edits.save(fleet.spec, "A", [ShiftEdit(each.person, THURSDAY, None) for each in edits], by="Ana")
    assert day(current(fleet.spec)).drivers == before


@pytest.mark.parametrize(
    ("person", "shift", "on", "why"),
    [
        ("Ana", "early", FRIDAY, "Ana on 2024-04-12: found early, which a day off forbids (full-time)"),
        (
            "Bo",
            "late",
            THURSDAY,
            "found late, which the list of shifts that the person cannot work forbids (full-time)",
        ),
        ("Cy", "late", THURSDAY, "person: found 'Cy', wanted one of Ana, Bo, full-time 1"),
        ("Bo", "night", THURSDAY, "shift: found 'night', wanted one of early, late"),
        ("Bo", "early", date(2024, 1, 1), "date: found 2024-01-01, wanted a published day"),
    ],
)
def test_rejected_edit_changes_nothing(fleet: Fleet, person: str, shift: str, on: date, why: str) -> None:
    before = current(fleet.spec)
    with pytest.raises(OverrideError) as refused:
        edit(fleet.spec, person, shift, on)
    assert why in str(refused.value)
    assert current(fleet.spec) == before
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert person_days.last_change(connection, fleet.spec.name) is None


def test_rest_rule_applies_between_shifts_set_by_hand(fleet: Fleet) -> None:
    person = "full-time 1"
    edit(fleet.spec, person, "late")
    with pytest.raises(OverrideError, match="the rest between shifts"):
        edit(fleet.spec, person, "early", FRIDAY)


def test_the_same_edit_twice_is_written_once_and_audited_once(fleet: Fleet) -> None:
    audited: list[EditAnswer] = []
    for _ in range(2):
        shift_edits.save(
            fleet.spec,
            "A",
            [ShiftEdit("Bo", THURSDAY, "")],
            by="Ana",
            audit=lambda _, answer: audited.append(answer),
        )
    assert len(audited) == 1


def test_refusal_frees_the_day_until_a_planner_sets_it(fleet: Fleet) -> None:
    """The newer of the two counts."""
    refusal = PersonDay("A", THURSDAY, "Bo", "early", "declined", "Bo", datetime.now(UTC))
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert [person_days.write(connection, fleet.spec.name, [refusal]) for _ in range(2)] == [1, 0]
        assigned, _ = person_days.read_decisions(connection, fleet.spec.name, THURSDAY)
        assert assigned == {"A": {"Bo": ((THURSDAY, ""),)}}
    edit(fleet.spec, "Bo", "early")
    assert shift_of(fleet.spec, "Bo") == "early"


def test_run_reports_shifts_set_by_hand_that_a_rule_forbids(fleet: Fleet) -> None:
    spec = load(fleet.file)
    edit(spec, "Bo", "early", FRIDAY)
    table = fleet.file.parent / "people.csv"
    table.write_text(f"person,depot_id,contract,first,not\nBo,A,full-time,{FRIDAY},\n")
    publish_as_of(fleet.spec, AS_OF)
    bo = next(who for who in plan(spec).positions if who.name == "Bo")
    assert (bo.assigned, bo.forbidden_by) == (((FRIDAY, "early"),), "days_off")
    assert FRIDAY not in {duty.date for duty in bo.duties}
    with Ledger.open_reader(spec.ledger_url) as ledger:
        run = ledger.runs()[0]
    assert "A: shifts set by hand are left out of the plan for 1 person, since a day off forbids them" in str(run)


def test_run_reports_shifts_of_people_who_are_not_in_the_plan(fleet: Fleet) -> None:
    edit(fleet.spec, "Bo", "early")
    (fleet.file.parent / "people.csv").write_text("person,depot_id,contract,first,not\nBob,A,full-time,,\n")
    publish_as_of(fleet.spec, AS_OF)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        run = ledger.runs()[0]
    reported = "A: shifts set by hand or wishes of 1 person are not in the plan, since nobody there has this name"
    assert reported in str(run)
    assert "Bo:" not in str(run)


def test_undo_restores_the_shift_before_the_last_edit(fleet: Fleet) -> None:
    edit(fleet.spec, "Bo", "early")
    edit(fleet.spec, "Bo", "")
    assert shift_of(fleet.spec, "Bo") == ""
    shift_edits.undo(fleet.spec, "A", by="Ana")
    assert shift_of(fleet.spec, "Bo") == "early"
    shift_edits.undo(fleet.spec, "A", by="Ana")
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert soundness.faults(connection) == []
        assert soundness.seal_counts(connection).unsealed is None
    with pytest.raises(OverrideError, match="B: found no shift set by hand"):
        shift_edits.undo(fleet.spec, "B", by="Ana")


def test_candidates_have_a_cost_or_a_forbidding_rule(fleet: Fleet) -> None:
    edit(fleet.spec, "Bo", "")
    candidates = shift_edits.candidates(fleet.spec, "A", THURSDAY, "late")
    by_name = {each.person: each for each in candidates}
    assert by_name["Bo"].forbidden_by == "cannot_work"
    assert by_name["Bo"].cost is None
    costs = [each.cost for each in candidates if each.cost is not None]
    assert costs == sorted(costs)
    assert candidates[-1].cost is None


def test_undo_leaves_a_day_that_the_person_declined_since(fleet: Fleet) -> None:
    edit(fleet.spec, "Bo", "early")
    refusal = PersonDay("A", THURSDAY, "Bo", "early", "declined", "Bo", datetime.now(UTC))
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        person_days.write(connection, fleet.spec.name, [refusal])
    with pytest.raises(OverrideError, match="found no shift set by hand"):
        shift_edits.undo(fleet.spec, "A", by="Ana")
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assigned, _ = person_days.read_decisions(connection, fleet.spec.name, THURSDAY)
        assert assigned == {"A": {"Bo": ((THURSDAY, ""),)}}
