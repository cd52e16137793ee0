"""Roster page, for printing: whom to roster in each city over the days ahead, a sheet of paper for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.ops.formatting import display
from dashboards.ops.reading.header import Front, href, median_and_range
from dashboards.ops.views.depot_table import city_of
from dashboards.ops.views.roster_text import shortage
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.records import Head


@dataclass(frozen=True)
class RosterCell:
    """One depot's roster of one day."""

    open: bool
    drivers: str
    vans: str  # empty where the pipeline counts none
    orders: str


@dataclass(frozen=True)
class DepotRoster:
    depot_id: str
    href: str
    days: tuple[RosterCell, ...]


@dataclass(frozen=True)
class CityRoster:
    city: str
    anchor: str
    crews: tuple[DepotRoster, ...]
    sums: tuple[str, ...]  # drivers of each day
    shortages: tuple[str, ...]  # a sentence for each day on which vans are missing


@dataclass(frozen=True)
class RosterView:
    days: tuple[tuple[str, str, bool], ...]  # weekday, date, is it the day in front
    sheets: tuple[CityRoster, ...]
    cities: tuple[str, ...]
    city: str  # the one that is asked for; empty: all
    staffed: bool
    vans: bool
    people: bool  # whether shifts are declared, so that there may be plans of who works them


def roster(head: Head, depots: Sequence[PublishedDepot], front: Front, city: str = "") -> RosterView:
    """The sheets of all cities, or of the one that is asked for."""
    by_city: dict[str, list[PublishedDepot]] = {}
    for depot in depots:
        by_city.setdefault(city_of(depot), []).append(depot)
    names = sorted(name for name in by_city if not city or name == city)
    return RosterView(
        tuple(
            (f"{day:%a}", display.short_day(day), place == front.meant) for place, day in enumerate(front.target_dates)
        ),
        tuple(_sheet(number, name, by_city[name], head) for number, name in enumerate(names, 1)),
        tuple(sorted(set(by_city) - {""})),
        city,
        any(day.drivers is not None for depot in depots for day in depot.days),
        any(day.roster is not None and day.roster.vans is not None for depot in depots for day in depot.days),
        any(day.roster is not None and day.roster.shifts for depot in depots for day in depot.days),
    )


def _sheet(number: int, city: str, depots: Sequence[PublishedDepot], head: Head) -> CityRoster:
    crews = tuple(
        DepotRoster(depot.depot_id, href(depot.depot_id), tuple(_cell(day, head) for day in depot.days))
        for depot in depots
    )
    days = list(zip(*(depot.days for depot in depots), strict=True))
    sums = tuple(display.number(sum(day.drivers or 0 for day in column if day.open)) for column in days)
    return CityRoster(city, f"sheet-{number}", crews, sums, tuple(filter(None, map(_shortage, days))))


def _shortage(column: Sequence[PublishedDay]) -> str:
    """What a city lacks on a day: "Thu 5 Nov: no van left in Boston; 0.88 of what the network needs"."""
    reason = next(filter(None, (shortage(day.roster) for day in column)), "")
    return f"{display.day(column[0].target_date)}: {reason}" if reason else ""


def _cell(day: PublishedDay, head: Head) -> RosterCell:
    vans = day.roster.vans if day.roster is not None else None
    return RosterCell(
        day.open,
        "–" if day.drivers is None else display.number(day.drivers),
        "" if vans is None else display.number(vans),
        display.orders(median_and_range(day, head.levels).median),
    )
