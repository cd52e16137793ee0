"""Page where a planner edits a depot's week: a choice per person and day, and a preview of the
edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from urllib.parse import urlencode

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Edition
from dashboards.ops.views.shifts.week import NoPlans, ShiftWeek, depot_week, short_names
from forecaster.core.language import _
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.week_plan import Position, ShiftCover, WeekPlan
from forecaster.planning.people.shift_edits import EditAnswer, Move, ShiftCandidate, ShiftEdit
from forecaster.staffing.people.rule_sentences import FORBIDDING

LEAVE, FREE = "-", "."  # values of a choice other than names of shifts
SHOWN_DAYS = 7
MOST_MOVES = 12  # of an answer; the others are counted


@dataclass(frozen=True)
class ShiftChoice:
    """A choice for a person's day."""

    value: str
    text: str
    chosen: bool


@dataclass(frozen=True)
class PersonDayField:
    """The form field of a person's day; `by_hand` is true if a planner has set it. Past days have
    no choices."""

    name: str
    label: str
    text: str
    choices: tuple[ShiftChoice, ...]
    by_hand: bool


@dataclass(frozen=True)
class PersonRow:
    name: str
    contract: str
    fields: tuple[PersonDayField, ...]


@dataclass(frozen=True)
class OpenShift:
    """An understaffed shift; its address ranks the people who could work it."""

    text: str
    href: str
    chosen: bool


@dataclass(frozen=True)
class EditPage:
    depot_id: str
    href: str
    first: date
    days: tuple[tuple[str, str], ...]  # weekday and day of the month
    earlier: str  # addresses; empty if there are no such days
    later: str
    people: tuple[PersonRow, ...]
    shifts: tuple[ShiftWeek, ...]
    open_shifts: tuple[OpenShift, ...]
    any_by_hand: bool


def edit_page(
    edition: Edition,
    depot: PublishedDepot,
    first: date | None,
    sent: Mapping[str, str],
    open_shift: tuple[date, str] | None = None,
    selected_days: Sequence[date] = (),
) -> EditPage:
    """Return the page of seven days from `first`, or of the `selected_days` ones, with the choices of a
    submitted form. Raises NoPlans."""
    plans = edition.ledger.plans(edition.head.publication_id, depot.depot_id)
    week = depot_week(edition, depot)
    if not plans or week is None:
        raise NoPlans(
            _("there is no plan of the week of {place}; the last night says why under /health", place=depot.depot_id)
        )
    dates, today = edition.front.target_dates, edition.front.today
    start = dates.index(first) if first in dates else 0
    days = [day for day in dates if day in selected_days] or dates[start : start + SHOWN_DAYS]
    names, places = [shift.name for shift in week.shifts], [dates.index(day) for day in days]
    cover = tuple(replace(row, cells=tuple(row.cells[place] for place in places)) for row in week.shifts)

    def address(**more: object) -> str:
        return f"/shifts?{urlencode({'depot': depot.depot_id, **more})}"

    missing = [
        shift_cover
        for shift_cover in plans[0].shifts
        if shift_cover.planned < shift_cover.wanted and shift_cover.date >= today
    ]
    return EditPage(
        depot.depot_id,
        address(first=days[0]),
        days[0],
        tuple((display.weekday_letters(day, 2), str(day.day)) for day in days),
        address(first=dates[max(start - SHOWN_DAYS, 0)]) if start else "",
        address(first=dates[start + SHOWN_DAYS]) if start + SHOWN_DAYS < len(dates) else "",
        tuple(
            PersonRow(who.name, who.contract, tuple(_field(place, who, day, names, sent, today) for day in days))
            for place, who in enumerate(plans[0].positions)
        ),
        cover,
        tuple(
            OpenShift(
                _open(shift_cover),
                address(first=days[0], day=shift_cover.date, shift=shift_cover.shift) + "#candidates",
                open_shift == (shift_cover.date, shift_cover.shift),
            )
            for shift_cover in missing
        ),
        any(who.assigned for who in plans[0].positions),
    )


def _open(cover: ShiftCover) -> str:
    n = display.number(cover.wanted - cover.planned)
    return _("{day}, {shift}: {n} missing", day=display.day(cover.date), shift=cover.shift, n=n)


