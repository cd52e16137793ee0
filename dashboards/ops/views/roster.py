"""Roster page, for printing: whom to roster in each city over the days ahead, each city on paper of
its own.

Of a large network a page shows ROWS depots, city after city; a city's drivers together stand below
its last depot. Depots that are likely short stand first in their city.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from urllib.parse import urlencode

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import GLANCE
from dashboards.ops.reading.header import Front, href, median_and_range
from dashboards.ops.views.depot_table import (
    by_city,
    chance_of_shortage,
    days_of,
    has_shifts,
    has_vans,
    is_short,
    is_staffed,
)
from dashboards.ops.views.roster_text import chance, shortage
from forecaster.core.language import _
from forecaster.core.language.near_words import nearest_word
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.records import Head

ROWS = 200  # depots on one page
MOST_CITIES = 60  # to choose from by a click; of more the name is typed


@dataclass(frozen=True)
class RosterQuery:
    """Selected city (empty: all), page of depots, and weeks; anything unknown means the first."""

    city: str = ""
    page: int = 1
    weeks: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RosterQuery:
        return cls(query.get("city", "")[:200], _number(query.get("page", "")), _number(query.get("weeks", "")))

    def to(self, page: int, weeks: int | None = None) -> str:
        """The address of another page of the same, or of other weeks of it."""
        places = {"page": page, "weeks": weeks or self.weeks}
        further = {name: number for name, number in places.items() if number > 1}
        query = urlencode({**({"city": self.city} if self.city else {}), **further})
        return f"/roster?{query}" if query else "/roster"


def _number(word: str) -> int:
    return max(int(word), 1) if word.isascii() and word.isdigit() and len(word) < 7 else 1


@dataclass(frozen=True)
class RosterCell:
    """One depot's roster of one day."""

    open: bool
    drivers: str
    vans: str  # empty where the pipeline counts none
    orders: str
    # the chance of being short in a sentence, where that is likelier than not; else empty
    short: str


@dataclass(frozen=True)
class DepotRoster:
    depot_id: str
    href: str
    days: tuple[RosterCell, ...]


@dataclass(frozen=True)
class CityRoster:
    city: str
    crews: tuple[DepotRoster, ...]
    # drivers of each day in the whole city; empty where its last depot is on a later page
    sums: tuple[str, ...]
    shortages: tuple[str, ...]  # a sentence for each day on which vans are missing; with the sums
    part: str  # which of the city's depots these are; empty where they are all


@dataclass(frozen=True)
class RosterView:
    span: str  # the days in words
    days: tuple[tuple[str, str, bool], ...]  # weekday, date, is it the day in front
    # days, address, are they these; empty up to two weeks
    stretches: tuple[tuple[str, str, bool], ...]
    sheets: tuple[CityRoster, ...]
    cities: tuple[str, ...]  # to choose from; empty where they are too many
    city: str  # the one that is asked for; empty: all
    nearest: str  # the city that may have been meant, where there is none of that name
    page: int
    pages: int
    earlier: str  # the address of the page before; empty where this is the first
    further: str
    staffed: bool
    vans: bool
    short: bool  # whether any day is marked
    people: bool  # whether shifts are declared, so that there may be plans of who works them


