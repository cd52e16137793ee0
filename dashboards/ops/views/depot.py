"""Depot page: sixty days of actuals, the days ahead, checks of recent forecasts, and the numbers as
tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from types import MappingProxyType
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Ahead, Chart, chart
from dashboards.ops.formatting.far_weeks import GLANCE, FarWeek, far_weeks
from dashboards.ops.reading.header import Front, cell_href, href, median_and_range, week_range
from dashboards.ops.views.attention import is_staffed
from dashboards.ops.views.change import NONE_BEFORE_OF_ALL, Why, in_few_words, why
from dashboards.ops.views.network import in_seven_days
from dashboards.ops.views.planning.override_text import override_sentence, planners_number
from dashboards.ops.views.roster_text import sentence, shares
from forecaster.core.language import N_, _, ngettext
from forecaster.core.language.holiday_names import NOWHERE, HolidayRegion, region_of, translated_holiday
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedMark, RecentDay
from forecaster.ledger.records import Head

PAST_DAYS = 60
PAST_DAYS_PHONE = 21
STRETCH = 2.5  # width of a day ahead, in past days
# minimum change that is mentioned: share of the previous forecast, and orders
MOVED, MOVED_LEAST = 0.05, 3
KINDS = {"holiday": N_("holiday"), "closure": N_("closure"), "event": N_("event")}
COMPARED = 7  # past days that are compared with their forecasts


@dataclass(frozen=True)
class DayAheadRow:
    """A day ahead, as the table shows it."""

    day: str
    href: str
    near: str
    open: bool
    orders: str
    range: str
    drivers: int | None
    roster: str  # roster sentence; may be empty
    override: str  # likewise: the override with the model's number
    marks: str
    meant: bool


@dataclass(frozen=True)
class ActualDay:
    """Actual of a past day; `orders` is a number, "closed" or "not known"."""

    day: str
    orders: str
    marks: str


@dataclass(frozen=True)
class ForecastCheck:
    """Actual of a past day compared with its last forecast made before that day."""

    day: str
    median: str
    range: str
    actual: str
    error: str  # forecast minus actual: "+12" is too high
    inside: bool | None  # of the range; None if the actual is unknown


@dataclass(frozen=True)
class NumberedMark:
    """A named day, by its number in the pictures."""

    number: int
    text: str
    older: bool  # than the start of the picture for phones


@dataclass(frozen=True)
class DepotPage:
    depot_id: str
    href: str
    place: str
    lines: tuple[DayAheadRow, ...]
    later: tuple[FarWeek[DayAheadRow], ...]  # of the same rows, those after two weeks
    meant: DayAheadRow
    because: str  # reason for the number in front, in one line; may be empty
    actuals: tuple[ActualDay, ...]  # newest first
    checks: tuple[ForecastCheck, ...]  # newest first
    published: str  # in the depot's time zone
    tier: str
    marks: tuple[NumberedMark, ...]
    staffed: bool
    behind: int  # past days in the wide picture; a new depot has few
    wide: Chart
    narrow: Chart
    wide_text: str  # text alternatives of the pictures
    narrow_text: str
    why: tuple[Why, ...]
    unheard: str  # note if no day had a forecast the day before
    canary: bool  # True if these numbers are from a canary model
    planned: str  # the planner of the number in front, with the model's number; empty if it is the model's
    shares: str  # learned split of orders among shifts; else empty
    week: str  # orders of the first seven days with their range; empty if unpublished


def depot_page(
    head: Head,
    depot: PublishedDepot,
    front: Front,
    said_before: Mapping[date, PublishedDay] = MappingProxyType({}),
    home: HolidayRegion = NOWHERE,
) -> DepotPage:
    """Return the content of a depot's page; `said_before` has earlier publications' forecasts of
    past days, `home` is the region of depots that declare none."""
    first = head.cutoff - timedelta(days=PAST_DAYS - 1)
    past = [day for day in depot.recent if day.date >= first]
    mark_names = _mark_names(depot.marks, first, front.target_dates[-1], region_of(depot.attributes, home))
    lines = [_row(depot.depot_id, day, head, front, mark_names) for day in depot.days]
    days_ahead = [_ahead(day, head) for day in depot.days]
    front_day, narrow_from = depot.days[front.meant], front.target_dates[0] - timedelta(days=PAST_DAYS_PHONE)
    behind = max((head.cutoff - past[0].date).days + 1, PAST_DAYS_PHONE) if past else PAST_DAYS_PHONE
    stretch = max(STRETCH * min(GLANCE / len(days_ahead), 1.0), 1.0)
    draw = partial(chart, past, days_ahead, list(mark_names.items()), stretch=stretch)
    return DepotPage(
        depot.depot_id,
        href(depot.depot_id),
        " · ".join(filter(None, depot.attributes.values())),
        tuple(lines),
        far_weeks(front.target_dates, [day.median for day in days_ahead], lines, front.meant),
        lines[front.meant],
        _because(depot, front, mark_names),
        _actuals(past, mark_names),
        _checks(past, said_before, head),
        display.instant(head.published_at, ZoneInfo(depot.timezone or head.timezone)),
        depot.tier or head.tier,
        _numbered(mark_names, narrow_from),
        any(map(is_staffed, depot.days)),
        behind,
        draw(width=760, height=340, past_days=behind),
        draw(width=360, height=270, past_days=PAST_DAYS_PHONE),
        _in_words(past, lines),
        _in_words([day for day in past if day.date >= narrow_from], lines),
        why(depot.days[:GLANCE]),
        _unheard(depot),
        depot.bundle_digest is not None,
        planners_number(front_day.override, head.levels),
        shares(front_day),
        in_seven_days(week_range(depot.weeks[0], head.levels)) if depot.weeks else "",
    )


def _because(depot: PublishedDepot, front: Front, mark_names: Mapping[date, str]) -> str:
    """Return the main reason for the number in front: the kind of day, the largest change, or the
    count a week before."""
    day = depot.days[front.meant]
    is_told = day.change is not None and abs(day.change.total) >= max(MOVED_LEAST, MOVED * day.change.before)
    moved = in_few_words(day.change, front.today) if day.open and is_told else ""
    actuals = {recent.date: recent.came for recent in depot.recent if recent.open and recent.came is not None}
    week_before = actuals.get(day.target_date - timedelta(days=7))
    if not moved and week_before is not None and day.open:
        moved = ngettext(
            "{n} came {weekday} a week before",
            "{n} came {weekday} a week before",
            round(week_before),
            n=display.orders(week_before),
            weekday=display.weekday(day.target_date),
        )
    return " · ".join(part for part in (mark_names.get(day.target_date, ""), moved) if part)


def _mark_names(marks: Iterable[PublishedMark], first: date, last: date, region: HolidayRegion) -> dict[date, str]:
    """Return the names of each marked day in the period, oldest first; the kind follows in brackets
    unless the name contains it."""
    names: dict[date, list[str]] = {}
    for mark in sorted((mark for mark in marks if first <= mark.date <= last), key=lambda mark: mark.date):
        name = translated_holiday(mark.date, mark.name, region) if mark.kind == "holiday" else mark.name
        is_told = any(kind.lower() in name.lower() for kind in (mark.kind, _kind(mark.kind)))
        text = name if is_told else f"{name} ({_kind(mark.kind)})"
        names_of_day = names.setdefault(mark.date, [])
        if text not in names_of_day:
            names_of_day.append(text)
    return {day: display.listed(texts) for day, texts in names.items()}


def _kind(kind: str) -> str:
    """Return the kind of a named day for readers; kinds declared in the pipeline file stay
    unchanged."""
    return _(KINDS[kind]) if kind in KINDS else kind


def _unheard(depot: PublishedDepot) -> str:
    return "" if any(day.change for day in depot.days) else _(NONE_BEFORE_OF_ALL)


def _row(depot_id: str, day: PublishedDay, head: Head, front: Front, mark_names: Mapping[date, str]) -> DayAheadRow:
    numbers = median_and_range(day, head.levels)
    return DayAheadRow(
        display.day(day.target_date),
        cell_href(depot_id, day.target_date),
        display.near(day.target_date, front.today),
        day.open,
        display.orders(numbers.median),
        display.span(numbers.low, numbers.high),
        day.drivers,
        sentence(day),
        override_sentence(day.override, head.levels),
        mark_names.get(day.target_date, ""),
        day.target_date == front.target_dates[front.meant],
    )


def _ahead(day: PublishedDay, head: Head) -> Ahead:
    numbers = median_and_range(day, head.levels)
    return Ahead(day.target_date, numbers.median, numbers.low, numbers.high, day.open)


def _actuals(past: Sequence[RecentDay], mark_names: Mapping[date, str]) -> tuple[ActualDay, ...]:
    return tuple(ActualDay(display.day(day.date), _actual(day), mark_names.get(day.date, "")) for day in reversed(past))


def _numbered(mark_names: Mapping[date, str], narrow_from: date) -> tuple[NumberedMark, ...]:
    return tuple(
        NumberedMark(number, _("{day}: {text}", day=display.day(day), text=text), day < narrow_from)
        for number, (day, text) in enumerate(mark_names.items(), 1)
    )


def _checks(
    past: Sequence[RecentDay], said_before: Mapping[date, PublishedDay], head: Head
) -> tuple[ForecastCheck, ...]:
    days = [day for day in reversed(past) if day.date in said_before]
    return tuple(_checked(day, said_before[day.date], head) for day in days[:COMPARED])


def _checked(day: RecentDay, forecast: PublishedDay, head: Head) -> ForecastCheck:
    numbers = median_and_range(forecast, head.levels)
    actual = day.demand if day.open and forecast.open and day.served is None else None
    return ForecastCheck(
        display.day(day.date),
        display.orders(numbers.median) if forecast.open else _("closed"),
        display.span(numbers.low, numbers.high) if forecast.open else "",
        _actual(day),
        "–" if actual is None else display.signed(numbers.median - actual),
        None if actual is None else numbers.low <= actual <= numbers.high,
    )


def _actual(day: RecentDay) -> str:
    if not day.open:
        return _("closed")
    if day.demand is None:
        return _("not known")
    if day.served is not None:
        return _(
            "{served} served, demand about {demand}",
            served=display.orders(day.served),
            demand=display.orders(day.demand),
        )
    return display.orders(day.demand)


def _in_words(past: list[RecentDay], lines: list[DayAheadRow]) -> str:
    counts = [day.came for day in past if day.open and day.came is not None]
    day_texts = [
        _("{day} {orders} ({range})", day=line.day, orders=line.orders, range=line.range)
        if line.open
        else _("{day} closed", day=line.day)
        for line in lines[:GLANCE]
    ]
    expected = _("Expected, with the 80 % range: {days}.", days=display.listed(day_texts))
    if not counts:
        return expected
    actuals = _("Actual orders on the open days before: {range}.", range=display.span(min(counts), max(counts)))
    return f"{actuals} {expected}"