def _field(
    place: int, who: Position, day: date, names: Sequence[str], sent: Mapping[str, str], today: date
) -> PersonDayField:
    letters = short_names(names)
    shift = next((duty.shift for duty in who.duties if duty.date == day), "")
    by_hand = dict(who.assigned)
    planned = letters[shift] if shift else _("off") if day in who.days_off else "–"
    name = field_name(place, day)
    value = sent.get(name) or ((by_hand[day] or FREE) if day in by_hand else LEAVE)
    texts = [(LEAVE, _("plan") if day in by_hand else planned), (FREE, _("free")), *letters.items()]
    choices = tuple(ShiftChoice(choice, text, choice == value) for choice, text in texts)
    label = _("{person}, {day}", person=who.name, day=display.day(day))
    return PersonDayField(name, label, planned, choices if day >= today else (), day in by_hand)


def field_name(place: int, day: date) -> str:
    """Return the field name of the person at this position of the plan."""
    return f"{place}.{day}"


def edits_of(plan: WeekPlan, days: Sequence[date], sent: Mapping[str, str]) -> list[ShiftEdit]:
    """Return the edits of a form: choices that differ from what is set by hand already."""
    edits = []
    for place, who in enumerate(plan.positions):
        by_hand = dict(who.assigned)
        for day in days:
            value = sent.get(field_name(place, day))
            shift = None if value in (None, LEAVE) else "" if value == FREE else value
            if value is not None and shift != by_hand.get(day):
                edits.append(ShiftEdit(who.name, day, shift))
    return edits


def fields_of(plan: WeekPlan, edits: Iterable[ShiftEdit]) -> dict[str, str]:
    """Return the form fields that express these edits."""
    places = {who.name: place for place, who in enumerate(plan.positions)}
    return {field_name(places[edit.person], edit.target_date): edit.shift or FREE for edit in edits}


@dataclass(frozen=True)
class AnswerText:
    """An answer in words: cost of the edits, by day, shifts that move, and the plan's own
    alternative."""

    summary: str
    days: tuple[tuple[str, str, str, str], ...]  # day, drivers, probability of a shortage, expected cost
    moves: tuple[str, ...]
    instead: str
    instead_moves: tuple[str, ...]


def answer_text(answer: EditAnswer) -> AnswerText:
    """Return an answer in words."""
    before, after = answer.cost
    change = after - before
    costs = {"before": _money(before), "after": _money(after), "amount": _money(abs(change))}
    if abs(change) < 0.5:
        summary = _("The expected cost of the week stays at {after}.", **costs)
    elif change > 0:
        summary = _("The week costs {amount} more: {after} instead of {before}.", **costs)
    else:
        summary = _("The week costs {amount} less: {after} instead of {before}.", **costs)
    hours = answer.overtime_hours
    if hours[0] != hours[1]:
        values = {"before": display.decimal(hours[0]), "after": display.decimal(hours[1])}
        summary += " " + _("Overtime: {after} hours instead of {before}.", **values)
    saved = after - answer.optimal_cost
    instead = ""
    if saved >= 0.5 and answer.optimal_moves:
        instead = _("Without shifts set by hand, the week would cost {amount} less:", amount=_money(saved))
    days = tuple(
        (
            display.day(day.target_date),
            _arrow(*("–" if drivers is None else display.number(drivers) for drivers in day.drivers)),
            _arrow(*("–" if chance is None else display.percent(chance, 0) for chance in day.chance_short)),
            _arrow(*map(_money, day.cost)),
        )
        for day in answer.days
    )
    return AnswerText(summary, days, _moves(answer.moves), instead, _moves(answer.optimal_moves) if instead else ())


def candidate_texts(candidates: Sequence[ShiftCandidate]) -> tuple[str, ...]:
    """Return a sentence for each candidate."""
    return tuple(
        _("{person}: forbidden by {rule}", person=candidate.person, rule=_(FORBIDDING[candidate.forbidden_by]))
        if candidate.cost is None and candidate.forbidden_by
        else _candidate(candidate.person, candidate.cost or 0.0)
        for candidate in candidates
    )


def _candidate(person: str, cost: float) -> str:
    if abs(cost) < 0.5:
        return _("{person}: costs nothing more", person=person)
    if cost > 0:
        return _("{person}: the week costs {amount} more", person=person, amount=_money(cost))
    return _("{person}: the week costs {amount} less", person=person, amount=_money(-cost))


def _moves(moves: Sequence[Move]) -> tuple[str, ...]:
    texts = [_("{person}, {day}: {after} instead of {before}", **_words(move)) for move in moves[:MOST_MOVES]]
    if len(moves) > MOST_MOVES:
        texts.append(_("and {n} more", n=display.number(len(moves) - MOST_MOVES)))
    return tuple(texts)


def _words(move: Move) -> dict[str, str]:
    shifts = {"before": move.before or _("free"), "after": move.after or _("free")}
    return {"person": move.person, "day": display.day(move.target_date), **shifts}


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _money(value: float) -> str:
    return display.number(value, 0)
