"""Page of the weekly plans: a depot's people and shifts by day, open shifts, and the cost of each
rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.views.attention import city_of
from dashboards.ops.views.roster_text import shares
from forecaster.core.language import N_, _
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.week_plan import Position, ShiftCover, WeekPlan
from forecaster.planning.people import person_days
from forecaster.planning.people.person_days import Answers, PersonDay
from forecaster.staffing.people.roster_files import DepotWeek, WeekFile
from forecaster.staffing.people.rule_sentences import rule_sentence, summary

SATURDAY = 5  # as in date.weekday
FORMS = (("xlsx", "Excel"), ("ics", N_("Calendar")), ("csv", "CSV"))


class NoPlans(LookupError):
    """The publication plans no people, or not those of this depot; the message is a full sentence."""


@dataclass(frozen=True)
class PersonWeek:
    """Week of one person: the letter of each day's shift, "off" on days off, empty on free days."""

    name: str
    cells: tuple[str, ...]
    hours: str
    calendar: str  # address of this person's calendar
    # the person's answer for each day: a mark and words, empty without an answer
    answers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CoverCell:
    """Planned drivers of a shift: "2", or "1/2" if some are missing."""

    text: str
    short: bool


@dataclass(frozen=True)
class ShiftWeek:
    name: str
    letter: str
    hours: str  # in the depot's time zone
    cells: tuple[CoverCell, ...]


@dataclass(frozen=True)
class DepotWeekPage:
    depot_id: str
    # weekday in two letters, day of the month, True for the day in front
    days: tuple[tuple[str, str, bool], ...]
    people: tuple[PersonWeek, ...]
    shifts: tuple[ShiftWeek, ...]
    summary: str
    uncovered: tuple[str, ...]
    rules: tuple[str, ...]
    files: tuple[tuple[str, str], ...]  # address, name
    # person, weekend and late shifts, declined wishes; empty unless burdens are balanced
    spread: tuple[tuple[str, ...], ...]
    shares: str  # learned split of the day's orders among shifts; else empty


def week_file(edition: Edition, depot_id: str = "", city: str = "") -> WeekFile:
    """Return the plans visible to the reader: of one depot, of a city, or all. Raises NoSuchDepot
    and NoPlans."""
    depots = {depot.depot_id: depot for depot in edition.outline()}
    if depot_id and depot_id not in depots:
        raise NoSuchDepot(depot_id)
    zone, plans = edition.head.timezone, edition.ledger.plans(edition.head.publication_id, depot_id or None)
    visible = [_week(plan, depots[plan.depot_id], zone) for plan in plans if plan.depot_id in depots]
    weeks = [week for week in visible if not city or week.city == city]
    if not weeks:
        raise NoPlans(_no_plans(depots, depot_id, city, any_plans=bool(visible)))
    return WeekFile(edition.head.pipeline, edition.revised_at() or edition.head.published_at, tuple(weeks))


def _week(plan: WeekPlan, depot: PublishedDepot, zone: str) -> DepotWeek:
    return DepotWeek(plan, city_of(depot), depot.timezone or zone)


def depot_week(edition: Edition, depot: PublishedDepot) -> DepotWeekPage | None:
    """Return the week of a depot for the page; None if its people are not planned."""
    depot_id = depot.depot_id
    plans = edition.ledger.plans(edition.head.publication_id, depot_id)
    if not plans:
        return None
    week = _week(plans[0], depot, edition.head.timezone)
    plan, zone, dates = week.plan, ZoneInfo(week.timezone), edition.front.target_dates
    names = sorted({cover.shift for cover in plan.shifts}, key=lambda name: (_clock(plan, name, zone), name))
    letters = short_names(names)
    covers = {(cover.date, cover.shift): cover for cover in plan.shifts}
    with edition.ledger.transaction() as connection:
        answers = person_days.read_answers(connection, edition.head.pipeline, dates[0], depot_id)
    people = tuple(_person(position, letters, depot_id, dates, answers) for position in plan.positions)
    rows = tuple(
        ShiftWeek(name, letters[name], _clock(plan, name, zone), tuple(_cell(covers.get((day, name))) for day in dates))
        for name in names
    )
    return DepotWeekPage(
        depot_id,
        tuple(
            (display.weekday_letters(day, 2), str(day.day), place == edition.front.meant)
            for place, day in enumerate(dates)
        ),
        people,
        rows,
        summary(plan, _money, display.decimal),
        tuple(_uncovered(cover, plan, zone) for cover in plan.shifts if cover.planned < cover.wanted),
        tuple(rule_sentence(rule, _money, display.decimal) for rule in plan.rules),
        tuple((_address(depot_id, form), _(name)) for form, name in FORMS),
        tuple(_burden(person, plan.late_shifts) for person in plan.positions) if plan.late_shifts is not None else (),
        shares(edition.depot(depot_id).days[edition.front.meant]),
    )


