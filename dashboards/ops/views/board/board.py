"""The week board: one row per depot and one cell per day, below the rows of the network and its
cities.

A cell has the expected orders, the planned drivers, and a bar for the probability that they
suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import WEEK
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import Front, cell_href, href, median_and_range, past_query
from dashboards.ops.views.attention import (
    EarlierMedians,
    change_of,
    city_of,
    days_of,
    has_shifts,
    is_short,
    is_staffed,
    reasons,
    urgency,
)
from dashboards.ops.views.board.choices import BoardLink, beside_choices, level_choices, published_levels, week_choices
from dashboards.ops.views.board.query import ACTUAL, FILTERS, SORTS, BoardQuery, is_day
from dashboards.ops.views.network import Together, drivers, groups, in_seven_days
from dashboards.ops.views.roster_text import chance
from forecaster.core.language import _, ngettext
from forecaster.core.language.near_words import nearest_word
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.records import Head

ROWS = 100  # depots on one page
MOST_CITIES = 60  # rows of cities, and cities in the filter
STEPS = (0.1, 0.33, 0.5, 0.8)  # probabilities of a shortage from which a cell has the next color
TENTHS = 10  # steps of the bar

Counts = Mapping[tuple[str, date], float]


@dataclass(frozen=True)
class BoardDay:
    """Head of a column."""

    iso: str
    weekday: str
    day: str
    name: str
    meant: bool
    is_sorted: bool
    href: str  # the board sorted by this day's orders


@dataclass(frozen=True)
class BoardCell:
    """A depot's day. `step` is the number of `STEPS` that the probability of a shortage reaches, -1
    without a crew; `covered` is the probability that the crew suffices, in tenths."""

    href: str
    open: bool
    orders: str
    tight: str  # abbreviated, for small spaces
    range: str
    crew: str  # drivers; empty if none are planned
    step: int
    covered: int
    text: str  # the cell in words
    beside: str  # the count to compare with; empty if there is none
    overridden: bool
    meant: bool


@dataclass(frozen=True)
class BoardRow:
    depot_id: str
    href: str
    city: str
    tier: str
    reasons: tuple[str, ...]  # why it needs attention, without shortages, which its cells show
    cells: tuple[BoardCell, ...]


@dataclass(frozen=True)
class TotalCell:
    """A day of the network or a city. `short` is the number of depots more likely short than not."""

    open: bool
    orders: str
    tight: str  # abbreviated, for small spaces
    range: str
    crew: str
    short: int
    beside: str
    meant: bool


@dataclass(frozen=True)
class TotalRow:
    name: str
    href: str
    depots: int
    week: str  # orders of the first seven days with their range; empty if unpublished
    cells: tuple[TotalCell, ...]


@dataclass(frozen=True)
class Board:
    query: BoardQuery
    days: tuple[BoardDay, ...]
    totals: tuple[TotalRow, ...]  # of the network, then of its cities; readers of some cities get no network row
    rows: tuple[BoardRow, ...]
    staffed: bool
    shifts: bool
    compared: bool  # True if there is a previous publication
    matches: int
    pages: int
    weeks: tuple[BoardLink, ...]
    filters: tuple[BoardLink, ...]
    levels: tuple[BoardLink, ...]  # columns that can group the depots; empty if there is only the city
    city_filters: tuple[BoardLink, ...]
    nearest: str  # suggestion for a misspelled city
    beside: tuple[BoardLink, ...]
    summary: str

    @property
    def past(self) -> bool:
        """True for a past publication."""
        return bool(self.query.as_of)


def board(edition: Edition, query: BoardQuery, actuals: Counts | None = None) -> Board:
    """Return the board of an edition; for a past one, `actuals` are the counts of its days."""
    front, depots = edition.front, edition.outline()
    before, levels = edition.before(), published_levels(edition)
    query = query if query.level in levels else replace(query, level=levels[0])
    weeks = -(-len(front.target_dates) // WEEK)
    week, day_slice = shown_days(front, query)
    ordered, attention = selected(edition, query)
    pages = max(-(-len(ordered) // ROWS), 1)
    page = min(query.page, pages)
    cell_counts = _counts_beside(query, depots, actuals or {})
    page_query = replace(query, week=week, page=page)
    cities = sorted({city_of(depot, query.level) for depot in depots} - {""})
    return Board(
        page_query,
        tuple(_heading(day, front, page_query) for day in front.target_dates[day_slice]),
        _totals(edition, day_slice, cell_counts, page_query),
        tuple(
            _row(depot, edition, day_slice, cell_counts, page_query)
            for depot in ordered[(page - 1) * ROWS : page * ROWS]
        ),
        any(map(is_staffed, days_of(depots))),
        any(map(has_shifts, days_of(depots))),
        bool(before),
        len(ordered),
        pages,
        week_choices(front, weeks, page_query),
        _filters(depots, day_slice, page_query),
        level_choices(levels, page_query),
        tuple(BoardLink(city, page_query.to(city=city), city == query.city) for city in cities)
        if 1 < len(cities) <= MOST_CITIES
        else (),
        "" if query.city in ("", *cities) else nearest_word(query.city, cities) or "",
        beside_choices(page_query, edition.past),
        _summary(query, len(ordered), sum(map(bool, attention.values()))),
    )


def shown_days(front: Front, query: BoardQuery) -> tuple[int, slice]:
    """Return the shown week, from 1, and the slice of its days in the target days."""
    week = min(query.week, -(-len(front.target_dates) // WEEK))
    return week, slice(WEEK * (week - 1), WEEK * week)


def selected(edition: Edition, query: BoardQuery) -> tuple[list[PublishedDepot], Mapping[str, tuple[str, ...]]]:
    """Return the matching depots, sorted, and the reasons why each needs attention."""
    head, front, before = edition.head, edition.front, edition.before()
    _, day_slice = shown_days(front, query)
    matching = [depot for depot in edition.outline() if _matches(depot, query, day_slice)]
    attention = {depot.depot_id: reasons(depot, head, front, before) for depot in matching}
    return sorted(matching, key=_order(query, head, front, before, attention)), attention


def _heading(day: date, front: Front, query: BoardQuery) -> BoardDay:
    iso = day.isoformat()
    is_front_day = day == front.target_dates[front.meant]
    is_sorted = query.sort == iso
    address = query.to(sort="attention" if is_sorted else iso)
    return BoardDay(
        iso, display.weekday(day), display.short_day(day), display.day(day), is_front_day, is_sorted, address
    )


def _totals(edition: Edition, day_slice: slice, cell_counts: Counts, query: BoardQuery) -> tuple[TotalRow, ...]:
    """Return the rows of the network, if the reader sees every city, and of the visible cities."""
    head, front = edition.head, edition.front
    network_group, cities = groups(head, edition.outline(), edition.totals(), query.level)
    rows = []
    if edition.cities is None or len(cities) == 1:  # quantiles of some cities do not add up
        rows.append(
            _total(
                _("Network") if edition.cities is None else network_group.name,
                "",
                network_group,
                front,
                day_slice,
                cell_counts,
            )
        )
    if len(cities) > 1:
        for city in cities[:MOST_CITIES]:
            is_city = city.name == city_of(city.depots[0], query.level)  # not the group of depots without one
            address = query.to(city="" if city.name == query.city else city.name) if is_city else ""
            rows.append(_total(city.name, address, city, front, day_slice, cell_counts))
    return tuple(rows)


def _total(name: str, address: str, of: Together, front: Front, day_slice: slice, cell_counts: Counts) -> TotalRow:
    places = range(*day_slice.indices(len(front.target_dates)))
    cells = tuple(_total_cell(of, front, place, cell_counts) for place in places)
    return TotalRow(name, address, len(of.depots), in_seven_days(of.week) if of.week else "", cells)


def _total_cell(of: Together, front: Front, place: int, cell_counts: Counts) -> TotalCell:
    target, crew = front.target_dates[place], drivers(of.depots, place)
    median = of.median(place)
    depot_counts = [cell_counts[cell] for depot in of.depots if (cell := (depot.depot_id, target)) in cell_counts]
    return TotalCell(
        of.is_open(place),
        display.orders(median),
        display.short(median),
        of.range(place) or "",
        "" if crew is None else display.number(crew),
        sum(is_short(depot.days[place]) for depot in of.depots),
        display.orders(sum(depot_counts)) if depot_counts else "",
        place == front.meant,
    )


def _row(depot: PublishedDepot, edition: Edition, day_slice: slice, cell_counts: Counts, query: BoardQuery) -> BoardRow:
    head, front = edition.head, edition.front
    front_day = front.target_dates[front.meant]
    past = past_query(query.as_of)
    return BoardRow(
        depot.depot_id,
        href(depot.depot_id) + past,
        city_of(depot),
        depot.tier or head.tier,
        reasons(depot, head, front, edition.before(), shortages=False),
        tuple(
            _cell(
                depot, day, head, cell_counts.get((depot.depot_id, day.target_date)), day.target_date == front_day, past
            )
            for day in depot.days[day_slice]
        ),
    )


def _cell(
    depot: PublishedDepot, day: PublishedDay, head: Head, count: float | None, is_front_day: bool, past: str
) -> BoardCell:
    numbers = median_and_range(day, head.levels)
    crew = day.roster if day.open and day.drivers is not None else None
    short = crew.chance_short if crew else 0.0
    orders, name = display.orders(numbers.median), display.day(day.target_date)
    texts = [display.in_orders(numbers.median) if day.open else _("closed")]
    if day.open and day.drivers is not None:
        texts.append(display.drivers(day.drivers))
    if crew:
        texts.append(_("{chance} of being short", chance=chance(short)))
    if day.override is not None:
        texts.append(_("a planner’s number"))
    return BoardCell(
        cell_href(depot.depot_id, day.target_date) + past,
        day.open,
        orders,
        display.short(numbers.median),
        display.span(numbers.low, numbers.high),
        display.number(day.drivers) if day.open and day.drivers is not None else "",
        sum(short >= least for least in STEPS) if crew else -1,
        round(TENTHS * (1 - short)),
        _("{day}: {text}", day=f"{depot.depot_id}, {name}", text=display.listed(texts)),
        "" if count is None else display.orders(count),
        day.override is not None,
        is_front_day,
    )


def _counts_beside(query: BoardQuery, depots: Sequence[PublishedDepot], actuals: Counts) -> Counts:
    """Return the counts to compare with, by depot and target day: the actuals, or the counts a week
    before."""
    if query.beside == ACTUAL:
        return actuals
    if not query.beside:
        return {}
    week = timedelta(days=WEEK)
    return {(depot_id, day + week): count for (depot_id, day), count in counts(depots).items()}


def counts(depots: Sequence[PublishedDepot]) -> Counts:
    """Return the counts of the days before a publication, by depot and day."""
    return {
        (depot.depot_id, recent.date): recent.came
        for depot in depots
        for recent in depot.recent
        if recent.came is not None
    }


def _filters(depots: Sequence[PublishedDepot], day_slice: slice, query: BoardQuery) -> tuple[BoardLink, ...]:
    """Return the filters that match any depot, with the number of matches."""
    choices = []
    for only, text in FILTERS.items():
        number = sum(_is_among(depot, only, day_slice) for depot in depots)
        if number or only == query.only:
            label = _("{filter}: {n}", filter=_(text), n=display.number(number))
            choices.append(BoardLink(label, query.to(only="" if only == query.only else only), only == query.only))
    return tuple(choices)


def _is_among(depot: PublishedDepot, only: str, day_slice: slice) -> bool:
    if only == "short":
        return any(map(is_short, depot.days[day_slice]))
    if only == "overridden":
        return any(day.override is not None for day in depot.days[day_slice])
    return depot.tier is not None


def _matches(depot: PublishedDepot, query: BoardQuery, day_slice: slice) -> bool:
    if query.city not in ("", city_of(depot, query.level)) or (
        query.only and not _is_among(depot, query.only, day_slice)
    ):
        return False
    text = " ".join((depot.depot_id, *depot.attributes.values())).casefold()
    return all(word in text for word in query.search.casefold().split())


def _order(
    query: BoardQuery, head: Head, front: Front, before: EarlierMedians, attention: Mapping[str, tuple[str, ...]]
) -> Callable[[PublishedDepot], Any]:
    places = {day.isoformat(): place for place, day in enumerate(front.target_dates)}

    def key(depot: PublishedDepot) -> tuple[Any, ...]:
        place = (city_of(depot), depot.depot_id)
        if query.sort == "depot":
            return (depot.depot_id,)
        if query.sort == "city":
            return (city_of(depot), *urgency(depot, front, attention[depot.depot_id]), depot.depot_id)
        if query.sort in places:
            return (-median_and_range(depot.days[places[query.sort]], head.levels).median, *place)
        if query.sort == "change":
            return (-abs(change_of(depot, depot.days[front.meant], head, before)[0] or 0.0), *place)
        return (*urgency(depot, front, attention[depot.depot_id]), *place)

    return key


def _summary(query: BoardQuery, matches: int, attention: int) -> str:
    """Summary such as "12 depots in Boston with “02”, what needs attention first; 3 need
    attention."."""
    values = {"n": display.number(matches), "city": query.city, "words": query.search}
    if query.city and query.search:
        text = ngettext("{n} depot in {city} with “{words}”", "{n} depots in {city} with “{words}”", matches, **values)
    elif query.city:
        text = ngettext("{n} depot in {city}", "{n} depots in {city}", matches, **values)
    elif query.search:
        text = ngettext("{n} depot with “{words}”", "{n} depots with “{words}”", matches, **values)
    else:
        text = display.depots(matches)
    if is_day(query.sort):
        order = _("most orders on {day} first", day=display.day(date.fromisoformat(query.sort)))
    else:
        order = _(SORTS[query.sort])
    needy = display.number(attention)
    if not attention:
        return _("{depots}, {order}; none need attention.", depots=text, order=order)
    return ngettext(
        "{depots}, {order}; {n} needs attention.",
        "{depots}, {order}; {n} need attention.",
        attention,
        n=needy,
        depots=text,
        order=order,
    )
