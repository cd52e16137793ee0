"""Wall screen of a control room: the next day in all, each city, and which depots need attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.reading.header import Front, median_and_range
from dashboards.ops.views.depot_table import city_of, reasons, scarcity, urgency
from dashboards.ops.views.network import DayTotal, NetworkView, drivers
from forecaster.core.language.near_words import nearest_word
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.records import Head

REFRESH = 60  # seconds
MOST = 8  # tiles, with the one that says how many found no place: more could not be read from four metres
LOOK = 4  # depots to look at
MOST_CITIES = 24  # to choose from, where one was asked for that is not there


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
    number: int  # the same, by which words are inflected
    range: str | None
    drivers: str
    week: tuple[DayTotal, ...]
    tiles: tuple[Tile, ...]
    more: int  # tiles that found no place
    look: tuple[tuple[str, str], ...]  # depot and why, the most urgent first
    others: int
    scarcity: str  # days on which drivers are too few nearly everywhere
    refresh: int
    unknown: str  # the city that was asked for, where there is none of that name
    nearest: str  # the one that may have been meant
    cities: tuple[str, ...]  # then, to choose from


def wall(
    head: Head,
    depots: Sequence[PublishedDepot],
    front: Front,
    network: NetworkView,
    before: Mapping[tuple[str, date], float],
    city: str,
) -> Wall:
    """The network with a tile a city, or one city with a tile a depot, the busiest first."""
    chosen = next((total for total in network.cities if total.name == city), None) if city else None
    names = [total.name for total in network.cities if total.name] if city and not chosen else []
    members = [depot for depot in depots if city_of(depot) == city] if chosen else list(depots)
    tiles = _depot_tiles(members, head, front) if chosen else _city_tiles(network)
    visible = len(tiles) if len(tiles) <= MOST else MOST - 1
    attention = [(depot, why) for depot in members if (why := reasons(depot, head, front, before))]
    look = sorted(attention, key=lambda depot_and_why: urgency(depot_and_why[0], front, depot_and_why[1]))
    crowded = scarcity(depots, front)
    places = LOOK // 2 if crowded else LOOK
    return Wall(
        chosen.name if chosen else front.title,
        any(depot.days[front.meant].open for depot in members),
        chosen.orders if chosen else network.orders,
        chosen.number if chosen else network.number,
        chosen.range if chosen else network.range,
        _drivers(chosen.drivers if chosen else network.drivers),
        network.week if network.orders and not chosen else (),
        tuple(tiles[:visible]),
        len(tiles) - visible,
        tuple((depot.depot_id, display.clauses(*why)) for depot, why in look[:places]),
        max(len(look) - places, 0),
        crowded,
        REFRESH,
        city if names else "",
        (nearest_word(city, names) or "") if names else "",
        tuple(names[:MOST_CITIES]),
    )


def _city_tiles(network: NetworkView) -> list[Tile]:
    return [
        Tile(city.name, city.open, city.orders, city.range or "", _drivers(city.drivers)) for city in network.cities
    ]


def _depot_tiles(depots: Sequence[PublishedDepot], head: Head, front: Front) -> list[Tile]:
    forecasts = [(depot, median_and_range(depot.days[front.meant], head.levels)) for depot in depots]
    return [
        Tile(
            depot.depot_id,
            depot.days[front.meant].open,
            display.orders(forecast.median),
            display.span(forecast.low, forecast.high),
            _drivers(drivers([depot], front.meant)),
        )
        for depot, forecast in sorted(forecasts, key=lambda depot_and_forecast: -depot_and_forecast[1].median)
    ]


def _drivers(value: int | None) -> str:
    return "" if value is None else display.drivers(value)
