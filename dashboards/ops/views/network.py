"""Network page, hierarchical totals: what the network and each city expect on the day in front and the days ahead.

Who sees some cities and not all is told of each: what those have together was not published, and is no sum of medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Bars, bars
from dashboards.ops.formatting.far_weeks import GLANCE, WEEK, FarWeek, far_weeks
from dashboards.ops.reading.header import Front, Range, median_and_range
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
    share: Bars
    drivers: int | None
    week: tuple[str, ...]  # orders of each day ahead, of far ones by week


@dataclass(frozen=True)
class DayTotal:
    """All depots together on one day."""

    date: date
    weekday: str
    day: str
    name: str  # both
    orders: str  # empty where cities are told apart
    number: int  # the same, by which words are inflected
    short: str  # the same where there is little room
    range: str  # empty where only the depots' medians were published
    drivers: int | None
    open: bool  # any depot
    meant: bool


@dataclass(frozen=True)
class NetworkView:
    orders: str  # empty where cities are told apart
    number: int  # the same, by which words are inflected
    range: str | None  # None where only the depots' medians were published
    drivers: int | None
    closed: int  # depots closed on the day in front
    depots: int
    opens: DayTotal | None  # the next day on which any is open, where all are closed on the day in front
    week: tuple[DayTotal, ...]  # two weeks at most, or the later one that is opened
    week_bars: tuple[Bars, ...]
    later: tuple[FarWeek[DayTotal], ...]  # what comes after the first two
    opened: int  # which of these, from 1; 0 is none
    cities: tuple[CityTotal, ...]


def network(
    head: Head,
    depots: tuple[PublishedDepot, ...],
    front: Front,
    totals: tuple[PublishedTotal, ...] = (),
    some: bool = False,
    opened: int = 0,
) -> NetworkView:
    """Totals as published, with a range of their own; sums of medians where none were. `some` says that there may be
    other cities, which the reader does not see; `opened` is the week after the first two whose days are shown, from 1.
    Drivers are None where no depot has any planned."""
    medians = {depot.depot_id: [median_and_range(day, head.levels).median for day in depot.days] for depot in depots}
    ranges = together(totals, head.levels)
    by_city: dict[str, list[PublishedDepot]] = {}
    for depot in depots:
        by_city.setdefault(depot.attributes.get("city", ""), []).append(depot)
    whole = ranges.get("", ())
    if not whole and len(by_city) == 1:  # all that somebody sees is one city, whose total is theirs
        whole = ranges.get(next(iter(by_city)), ())
    sums = [numbers.median for numbers in whole] or [sum(m[i] for m in medians.values()) for i in range(head.horizon)]
    cities = []
    for name, members in sorted(by_city.items()):
        # Under an empty name stands the network: depots without a city have no total beside those that have one.
        joint = whole if len(by_city) == 1 else ranges.get(name, ()) if name else ()
        days = [numbers.median for numbers in joint] or [
            sum(medians[d.depot_id][i] for d in members) for i in range(head.horizon)
        ]
        total, orders = joint[front.meant] if joint else None, days[front.meant]
        cities.append(
            CityTotal(
                name or ("" if len(by_city) == 1 else _("Without a city")),
                any(depot.days[front.meant].open for depot in members),
                len(members),
                display.orders(orders),
                round(orders),
                display.span(total.low, total.high) if total else None,
                bars([orders, sums[front.meant]], 0),
                drivers(members, front.meant),
                tuple(map(display.orders, [*days[:GLANCE], *_sums_by_week(days)])),
            )
        )
    # Quantiles do not add up: of some cities together nothing was published, so each is told apart.
    apart = some and len(by_city) > 1
    week = tuple(
        DayTotal(
            day,
            display.weekday(day),
            display.short_day(day),
            display.day(day),
            "" if apart else display.orders(sums[i]),
            round(sums[i]),
            "" if apart else display.short(sums[i]),
            display.span(whole[i].low, whole[i].high) if whole else "",
            drivers(depots, i),
            any(depot.days[i].open for depot in depots),
            i == front.meant,
        )
        for i, day in enumerate(front.target_dates)
    )
    highest = max(sums)
    after = week[front.meant + 1 :]
    later = far_weeks(front.target_dates, sums, week, front.meant)
    opened = opened if opened <= len(later) else 0
    chosen = slice(GLANCE + WEEK * (opened - 1), GLANCE + WEEK * opened) if opened else slice(GLANCE)
    return NetworkView(
        orders="" if apart else display.orders(sums[front.meant]),
        number=round(sums[front.meant]),
        range=display.span(whole[front.meant].low, whole[front.meant].high) if whole else None,
        drivers=drivers(depots, front.meant),
        closed=sum(not depot.days[front.meant].open for depot in depots),
        depots=len(depots),
        opens=None if week[front.meant].open else next((total for total in after if total.open), None),
        week=week[chosen],
        week_bars=tuple(_against(value, highest) for value in sums[chosen]),
        later=later,
        opened=opened,
        cities=tuple(cities),
    )


def together(totals: tuple[PublishedTotal, ...], levels: tuple[float, ...]) -> dict[str, tuple[Range, ...]]:
    """City (empty: the network) → its median and range on each day."""
    ranges: dict[str, tuple[Range, ...]] = {}
    for total in totals:
        ranges[total.city] = (*ranges.get(total.city, ()), median_and_range(total, levels))
    return ranges


def _sums_by_week(medians: Sequence[float]) -> list[float]:
    return [sum(medians[first : first + WEEK]) for first in range(GLANCE, len(medians), WEEK)]


def drivers(depots: tuple[PublishedDepot, ...] | list[PublishedDepot], day: int) -> int | None:
    """Drivers of all these depots on one day."""
    planned = [depot.days[day].drivers for depot in depots]
    counts = [number for number in planned if number is not None]
    return sum(counts) if counts else None


def _against(value: float, highest: float) -> Bars:
    tall = max(round(value / highest * 40), 1) if highest else 1
    return Bars(10, 40, f"M0 40v-{tall}h10v{tall}z", "")
