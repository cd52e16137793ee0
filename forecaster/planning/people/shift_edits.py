"""Edits of a week: a planner moves, adds, removes or swaps people.

Each edit is checked against the rules of their contracts, with its cost and the chance of being
short before and after. The depot is replanned around the shifts set by hand, so that everybody else
is assigned at least cost; nothing is published if a rule forbids the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger import connect, plan_rows, records, soundness
from forecaster.ledger.publication import Publication, PublishedDepot
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import DepotShifts, DepotWishes, Duty, ForbiddingRule, Position, WeekPlan
from forecaster.planning import override_table, refresh, saved_inputs
from forecaster.planning.overrides import active_overrides, as_of_day, check_words
from forecaster.planning.people import person_days
from forecaster.planning.people.person_days import PersonDay
from forecaster.planning.saved_inputs import SavedInputs
from forecaster.serving import keys
from forecaster.staffing.people import week_plans
from forecaster.staffing.people.attendance import with_attendance
from forecaster.staffing.people.rule_sentences import FORBIDDING


@dataclass(frozen=True)
class ShiftEdit:
    """A person's day as set by a planner: a shift, "" for a free day, None to leave it to the plan."""

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
    """A change of a person's shift on a day; "" is a free day."""

    person: str
    target_date: date
    before: str
    after: str


@dataclass(frozen=True)
class EditAnswer:
    """Effects of edits of a depot's week."""

    depot_id: str
    days: tuple[DayEffect, ...]  # changed days
    moves: tuple[Move, ...]  # of all people, including the edited ones
    overtime_hours: tuple[float, float]
    cost: tuple[float, float]  # of all days, including overtime
    optimal_cost: float  # cost of the plan without anything set by hand
    optimal_moves: tuple[Move, ...]  # from the edited week to that plan


Audit = Callable[[sa.Connection, EditAnswer], None]


