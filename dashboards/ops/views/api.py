"""The publication as JSON: the values behind the pages, with their units in the field names or the descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pydantic import TypeAdapter

from dashboards.ops.views.front import Front, three
from dashboards.ops.views.network import drivers
from forecaster.ledger import Head, PublishedDay, PublishedDepot


@dataclass(frozen=True)
class DayOut:
    """Orders expected on a day: the median and the ends of the 80 % range."""

    target_date: date
    open: bool
    low: float
    median: float
    high: float
    drivers: int | None


@dataclass(frozen=True)
class DepotOut:
    depot_id: str
    attributes: Mapping[str, str]
    days: list[DayOut]


@dataclass(frozen=True)
class TotalOut:
    """The network on a day."""

    target_date: date
    sum_of_medians: float
    drivers: int | None


@dataclass(frozen=True)
class AboutOut:
    """How good the publication is, and by what it was made."""

    publication_id: int
    pipeline: str
    run_id: str
    published_at: datetime
    as_of: datetime
    cutoff: date
    tier: str
    meaning: str
    stale: str | None
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


@dataclass(frozen=True)
class RecentOut:
    date: date
    orders: float | None
    open: bool


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


def publication_out(head: Head, depots: tuple[PublishedDepot, ...], front: Front) -> PublicationOut:
    """Every depot with its median and range."""
    made = [
        DepotOut(depot.depot_id, depot.attributes, [_day(day, head.levels) for day in depot.days]) for depot in depots
    ]
    totals = [
        TotalOut(day, sum(depot.days[i].median for depot in made), drivers(depots, i))
        for i, day in enumerate(front.target_dates)
    ]
    return PublicationOut(_about(head, front), totals, made)


def depot_out(head: Head, depot: PublishedDepot, front: Front) -> FullDepotOut:
    """One depot with all its quantiles, readings and named days."""
    return FullDepotOut(
        _about(head, front),
        depot.depot_id,
        depot.attributes,
        list(head.levels),
        [FullDayOut(d.target_date, d.horizon, d.open, list(d.quantiles), d.drivers) for d in depot.days],
        [RecentOut(d.date, d.demand, d.open) for d in depot.recent],
        [MarkOut(m.date, m.kind, m.name) for m in depot.marks],
    )


def to_json(value: Any) -> bytes:
    return TypeAdapter(type(value)).dump_json(value)


def _day(day: PublishedDay, levels: tuple[float, ...]) -> DayOut:
    numbers = three(day, levels)
    return DayOut(day.target_date, day.open, numbers.low, numbers.median, numbers.high, day.drivers)


def _about(head: Head, front: Front) -> AboutOut:
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
        head.model,
        head.bundle_digest,
        head.timezone,
        head.note,
    )
