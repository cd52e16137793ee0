"""API schema of a publication (JSON): the values behind the pages, with units in the field names or
the descriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pydantic import TypeAdapter

from dashboards.ops.reading.header import Front, median_and_range, week_range
from dashboards.ops.views.network import drivers, together
from forecaster.ledger.publication import (
    PublishedChange,
    PublishedDay,
    PublishedDepot,
    PublishedOverride,
    PublishedRoster,
    PublishedTotal,
)
from forecaster.ledger.records import Head


@dataclass(frozen=True)
class DayOut:
    """Expected orders of a day: the median and the ends of the 80 % range."""

    target_date: date
    open: bool
    low: float
    median: float
    high: float
    drivers: int | None


@dataclass(frozen=True)
class WeekOut:
    """Expected orders of the seven days from `first`: the median of their sum and the ends of its
    80 % range."""

    first: date
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class DepotOut:
    depot_id: str
    attributes: Mapping[str, str]
    days: list[DayOut]
    weeks: list[WeekOut]  # full weeks


@dataclass(frozen=True)
class TotalOut:
    """Total of a day over all depots of a city or the network: the median of the sum and the ends
    of its 80 % range, which is narrower than the sum of the depots' ranges."""

    city: str | None  # None: the network
    target_date: date
    low: float
    median: float
    high: float
    drivers: int | None


@dataclass(frozen=True)
class LevelOut:
    """Total of a group's depots on a day or over seven days: the median of the sum and the ends of
    its 80 % range.

    Sums are consistent on each joint path: the groups of a level add up to the network, the days to
    the week.
    """

    level: str | None  # column of the depots source that groups the depots; None: the network
    name: str | None  # its value; None: the network
    target_date: date  # the first day
    days: int  # 1 or 7
    depots: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class AboutOut:
    """Quality and origin of the publication."""

    publication_id: int
    pipeline: str
    run_id: str
    published_at: datetime
    as_of: datetime
    cutoff: date
    tier: str
    meaning: str
    stale: str | None
    fruitless: str | None
    model: str
    bundle_digest: str | None
    timezone: str
    note: str | None


@dataclass(frozen=True)
class PublicationOut:
    about: AboutOut
    totals: list[TotalOut]
    depots: list[DepotOut]


@dataclass(frozen=True)
class FullDayOut:
    """A day with every quantile, aligned with `levels`."""

    target_date: date
    horizon: int
    open: bool
    quantiles: list[float]
    drivers: int | None
    roster: PublishedRoster | None
    override: PublishedOverride | None  # the planner's numbers, with the model's
    change: PublishedChange | None  # of the median since the previous day's forecast


@dataclass(frozen=True)
class RecentOut:
    """A past day: counted orders, and demand, which is an estimate if the count is a lower bound."""

    date: date
    orders: float | None
    open: bool
    demand: float | None


@dataclass(frozen=True)
class MarkOut:
    date: date
    kind: str
    name: str


@dataclass(frozen=True)
class FullDepotOut:
    about: AboutOut
    depot_id: str
    attributes: Mapping[str, str]
    levels: list[float]
    days: list[FullDayOut]
    recent: list[RecentOut]
    marks: list[MarkOut]
    weeks: list[WeekOut]  # full weeks


def publication_out(
    head: Head, depots: tuple[PublishedDepot, ...], front: Front, totals: tuple[PublishedTotal, ...]
) -> PublicationOut:
    """Return every depot with its median and range, and the published totals."""
    depot_rows = [
        DepotOut(depot.depot_id, depot.attributes, [_day(day, head.levels) for day in depot.days], weeks)
        for depot, weeks in ((depot, weeks_out(head, depot)) for depot in depots)
    ]
    return PublicationOut(about(head, front), totals_out(head, depots, front, totals), depot_rows)


def totals_out(
    head: Head, depots: tuple[PublishedDepot, ...], front: Front, totals: tuple[PublishedTotal, ...]
) -> list[TotalOut]:
    """Return totals by day: the network first, then by city."""
    rows = []
    for city, days in together(totals, head.levels).items():
        members = [depot for depot in depots if not city or depot.attributes.get("city") == city]
        for i, (day, numbers) in enumerate(zip(front.target_dates, days, strict=True)):
            rows.append(TotalOut(city or None, day, numbers.low, numbers.median, numbers.high, drivers(members, i)))
    return rows


def levels_out(head: Head, depots: tuple[PublishedDepot, ...], totals: tuple[PublishedTotal, ...]) -> list[LevelOut]:
    """Return totals, days before weeks: the network first, then by level and name."""
    counts = Counter((level, name) for depot in depots for level, name in depot.attributes.items())
    rows = []
    for total in totals:
        numbers, span = median_and_range(total, head.levels), (total.target_date, total.days)
        level, name = (total.level, total.name) if total.name else (None, None)
        count = counts[total.level, total.name] if total.name else len(depots)
        rows.append(LevelOut(level, name, *span, count, numbers.low, numbers.median, numbers.high))
    return rows


def weeks_out(head: Head, depot: PublishedDepot) -> list[WeekOut]:
    """Return the full weeks of a depot, from its first day."""
    rows = []
    for number, quantiles in enumerate(depot.weeks):
        first = depot.days[7 * number].target_date
        numbers = week_range(quantiles, head.levels)
        rows.append(WeekOut(first, numbers.low, numbers.median, numbers.high))
    return rows


def depot_out(head: Head, depot: PublishedDepot, front: Front) -> FullDepotOut:
    """Return one depot with all its quantiles, recent days and named days."""
    return FullDepotOut(
        about(head, front),
        depot.depot_id,
        depot.attributes,
        list(head.levels),
        [_full(day) for day in depot.days],
        [RecentOut(d.date, d.came, d.open, d.demand) for d in depot.recent],
        [MarkOut(m.date, m.kind, m.name) for m in depot.marks],
        weeks_out(head, depot),
    )


def to_json(value: Any) -> bytes:
    return TypeAdapter(type(value)).dump_json(value)


def _day(day: PublishedDay, levels: tuple[float, ...]) -> DayOut:
    numbers = median_and_range(day, levels)
    return DayOut(day.target_date, day.open, numbers.low, numbers.median, numbers.high, day.drivers)


def _full(day: PublishedDay) -> FullDayOut:
    forecast = (day.target_date, day.horizon, day.open, list(day.quantiles), day.drivers)
    return FullDayOut(*forecast, day.roster, day.override, day.change)


def about(head: Head, front: Front) -> AboutOut:
    return AboutOut(
        head.publication_id,
        head.pipeline,
        head.run_id,
        head.published_at,
        head.as_of,
        head.cutoff,
        head.tier,
        front.meaning,
        front.stale,
        front.fruitless,
        head.model,
        head.bundle_digest,
        head.timezone,
        front.note,
    )