def ask(spec: Spec, depot_id: str, edits: Sequence[ShiftEdit]) -> EditAnswer:
    """Return the effects of edits without writing anything. Raises as `save`."""
    with Ledger.open_reader(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        return _answer(_EditedWeek.read(connection, spec, depot_id), edits)


def save(
    spec: Spec,
    depot_id: str,
    edits: Sequence[ShiftEdit],
    *,
    by: str,
    audit: Audit | None = None,
) -> EditAnswer:
    """Write edits, all or none, and show the resulting week (idempotent).

    Raises OverrideError for an unknown person, day or shift, a day that is over, and an edit that a
    rule of the contract forbids; DeskError if the run's inputs are not available; LedgerError.
    """
    check_words(by, "")
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        week = _EditedWeek.read(connection, spec, depot_id)
        return _save(connection, week, edits, by, audit)


def undo(spec: Spec, depot_id: str, *, by: str, audit: Audit | None = None) -> EditAnswer:
    """Undo a depot's last edit, and move people back if that costs nothing. Raises as `save`, and
    OverrideError if nothing is set by hand."""
    check_words(by, "")
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        week = _EditedWeek.read(connection, spec, depot_id)
        rows = person_days.read_last_edit(connection, spec.name, as_of_day(week.publication), depot_id)
        if not rows:
            raise OverrideError(_("{depot}: found no shift set by hand, wanted one to undo", depot=depot_id))
        edits = [ShiftEdit(row.person, row.target_date, earlier.assigned if earlier else None) for row, earlier in rows]
        before = _reverted(week.before, rows[0][0].at)
        plan_rows.update(connection, week.publication_id, [before])
        answer = _save(connection, replace(week, before=before), edits, by, audit)
        soundness.write_digest(connection, week.publication_id, keys.sealing(spec.paths.folder))
        return answer


def take(
    spec: Spec,
    depot_id: str,
    target_date: date,
    shift: str,
    *,
    person: str,
    audit: Audit | None = None,
) -> EditAnswer:
    """Give a shift offered by somebody of the depot, the earliest offer first, to a person who is
    free on that day. Raises as `save`, and OverrideError if nobody offers it or the person already
    works."""
    with Ledger.open(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        week = _EditedWeek.read(connection, spec, depot_id)
        answers = person_days.read_answers(connection, spec.name, target_date, depot_id)
        offers = [row for row, _shift in offered(week.before, answers, target_date) if row.shift == shift]
        if not offers or any(duty.date == target_date for duty in _person(week.before, person).duties):
            values = {"shift": shift, "day": target_date}
            raise OverrideError(_("the shift {shift} on {day} is not offered to you any more", **values))
        first = min(offers, key=lambda row: row.at).person
        edits = [ShiftEdit(first, target_date, ""), ShiftEdit(person, target_date, shift)]
        person_days.withdraw(connection, spec.name, (depot_id, target_date), first, week.at, ("offered",))
        return _save(connection, week, edits, person, audit, "swapped")


def offered(plan: WeekPlan, answers: person_days.Answers, target_date: date) -> list[tuple[PersonDay, Duty]]:
    """Offers of a day that are still valid, each with its shift."""
    duties = {who.name: duty for who in plan.positions for duty in who.duties if duty.date == target_date}
    return [
        (row, duties[row.person])
        for (day, _name), row in answers.items()
        if day == target_date and row.person in duties and row.offers(duties[row.person].shift)
    ]


def _save(
    connection: sa.Connection,
    week: _EditedWeek,
    edits: Sequence[ShiftEdit],
    by: str,
    audit: Audit | None,
    kind: person_days.Kind = "assigned",
) -> EditAnswer:
    answer, changed = _answer(week, edits), 0
    spec, depot_id = week.spec, week.depot.depot_id
    for edit in edits:
        if edit.shift is None:
            cell = depot_id, edit.target_date
            changed += person_days.withdraw(connection, spec.name, cell, edit.person, week.at)
        else:
            row = PersonDay(depot_id, edit.target_date, edit.person, edit.shift, kind, by, week.at)
            changed += person_days.write(connection, spec.name, [row])
    if changed:
        refresh.refresh_within(connection, spec.name, spec.paths)
        if audit is not None:
            audit(connection, answer)
    return answer


def _reverted(plan: WeekPlan, at: datetime) -> WeekPlan:
    """Undo the first change of the plan made from an instant on: drop shifts planned then, and
    restore those cancelled then."""
    changes = {duty.since for who in plan.positions for duty in (*who.duties, *who.cancelled) if duty.since >= at}
    first = min(changes, default=None)

    def revert(who: Position) -> Position:
        duties = [duty for duty in who.duties if duty.since != first]
        duties += [duty for duty in who.cancelled if duty.since == first]
        cancelled = tuple(duty for duty in who.cancelled if duty.since != first)
        return replace(who, duties=tuple(sorted(duties, key=lambda duty: duty.date)), cancelled=cancelled)

    return replace(plan, positions=tuple(map(revert, plan.positions)))


@dataclass(frozen=True)
class ShiftCandidate:
    """A person for an open shift, with the additional expected cost of the week; None if
    `forbidden_by` forbids it."""

    person: str
    cost: float | None
    forbidden_by: ForbiddingRule | None


def candidates(spec: Spec, depot_id: str, target_date: date, shift: str) -> list[ShiftCandidate]:
    """People of a depot without a shift on a day as candidates for a shift, cheapest first. Raises
    as `save`."""
    with Ledger.open_reader(spec.ledger_url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
        week = _EditedWeek.read(connection, spec, depot_id)
    free = [who.name for who in week.before.positions if all(duty.date != target_date for duty in who.duties)]
    ranked = []
    for name in free:
        edit = ShiftEdit(name, target_date, shift)
        week.check([edit])
        depot, plan = week.with_edits([edit])
        forbidden_by = _person(plan, name).forbidden_by
        more = _cost(depot, plan) - _cost(week.depot, week.before)
        ranked.append(ShiftCandidate(name, None if forbidden_by else more, forbidden_by))
    return sorted(ranked, key=lambda who: (who.cost is None, who.cost or 0.0, who.person))


def _answer(week: _EditedWeek, edits: Sequence[ShiftEdit]) -> EditAnswer:
    week.check(edits)
    depot, plan = week.with_edits(edits)
    for edit in edits:
        who = _person(plan, edit.person)
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
    optimal_depot, optimal = week.with_shifts({})
    return EditAnswer(
        week.depot.depot_id,
        tuple(_effects(week.depot, depot)),
        tuple(_moves(week.before, plan)),
        (week.before.overtime_hours, plan.overtime_hours),
        (_cost(week.depot, week.before), _cost(depot, plan)),
        _cost(optimal_depot, optimal),
        tuple(_moves(plan, optimal)),
    )


@dataclass(frozen=True)
class _EditedWeek:
    """The published week of a depot, and the inputs for replanning it."""

    spec: Spec
    publication: Publication
    publication_id: int
    depot: PublishedDepot
    before: WeekPlan
    by_hand: DepotShifts
    wishes: DepotWishes
    inputs: SavedInputs
    roster: refresh.OverriddenRoster
    at: datetime

    @classmethod
    def read(cls, connection: sa.Connection, spec: Spec, depot_id: str) -> _EditedWeek:
        """Raises OverrideError if nobody is planned at the depot, DeskError, LedgerError."""
        at, head = datetime.now(UTC), records.head(connection, spec.name)
        if head is None:
            raise OverrideError(_("nothing has been published yet; wanted a published week to edit"))
        publication = records.whole(connection, head)
        plan = next((plan for plan in publication.plans if plan.depot_id == depot_id), None)
        if plan is None:
            message = _("depot: found {depot}, wanted a depot whose people are planned", depot=repr(depot_id))
            raise OverrideError(message)
        assigned, wishes = person_days.read_decisions(connection, spec.name, publication.cutoff)
        of_depot = assigned.get(depot_id, {}), wishes.get(depot_id, {})
        overrides = override_table.read_overrides(connection, spec.name, publication.cutoff)
        active = active_overrides(overrides, as_of_day(publication))
        inputs = saved_inputs.read(spec.paths.saved_inputs, publication.desk)
        binding_crews = refresh.told_crews(connection, spec.name, inputs.staffing, publication.cutoff)
        roster = refresh.overridden_roster(publication, active, inputs, at, binding_crews)
        depot = next(depot for depot in publication.depots if depot.depot_id == depot_id)
        return cls(spec, publication, head.publication_id, depot, plan, *of_depot, inputs, roster, at)

    def with_edits(self, edits: Iterable[ShiftEdit]) -> tuple[PublishedDepot, WeekPlan]:
        """Return the depot and its plan with the shifts set by hand and these edits."""
        shifts = {person: dict(days) for person, days in self.by_hand.items()}
        for edit in edits:
            days = shifts.setdefault(edit.person, {})
            days.pop(edit.target_date, None)
            if edit.shift is not None:
                days[edit.target_date] = edit.shift
        return self.with_shifts({person: tuple(sorted(days.items())) for person, days in shifts.items()})

    def with_shifts(self, shifts: DepotShifts) -> tuple[PublishedDepot, WeekPlan]:
        """Return the depot and its plan with these shifts set by hand."""
        inputs, timezone, depot_id = self.inputs, self.publication.timezone, self.depot.depot_id
        planned = week_plans.plan_weeks(
            (self.depot,),
            self.roster.roster,
            inputs.panel,
            inputs.staffing,
            timezone=timezone,
            at=self.at,
            before={depot_id: self.before},
            assigned={depot_id: shifts},
            wishes={depot_id: self.wishes},
        )
        if not planned.plans:
            raise OverrideError("; ".join(map(str, planned.troubles)))
        (depot,) = with_attendance(
            (self.depot,), planned.plans, self.roster.roster, self.roster.forecast, inputs.staffing
        )
        return depot, planned.plans[0]

    def check(self, edits: Iterable[ShiftEdit]) -> None:
        """Raises OverrideError for an edit of an unknown person, day or shift."""
        assert self.spec.staffing is not None
        shifts, as_of = [shift.name for shift in self.spec.staffing.shifts], as_of_day(self.publication)
        days = [day.target_date for day in self.depot.days]
        for edit in edits:
            _person(self.before, edit.person)
            if edit.shift and edit.shift not in shifts:
                values = {"shift": repr(edit.shift), "names": ", ".join(shifts)}
                raise OverrideError(_("shift: found {shift}, wanted one of {names}", **values))
            if edit.target_date not in days or edit.target_date < as_of:
                raise OverrideError(
                    _(
                        "date: found {target_date}, wanted a published day, from {first} to {last}",
                        target_date=edit.target_date,
                        first=max(days[0], as_of),
                        last=days[-1],
                    )
                )


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
    """Expected cost of the attending drivers on all days, including the plan's overtime."""
    overtime = plan.cost - sum(cover.cost for cover in plan.shifts)
    return sum(day.roster.cost for day in depot.days if day.roster is not None) + max(overtime, 0.0)


def _person(plan: WeekPlan, name: str) -> Position:
    """Raises OverrideError for a person who is not planned."""
    person = next((who for who in plan.positions if who.name == name), None)
    if person is None:
        names = ", ".join(who.name for who in plan.positions)
        raise OverrideError(_("person: found {person}, wanted one of {names}", person=repr(name), names=names))
    return person
