"""Hierarchical totals: expected orders of the network and each city on the day in front and the
days ahead.

Readers of some cities get each city separately: their joint total was not published, and is not the
sum of medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import GLANCE
from dashboards.ops.reading.header import Front, Range, median_and_range
from dashboards.ops.views.attention import by_city
from forecaster.core.language import _
from forecaster.ledger.publication import PublishedDepot, PublishedTotal
from forecaster.ledger.records import Head

CITY = "city"  # the level that every pipeline has


@dataclass(frozen=True)
class CityTotal:
    name: str  # empty if depots have no city
    open: bool  # any of its depots, on the day in front
    depots: int
    orders: str
    number: int  # the same, for plural forms
    range: str | None
    drivers: int | None


@dataclass(frozen=True)
class DayTotal:
    """All depots together on one day."""

    date: date
    weekday: str
    day: str
    name: str  # weekday and day
    orders: str  # empty if cities are shown separately
    number: int  # the same, for plural forms
    short: str  # abbreviated, for small spaces
    range: str  # empty if only the depots' medians were published
    drivers: int | None
    open: bool  # any depot
    meant: bool


@dataclass(frozen=True)
class NetworkView:
    orders: str  # The network on the day in front and the days ahead.
    number: int  # the same, for plural forms
    range: str | None  # None if only the depots' medians were published
    drivers: int | None
    closed: int  # depots closed on the day in front
    depots: int
    # the next day with an open depot, if all are closed on the day in front
    opens: DayTotal | None
    week: tuple[DayTotal, ...]  # two weeks at most
    cities: tuple[CityTotal, ...]


def network(
    head: Head,
    depots: tuple[PublishedDepot, ...],
    front: Front,
    totals: tuple[PublishedTotal, ...] = (),
    some: bool = False,
) -> NetworkView:
    """Return the totals as published, with a range; sums of medians if unpublished. `some` is true
    if there may be cities that the reader does not see. Drivers are None if no depot has any
    planned."""
    network_group, cities = groups(head, depots, totals)
    # Quantiles do not add up: no joint total of some cities was published, so each is shown
    # separately.
    apart = some and len(cities) > 1
    front_index = front.meant
    median = network_group.median(front_index)
    week = tuple(_day(network_group, day, front, apart) for day in range(len(front.target_dates)))
    return NetworkView(
        orders="" if apart else display.orders(median),
        number=round(median),
        range=network_group.range(front_index),
        drivers=drivers(depots, front_index),
        closed=sum(not depot.days[front_index].open for depot in depots),
        depots=len(depots),
        opens=_reopening(week, front_index),
        week=week[:GLANCE],
        cities=tuple(_city(city, front_index) for city in cities),
    )


def _reopening(week: Sequence[DayTotal], front_index: int) -> DayTotal | None:
    """Return the next day with an open depot, if all are closed on the day in front."""
    if week[front_index].open:
        return None
    return next((total for total in week[front_index + 1 :] if total.open), None)


@dataclass(frozen=True)
class Together:
    """The network or a city: its depots, and their published daily totals."""

    name: str  # empty if depots have no city
    depots: Sequence[PublishedDepot]
    published: tuple[Range, ...]  # empty if only the depots' medians were published
    levels: tuple[float, ...]  # of the depots' quantiles
    week: Range | None = None  # of the first seven days

    def median(self, day: int) -> float:
        """Return the published median, else the sum of the depots' medians."""
        if self.published:
            return self.published[day].median
        place = self.levels.index(0.5)
        return sum(depot.days[day].quantiles[place] for depot in self.depots)

    def range(self, day: int) -> str | None:
        numbers = self.published[day] if self.published else None
        return None if numbers is None else display.span(numbers.low, numbers.high)

    def is_open(self, day: int) -> bool:
        return any(depot.days[day].open for depot in self.depots)


def groups(
    head: Head, depots: Sequence[PublishedDepot], totals: tuple[PublishedTotal, ...], level: str = CITY
) -> tuple[Together, list[Together]]:
    """Return the network, and its cities or groups of another level, sorted by name."""
    published, weeks = (together(totals, head.levels, level, days) for days in (1, 7))

    def group(name: str, members: Sequence[PublishedDepot], key: str | None) -> Together:
        joint = published.get(key, ()) if key is not None else ()
        week = next(iter(weeks.get(key, ())), None) if key is not None and joint else None
        return Together(name, members, joint, head.levels, week)

    members_of = by_city(depots, level)
    if len(members_of) == 1:  # the reader sees a single city, whose total is theirs
        [name] = members_of
        only_group = group(name, depots, "" if "" in published else name)
        return only_group, [only_group]
    # The empty name is the network's: depots without a city have no total if others have a city.
    nowhere = _("Without a city") if level == CITY else _("Without “{level}”", level=level)
    cities = [
        group(name, members, name) if name else group(nowhere, members, None)
        for name, members in sorted(members_of.items())
    ]
    return group("", depots, ""), cities


def _city(city: Together, front_index: int) -> CityTotal:
    orders = city.median(front_index)
    return CityTotal(
        city.name,
        city.is_open(front_index),
        len(city.depots),
        display.orders(orders),
        round(orders),
        city.range(front_index),
        drivers(city.depots, front_index),
    )


def _day(network_group: Together, place: int, front: Front, apart: bool) -> DayTotal:
    day, orders = front.target_dates[place], network_group.median(place)
    return DayTotal(
        day,
        display.weekday(day),
        display.short_day(day),
        display.day(day),
        "" if apart else display.orders(orders),
        round(orders),
        "" if apart else display.short(orders),
        network_group.range(place) or "",
        drivers(network_group.depots, place),
        network_group.is_open(place),
        place == front.meant,
    )


def together(
    totals: tuple[PublishedTotal, ...], levels: tuple[float, ...], level: str = CITY, days: int = 1
) -> dict[str, tuple[Range, ...]]:
    """Map each city, or value of another level (empty: the network), to its median and range on
    each day, or on each period of `days` days."""
    ranges: dict[str, tuple[Range, ...]] = {}
    for total in totals:
        if total.days == days and (total.level == level or not total.name):
            ranges[total.name] = (*ranges.get(total.name, ()), median_and_range(total, levels))
    return ranges


def in_seven_days(numbers: Range) -> str:
    """Return the orders of the first seven days, with their 80 % range."""
    orders, span = display.orders(numbers.median), display.span(numbers.low, numbers.high)
    return _("7 days: {orders}, {range}", orders=orders, range=span)


def drivers(depots: Sequence[PublishedDepot], day: int) -> int | None:
    """Return the drivers of all these depots on one day."""
    planned = [depot.days[day].drivers for depot in depots]
    counts = [number for number in planned if number is not None]
    return sum(counts) if counts else None