def roster(head: Head, depots: Sequence[PublishedDepot], front: Front, query: RosterQuery) -> RosterView:
    """The sheets of one page, of all cities or of the one that is asked for."""
    firsts = range(0, len(front.target_dates), GLANCE)
    weeks = min(query.weeks, len(firsts))
    chosen = slice(firsts[weeks - 1], firsts[weeks - 1] + GLANCE)
    cities = by_city(depots)
    shown = {name: _shortest_first(cities[name], front, chosen) for name in sorted(cities) if query.city in ("", name)}
    pages = max(-(-sum(map(len, shown.values())) // ROWS), 1)
    page, names = min(query.page, pages), sorted(filter(None, cities))
    days = days_of(depots)
    return RosterView(
        display.days(front.target_dates[chosen]),
        tuple(_day_heading(day, front) for day in front.target_dates[chosen]),
        _stretches(front, firsts, query, page),
        tuple(_sheets(list(shown.items()), (page - 1) * ROWS, head, chosen)),
        tuple(names) if len(names) <= MOST_CITIES else (),
        query.city,
        "" if shown else nearest_word(query.city, names) or "",
        page,
        pages,
        query.to(page - 1) if page > 1 else "",
        query.to(page + 1) if page < pages else "",
        any(map(is_staffed, days)),
        any(map(has_vans, days)),
        any(map(is_short, days_of(chain(*shown.values()), chosen))),
        any(map(has_shifts, days)),
    )


def _day_heading(day: date, front: Front) -> tuple[str, str, bool]:
    return display.weekday(day), display.short_day(day), day == front.target_dates[front.meant]


def _stretches(front: Front, firsts: Sequence[int], query: RosterQuery, page: int) -> tuple[tuple[str, str, bool], ...]:
    weeks = min(query.weeks, len(firsts))
    return tuple(
        (display.days(front.target_dates[first : first + GLANCE]), query.to(page, number), number == weeks)
        for number, first in enumerate(firsts, 1)
        if len(firsts) > 1
    )


def _shortest_first(depots: Sequence[PublishedDepot], front: Front, chosen: slice) -> list[PublishedDepot]:
    """The depots that are likely short on the day in front, then those that are on most of these
    days."""

    def order(depot: PublishedDepot) -> tuple[float, int]:
        return -chance_of_shortage(depot.days[front.meant]), -sum(map(is_short, depot.days[chosen]))

    return sorted(depots, key=order)


def _sheets(
    cities: Sequence[tuple[str, Sequence[PublishedDepot]]], first: int, head: Head, days: slice
) -> Iterator[CityRoster]:
    """Depots of each city among ROWS from `first` on, counted over all cities, on these days."""
    begin = 0  # of the city, among all depots
    for name, depots in cities:
        start, end = max(first - begin, 0), min(first + ROWS - begin, len(depots))
        begin += len(depots)
        if start < end:
            yield _sheet(name, depots, start, end, head, days)


def _sheet(city: str, depots: Sequence[PublishedDepot], start: int, end: int, head: Head, chosen: slice) -> CityRoster:
    crews = tuple(
        DepotRoster(depot.depot_id, href(depot.depot_id), tuple(_cell(day, head) for day in depot.days[chosen]))
        for depot in depots[start:end]
    )
    days = list(zip(*(depot.days[chosen] for depot in depots), strict=True)) if end == len(depots) else []
    sums = tuple(display.number(sum(day.drivers or 0 for day in column if day.open)) for column in days)
    whole = len(crews) == len(depots)
    first, last, total = (display.number(number) for number in (start + 1, end, len(depots)))
    part = "" if whole else _("depots {first} to {last} of {n}", first=first, last=last, n=total)
    return CityRoster(city, crews, sums, tuple(filter(None, map(_shortage, days))), part)


def _shortage(column: Sequence[PublishedDay]) -> str:
    """Shortage of a city on a day: "Thu 5 Nov: no van left in Boston; 0.88 of what the network
    needs"."""
    reason = next(filter(None, (shortage(day.roster) for day in column)), "")
    return _("{day}: {text}", day=display.day(column[0].target_date), text=reason) if reason else ""


def _cell(day: PublishedDay, head: Head) -> RosterCell:
    vans = day.roster.vans if day.roster is not None else None
    return RosterCell(
        day.open,
        "–" if day.drivers is None else display.number(day.drivers),
        "" if vans is None else display.number(vans),
        display.orders(median_and_range(day, head.levels).median),
        _("{chance} of being short", chance=chance(chance_of_shortage(day))) if is_short(day) else "",
    )
