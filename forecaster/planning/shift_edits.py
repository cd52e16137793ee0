"""Edits of a week: a planner moves, adds, removes or swaps people; each edit is checked against the
rules of their contracts, with its cost and the chance of being short before and after.

The plan of the depot is made anew around what is set by hand, so that everybody else is placed at
least cost; nothing is published where a rule forbids the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger import connect, records
from forecaster.ledger.publication import Publication, PublishedDepot
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import Position, WeekPlan
from forecaster.planning import override_table, person_days, refresh, saved_inputs
from forecaster.planning.overrides import active_overrides, as_of_day, check_words
from forecaster.planning.person_days import Assigned, DepotShifts, PersonDay
from forecaster.staffing.people.rule_sentences import FORBIDDING


@dataclass(frozen=True)
class ShiftEdit:
    """A person's day as a planner sets it: a shift, "" for a free day, None to leave it to the plan."""

    person: str
    target_date: date
    shift: str | None


@dataclass(frozen=True)
class DayEffect:
    """A day of the depot before and after: drivers, chance of being short, expected cost."""

    target_date: date
    drivers: tuple[int | None, int | None]
    chance_short: tuple[float | None, float | None]
    cost: tuple[float, float]


@dataclass(frozen=True)
class Move:
    """A person's day whose shift changes; "" is a free day."""

    person: str
    target_date: date
    before: str
    after: str


@dataclass(frozen=True)
class EditAnswer:
    """What edits of a depot's week would do, or did."""

    depot_id: str
    days: tuple[DayEffect, ...]  # those that change
    moves: tuple[Move, ...]  # of everybody, the edited people too
    overtime_hours: tuple[float, float]
    cost: tuple[float, float]  # of all days, with overtime
    optimal_cost: float  # of the plan without anything set by hand
    optimal_moves: tuple[Move, ...]  # from the edited week to that plan


Audit = Callable[[sa.Connection, EditAnswer], None]


def ask(spec: Spec, depot_id: str, edits: Sequence[ShiftEdit], *, now: datetime | None = None) -> EditAnswer:
    """What edits would do; nothing is written. Raises as `save` does."""
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        return _answer(connection, spec, depot_id, edits, now or datetime.now(UTC))


def save(
    spec: Spec,
    depot_id: str,
    edits: Sequence[ShiftEdit],
    *,
    by: str,
    now: datetime | None = None,
    audit: Audit | None = None,
) -> EditAnswer:
    """Write edits down and show the week that follows: all of them, or none (idempotent).

    Raises OverrideError for a person, day or shift that is not there, a day that is over, and an edit that a rule
    of the contract forbids; DeskError where the night's inputs are not at hand; LedgerError.
    """
    check_words(by, "")
    at = now or datetime.now(UTC)
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        answer, changed = _answer(connection, spec, depot_id, edits, at), 0
        for edit in edits:
            if edit.shift is None:
                cell = depot_id, edit.target_date
                changed += person_days.withdraw(connection, spec.name, cell, edit.person, at)
            else:
                row = PersonDay(depot_id, edit.target_date, edit.person, edit.shift, "assigned", by, at)
                changed += person_days.write(connection, spec.name, [row])
        if changed:
            refresh.refresh_within(connection, spec.name, spec.paths.saved_inputs)
            if audit is not None:
                audit(connection, answer)
        return answer


def _answer(
    connection: sa.Connection, spec: Spec, depot_id: str, edits: Sequence[ShiftEdit], at: datetime
) -> EditAnswer:
    head = records.head(connection, spec.name)
    if head is None:
        raise OverrideError(_("nothing has been published yet; wanted a published week to edit"))
    publication = records.whole(connection, head)
    before = _plan(publication, depot_id)
    _check(edits, before, publication, spec)
    by_hand = person_days.read_assigned(connection, spec.name, publication.cutoff)
    overrides = override_table.read_overrides(connection, spec.name, publication.cutoff)
    active = active_overrides(overrides, as_of_day(publication))
    inputs = saved_inputs.read(spec.paths.saved_inputs, publication.desk)
    told = refresh.told_crews(connection, spec.name, inputs.staffing, publication.cutoff)

    def week(assigned: Assigned) -> tuple[PublishedDepot, WeekPlan]:
        revised, _remark = refresh.with_overrides(publication, active, inputs, at, told, assigned)
        return _depot(revised, depot_id), _plan(revised, depot_id)

    edited_depot, edited = week({**by_hand, depot_id: _with_edits(by_hand.get(depot_id, {}), edits)})
    for edit in edits:
        who = _person(edited, edit.person)
        if who.forbidden_by and edit.shift is not None:
            raise OverrideError(
                _(
                    "{person} on {day}: found {shift}, which {rule} forbids ({contract})",
                    person=who.name,
                    day=edit.target_date,
                    shift=edit.shift or _("a free day"),
                    rule=_(FORBIDDING[who.forbidden_by]),
                    contract=who.contract,
                )
            )
    free_depot, free = week({other: shifts for other, shifts in by_hand.items() if other != depot_id})
    published = _depot(publication, depot_id)
    return EditAnswer(
        depot_id,
        tuple(_effects(published, edited_depot)),
        tuple(_moves(before, edited)),
        (before.overtime_hours, edited.overtime_hours),
        (_cost(published, before), _cost(edited_depot, edited)),
        _cost(free_depot, free),
        tuple(_moves(edited, free)),
    )


