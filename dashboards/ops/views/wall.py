"""What a large screen in the control room shows: the next day in all, each city, and whom to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.reading.header import Front, median_and_range
from dashboards.ops.views.depot_table import city_of, reasons
from dashboards.ops.views.network import DayTotal, NetworkView, drivers
from forecaster.ledger.store import Head, PublishedDepot

REFRESH = 60  # seconds
MOST = 12  # tiles, with the one that says how many found no place
LOOK = 8  # depots to look at


@dataclass(frozen=True)
class Tile:
    name: str
    open: bool
    orders: str
    range: str
    drivers: str  # empty where nobody is planned


@dataclass(frozen=True)
class Wall:
    heading: str
    open: bool  # any of its depots, on the day in front
    orders: str  # empty where cities are told apart
    range: str | None
    drivers: str
    week: tuple[DayTotal, ...]
    tiles: tuple[Tile, ...]
    more: int  # tiles that found no place
    look: tuple[tuple[str, str], ...]  # depot and why, those with most reasons first
    others: int
    refresh: int


def wall(
    head: Head,
    depots: Sequence[PublishedDepot],
    front: Front,
    network: NetworkView,
    before: Mapping[tuple[str, date], float],
    city: str,
) -> Wall:
    """The network with a tile a city, or one city with a tile a depot, the busiest first."""
    chosen = next((each for each in network.cities if each.name == city), None) if city else None
    own = [each for each in depots if city_of(each) == city] if chosen else list(depots)
    tiles = _depots(own, head, front) if chosen else [
        Tile(each.name, each.open, each.orders, each.range or "", _number(each.drivers)) for each in network.cities
    ]  # fmt: skip
    shown = len(tiles) if len(tiles) <= MOST else MOST - 1
    told = [(each.depot_id, reasons(each, head, front, before)) for each in own]
    look = sorted(((depot, why) for depot, why in told if why), key=lambda each: -len(each[1]))
    return Wall(
        chosen.name if chosen else front.title,
        any(each.days[front.meant].open for each in own),
        chosen.orders if chosen else network.orders,
        chosen.range if chosen else network.range,
        _number(chosen.drivers if chosen else network.drivers),
        network.week if network.orders and not chosen else (),
        tuple(tiles[:shown]),
        len(tiles) - shown,
        tuple((depot, "; ".join(why)) for depot, why in look[:LOOK]),
        max(len(look) - LOOK, 0),
        REFRESH,
    )


def _depots(depots: Sequence[PublishedDepot], head: Head, front: Front) -> list[Tile]:
    found = []
    for depot in sorted(depots, key=lambda each: -median_and_range(each.days[front.meant], head.levels).median):
        day = depot.days[front.meant]
        numbers = median_and_range(day, head.levels)
        span = display.span(numbers.low, numbers.high)
        found.append(
            Tile(depot.depot_id, day.open, display.orders(numbers.median), span, _number(drivers([depot], front.meant)))
        )
    return found


def _number(value: int | None) -> str:
    return "" if value is None else display.number(value)