def _person(
    position: Position, letters: Mapping[str, str], depot_id: str, dates: Sequence[date], depot_answers: Answers
) -> PersonWeek:
    shifts = dict.fromkeys(position.days_off, _("off"))
    shifts |= {duty.date: letters[duty.shift] for duty in position.duties}
    hours = sum(duty.hours for duty in position.duties)
    address = _address(depot_id, "ics", person=position.key(depot_id))
    duties = {duty.date: duty.shift for duty in position.duties}
    answers = tuple(
        _answer(depot_answers.get((day, position.name)), duties.get(day), is_wished=day in position.wishes)
        for day in dates
    )
    cells = tuple(shifts.get(day, "") for day in dates)
    return PersonWeek(position.name, cells, display.decimal(hours), address, answers)


def _answer(answer: PersonDay | None, shift: str | None, *, is_wished: bool) -> tuple[str, str]:
    if answer is not None and answer.kind == "declined":
        return "✗", _("declined {shift}", shift=answer.shift) if answer.shift else _("cannot work")
    if answer is not None and shift and answer.offers(shift):
        return "⇄", _("offered to colleagues")
    if answer is not None and answer.confirms(shift):
        return "✓", _("confirmed")
    return ("♡", _("would like the day off")) if is_wished else ("", "")


def _burden(position: Position, late: Sequence[str]) -> tuple[str, ...]:
    weekend = sum(duty.date.weekday() >= SATURDAY for duty in position.before)
    lates = sum(duty.shift in late for duty in position.before)
    return position.name, *map(display.number, (weekend, lates, position.declined_wishes))


def files_of_all(city: str = "") -> list[tuple[str, str]]:
    """Return addresses and names of the plan files of all depots, or of a city's."""
    return [(f"/roster?{urlencode({'city': city, 'format': form})}", _(name)) for form, name in FORMS]


def short_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return a unique short name for each shift: one or two initial letters, else numbers."""
    for length in (1, 2):
        letters = [name[:length].upper() for name in names]
        if len(set(letters)) == len(names):
            return dict(zip(names, letters, strict=True))
    return {name: str(number) for number, name in enumerate(names, 1)}


def _clock(plan: WeekPlan, shift: str, zone: ZoneInfo) -> str:
    """Return the hours of a shift in local time, as on its first day."""
    cover = next(cover for cover in plan.shifts if cover.shift == shift)
    return f"{cover.start.astimezone(zone):%H:%M}–{cover.end.astimezone(zone):%H:%M}"


def _cell(cover: ShiftCover | None) -> CoverCell:
    if cover is None:
        return CoverCell("–", False)
    short = cover.planned < cover.wanted
    return CoverCell(f"{cover.planned}/{cover.wanted}" if short else str(cover.planned), short)


def _uncovered(cover: ShiftCover, plan: WeekPlan, zone: ZoneInfo) -> str:
    """Describe the missing drivers of a shift, and the people who are off that day or cannot work
    it."""
    start, end = cover.start.astimezone(zone), cover.end.astimezone(zone)
    values = {
        "day": display.day(cover.date),
        "shift": cover.shift,
        "hours": f"{start:%H:%M}–{end:%H:%M}",
        "missing": display.number(cover.wanted - cover.planned),
        "drivers": display.drivers(cover.wanted),
        "cost": _money(cover.cost),
        "off": display.listed([who.name for who in plan.positions if cover.date in who.days_off]),
        "unable": display.listed([who.name for who in plan.positions if cover.shift in who.cannot_work]),
    }
    sentences = [_("{day}, {shift} ({hours}): {missing} of {drivers} missing, at an expected cost of {cost}", **values)]
    if values["off"]:
        sentences.append(_("off that day: {off}", **values))
    if values["unable"]:
        sentences.append(_("cannot work {shift}: {unable}", **values))
    return display.clauses(*sentences)


def _money(value: float) -> str:
    return display.number(value, 0 if value >= 1 else 2)


def _address(depot_id: str, form: str, **more: str) -> str:
    return f"/roster?{urlencode({'depot': depot_id, **more, 'format': form})}"


def _no_plans(depots: Mapping[str, PublishedDepot], depot_id: str, city: str, *, any_plans: bool) -> str:
    if city and city not in {city_of(depot) for depot in depots.values()}:
        return _("there is no city “{city}” in the current forecasts", city=city)
    if depot_id or any_plans:
        place = depot_id or city
        return _("there is no plan of the week of {place}; the last night says why under /health", place=place)
    return _("no people are planned in this network")
