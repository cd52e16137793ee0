"""Network page, hierarchical totals: what the network and each city expect on the day in front and
the days ahead.

Who sees some cities and not all is told of each: what those have together was not published, and is
no sum of medians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import GLANCE
from dashboards.ops.reading.header import Front, Range, median_and_range
from dashboards.ops.views.attention import by_city
from forecaster.core.language import _
from forecaster.ledger.publication import PublishedDepot, PublishedTotal
from forecaster.ledger.records import Head


@dataclass(frozen=True)
class CityTotal:
    name: str  # empty where depots have no city
    open: bool  # any of its depots, on the day in front
    depots: int
    orders: str
    number: int  # the same, by which words are inflected
    range: str | None
    drivers: int | None


@dataclass(frozen=True)
class DayTotal:
    """All depots together on one day."""

    date: date
    weekday: str
    day: str
    name: str  # both
    orders: str  # empty where cities are shown separately
    number: int  # the same, by which words are inflected
    short: str  # the same where there is little room
    range: str  # empty where only the depots' medians were published
    drivers: int | None
    open: bool  # any depot
    meant: bool


@dataclass(frozen=True)
class NetworkView:
    orders: str  # empty where cities are shown separately
    number: int  # the same, by which words are inflected
    range: str | None  # None where only the depots' medians were published
    drivers: int | None
    closed: int  # depots closed on the day in front
    depots: int
    # the next day on which any is open, where all are closed on the day in front
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
    """Totals as published, with a range of their own; sums of medians where none were. `some` says
    that there may be other cities, which the reader does not see. Drivers are None where no depot
    has any planned."""
    whole, cities = groups(head, depots, together(totals, head.levels))
    # Quantiles do not add up: of some cities together nothing was published, so each is shown
    # separately.
    apart = some and len(cities) > 1
    meant = front.meant
    median = whole.median(meant)
    week = tuple(_day(whole, day, front, apart) for day in range(len(front.target_dates)))
    return NetworkView(
        orders="" if apart else display.orders(median),
        number=round(median),
        range=whole.range(meant),
        drivers=drivers(depots, meant),
        closed=sum(not depot.days[meant].open for depot in depots),
        depots=len(depots),
        opens=_reopening(week, meant),
        week=week[:GLANCE],
        cities=tuple(_city(city, meant) for city in cities),
    )


def _reopening(week: Sequence[DayTotal], meant: int) -> DayTotal | None:
    """The next day on which any is open, where all are closed on the day in front."""
    if week[meant].open:
        return None
    return next((total for total in week[meant + 1 :] if total.open), None)


@dataclass(frozen=True)
class Together:
    """The network or a city: its depots, and what was published of each of their days together."""

    name: str  # empty where depots have no city
    depots: Sequence[PublishedDepot]
    published: tuple[Range, ...]  # empty where only the depots' medians were
    levels: tuple[float, ...]  # of the depots' quantiles

    def median(self, day: int) -> float:
        """The published one, else the sum of the depots'."""
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
    head: Head, depots: Sequence[PublishedDepot], published: Mapping[str, tuple[Range, ...]]
) -> tuple[Together, list[Together]]:
    """The network, and each of its cities."""

    def group(name: str, members: Sequence[PublishedDepot], joint: tuple[Range, ...]) -> Together:
        return Together(name, members, joint, head.levels)

    members_of = by_city(depots)
    if len(members_of) == 1:  # all that somebody sees is one city, whose total is theirs
        [name] = members_of
        whole = group(name, depots, published.get("") or published.get(name, ()))
        return whole, [whole]
    # Under an empty name stands the network: depots without a city have no total next to those that
    # have one.
    cities = [
        group(name, members, published.get(name, ())) if name else group(_("Without a city"), members, ())
        for name, members in sorted(members_of.items())
    ]
    return group("", depots, published.get("", ())), cities


def _city(city: Together, meant: int) -> CityTotal:
    orders = city.median(meant)
    return CityTotal(
        city.name,
        city.is_open(meant),
        len(city.depots),
        display.orders(orders),
        round(orders),
        city.range(meant),
        drivers(city.depots, meant),
    )


def _day(whole: Together, place: int, front: Front, apart: bool) -> DayTotal:
    day, orders = front.target_dates[place], whole.median(place)
    return DayTotal(
        day,
        display.weekday(day),
        display.short_day(day),
        display.day(day),
        "" if apart else display.orders(orders),
        round(orders),
        "" if apart else display.short(orders),
        whole.range(place) or "",
        drivers(whole.depots, place),
        whole.is_open(place),
        place == front.meant,
    )


def together(totals: tuple[PublishedTotal, ...], levels: tuple[float, ...]) -> dict[str, tuple[Range, ...]]:
    """City (empty: the network) → its median and range on each day."""
    ranges: dict[str, tuple[Range, ...]] = {}
    for total in totals:
        ranges[total.city] = (*ranges.get(total.city, ()), median_and_range(total, levels))
    return ranges


def drivers(depots: Sequence[PublishedDepot], day: int) -> int | None:
    """Drivers of all these depots on one day."""
    planned = [depot.days[day].drivers for depot in depots]
    counts = [number for number in planned if number is not None]
    return sum(counts) if counts else None
