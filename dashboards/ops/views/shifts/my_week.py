"""Page of a person's own week: the shifts of the days ahead, with the person's answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import in_zone
from dashboards.ops.views.shifts.week import NoPlans, week_file
from forecaster.core.language import _
from forecaster.errors import NoSuchRow
from forecaster.ledger.week_plan import Duty, Position
from forecaster.planning.people import person_days
from forecaster.planning.people.person_days import PersonDay
from forecaster.planning.people.shift_edits import offered
from forecaster.staffing.people.roster_files import WeekFile


@dataclass(frozen=True)
class MyDay:
    """A person's day; `answers` are form values with their labels, `offers` are shifts offered by
    others."""

    date: date
    day: str
    shift: str  # empty: a free day
    hours: str  # in the depot's time zone
    state: str
    answers: tuple[tuple[str, str], ...]
    offers: tuple[tuple[str, str], ...] = ()


def my_file(edition: Edition, depot_id: str, person: str) -> WeekFile:
    """Return the plan of one person. Raises NoSuchDepot, and NoPlans if they are not planned."""
    try:
        return week_file(edition, depot_id).of_person(person)
    except NoSuchRow as error:
        raise NoPlans(_("you are no longer in the plan of {depot}; ask a planner", depot=depot_id)) from error


def my_week(edition: Edition, file: WeekFile) -> list[MyDay]:
    """Return the days of a file's person, from today."""
    [week] = file.weeks
    [who], depot, zone = week.plan.positions, edition.depot(week.plan.depot_id), ZoneInfo(week.timezone)
    today, duties = in_zone(edition.front, week.timezone).today, {duty.date: duty for duty in who.duties}
    with edition.ledger.transaction() as connection:
        answers = person_days.read_answers(connection, edition.head.pipeline, today, depot.depot_id)
    [everybody] = week_file(edition, depot.depot_id).weeks
    is_spread = everybody.plan.late_shifts is not None
    days = []
    for forecast in depot.days:
        if (day := forecast.target_date) >= today:
            duty, answer, works = (
                duties.get(day),
                answers.get((day, who.name)),
                forecast.open and day not in who.days_off,
            )
            my_day = _day(day, duty, answer, zone, works=works)
            is_wished = day in who.wishes
            if is_spread and works and (is_wished or day > today) and not (answer and answer.kind == "declined"):
                my_day = _with_wish(my_day, is_wished=is_wished)
            if duty is None and works and not (answer and answer.kind == "declined"):
                my_day = replace(my_day, offers=_offers(offered(everybody.plan, answers, day), who, zone))
            days.append(my_day)
    return days


def _with_wish(day: MyDay, *, is_wished: bool) -> MyDay:
    """Add the wish for a day off, or its result."""
    if not is_wished:
        return replace(day, answers=(*day.answers, ("wished", _("I would like this day off"))))
    state = _("You asked for this day off, but you are needed.") if day.shift else _("You asked for this day off.")
    states = (day.state, state) if day.shift and day.state else (state,)
    return replace(day, state=" ".join(states), answers=(*day.answers, ("unwished", _("Withdraw wish"))))


def _hours(duty: Duty, zone: ZoneInfo) -> str:
    return f"{duty.start.astimezone(zone):%H:%M}–{duty.end.astimezone(zone):%H:%M}"


def _offers(offers: Iterable[tuple[PersonDay, Duty]], who: Position, zone: ZoneInfo) -> tuple[tuple[str, str], ...]:
    """Return the offered shifts that a person may take, with labels."""
    duties = {duty.shift: duty for _row, duty in offers if duty.shift not in who.cannot_work}

    def words(duty: Duty) -> str:
        return _("Take {shift}, {hours}, which a colleague offers", shift=duty.shift, hours=_hours(duty, zone))

    return tuple((name, words(duty)) for name, duty in sorted(duties.items()))


def _day(day: date, duty: Duty | None, answer: PersonDay | None, zone: ZoneInfo, *, works: bool) -> MyDay:
    decline, withdraw = ("declined", _("Decline")), ("withdrawn", _("Withdraw answer"))
    offer = "offered", _("Offer to colleagues")
    shift, hours, state = "", "", ""
    if duty is not None:
        shift, hours = duty.shift, _hours(duty, zone)
    if answer is not None and answer.kind == "declined":
        state = _("Declined; the next plan leaves you out.") if shift else _("You cannot work on this day.")
        choices = [withdraw]
    elif answer is not None and answer.confirms(shift):
        state, choices = _("Confirmed"), [offer, decline, withdraw]
    elif answer is not None and shift and answer.offers(shift):
        state, choices = _("Offered to colleagues; it is yours until one takes it."), [decline, withdraw]
    elif shift:
        choices = [("confirmed", _("Confirm")), offer, decline]
    else:
        state, choices = (
            (_("No shift"), [("declined", _("I cannot work on this day"))]) if works else (_("Day off"), [])
        )
    return MyDay(day, display.day(day), shift, hours, state, tuple(choices))