def _check(edits: Iterable[ShiftEdit], plan: WeekPlan, publication: Publication, spec: Spec) -> None:
    """Raises OverrideError for an edit of somebody or something that is not there."""
    assert spec.staffing is not None
    shifts, as_of = [shift.name for shift in spec.staffing.shifts], as_of_day(publication)
    days = [day.target_date for day in _depot(publication, plan.depot_id).days]
    for edit in edits:
        _person(plan, edit.person)
        if edit.shift and edit.shift not in shifts:
            names = ", ".join(shifts)
            raise OverrideError(_("shift: found {shift}, wanted one of {names}", shift=repr(edit.shift), names=names))
        if edit.target_date not in days or edit.target_date < as_of:
            raise OverrideError(
                _(
                    "date: found {target_date}, wanted a published day, from {first} to {last}",
                    target_date=edit.target_date,
                    first=max(days[0], as_of),
                    last=days[-1],
                )
            )


def _with_edits(assigned: DepotShifts, edits: Iterable[ShiftEdit]) -> DepotShifts:
    shifts = {person: dict(days) for person, days in assigned.items()}
    for edit in edits:
        days = shifts.setdefault(edit.person, {})
        days.pop(edit.target_date, None)
        if edit.shift is not None:
            days[edit.target_date] = edit.shift
    return {person: tuple(sorted(days.items())) for person, days in shifts.items()}


def _effects(before: PublishedDepot, after: PublishedDepot) -> Iterable[DayEffect]:
    for was, day in zip(before.days, after.days, strict=True):
        if was != day and was.roster is not None and day.roster is not None:
            yield DayEffect(
                day.target_date,
                (was.drivers, day.drivers),
                (was.roster.chance_short, day.roster.chance_short),
                (was.roster.cost, day.roster.cost),
            )


def _moves(before: WeekPlan, after: WeekPlan) -> Iterable[Move]:
    shifts = {who.name: {duty.date: duty.shift for duty in who.duties} for who in before.positions}
    for who in after.positions:
        was, now = shifts.get(who.name, {}), {duty.date: duty.shift for duty in who.duties}
        for day in sorted(was.keys() | now.keys()):
            if was.get(day, "") != now.get(day, ""):
                yield Move(who.name, day, was.get(day, ""), now.get(day, ""))


def _cost(depot: PublishedDepot, plan: WeekPlan) -> float:
    """Expected cost of the drivers who come on all days, with the overtime of the plan."""
    overtime = plan.cost - sum(cover.cost for cover in plan.shifts)
    return sum(day.roster.cost for day in depot.days if day.roster is not None) + max(overtime, 0.0)


def _plan(publication: Publication, depot_id: str) -> WeekPlan:
    """Raises OverrideError where nobody is planned at the depot."""
    plan = next((plan for plan in publication.plans if plan.depot_id == depot_id), None)
    if plan is None:
        raise OverrideError(_("depot: found {depot}, wanted a depot whose people are planned", depot=repr(depot_id)))
    return plan


def _depot(publication: Publication, depot_id: str) -> PublishedDepot:
    return next(depot for depot in publication.depots if depot.depot_id == depot_id)


def _person(plan: WeekPlan, name: str) -> Position:
    """Raises OverrideError for somebody who is not planned."""
    person = next((who for who in plan.positions if who.name == name), None)
    if person is None:
        names = ", ".join(who.name for who in plan.positions)
        raise OverrideError(_("person: found {person}, wanted one of {names}", person=repr(name), names=names))
    return person
