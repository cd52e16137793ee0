"""Wall screen of a control room: the day in front in total and by city, and the depots that need
attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.reading.header import Front, median_and_range
from dashboards.ops.views.attention import city_of, reasons, scarcity, urgency
from dashboards.ops.views.network import CityTotal, DayTotal, NetworkView, drivers
from forecaster.core.language.near_words import nearest_word
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.records import Head

REFRESH = 60  # seconds
# tiles, including the one that counts the rest: more could not be read from four meters
MOST = 8
LOOK = 4  # depots that need attention
MOST_CITIES = 24  # suggested for an unknown city


@dataclass(frozen=True)
class Tile:
    name: str
    open: bool
    orders: str
    range: str
    drivers: str  # empty if nobody is planned


@dataclass(frozen=True)
class Wall:
    heading: str
    open: bool  # any of its depots, on the day in front
    orders: str  # empty if cities are shown separately
    number: int  # the same, for plural forms
    range: str | None
    drivers: str
    week: tuple[DayTotal, ...]
    tiles: tuple[Tile, ...]
    more: int  # tiles that did not fit
    look: tuple[tuple[str, str], ...]  # depot and reason, most urgent first
    others: int
    scarcity: str  # days with too few drivers nearly everywhere
    refresh: int
    unknown: str  # the requested city, if unknown
    nearest: str  # suggestion for it
    cities: tuple[str, ...]  # further suggestions


def wall(
    head: Head,
    depots: Sequence[PublishedDepot],
    front: Front,
    network: NetworkView,
    before: Mapping[tuple[str, date], float],
    city: str,
) -> Wall:
    """Return the network with one tile per city, or one city with one tile per depot, busiest
    first."""
    city_total = _city(network, city)
    if city_total is None:
        heading, members, tiles = front.title, depots, _city_tiles(network)
        week = network.week if network.orders else ()
    else:
        members = [depot for depot in depots if city_of(depot) == city]
        heading, tiles, week = city, _depot_tiles(members, head, front), ()
    visible = len(tiles) if len(tiles) <= MOST else MOST - 1
    crowded, total = scarcity(depots, front), city_total or network
    look, hidden_count = _attention(members, head, front, before, LOOK // 2 if crowded else LOOK)
    return Wall(
        heading,
        any(depot.days[front.meant].open for depot in members),
        total.orders,
        total.number,
        total.range,
        _drivers(total.drivers),
        week,
        tuple(tiles[:visible]),
        len(tiles) - visible,
        look,
        hidden_count,
        crowded,
        REFRESH,
        *(("", "", ()) if city_total or not city else _unknown(city, network)),
    )


def _city(network: NetworkView, city: str) -> CityTotal | None:
    return next((total for total in network.cities if total.name == city), None) if city else None


def _attention(
    depots: Sequence[PublishedDepot], head: Head, front: Front, before: Mapping[tuple[str, date], float], places: int
) -> tuple[tuple[tuple[str, str], ...], int]:
    """Return the depots that need attention with the reasons, most urgent first, and the number
    that did not fit."""
    depots_with_reasons = [(depot, why) for depot in depots if (why := reasons(depot, head, front, before))]
    depots_with_reasons.sort(key=lambda depot_and_why: urgency(depot_and_why[0], front, depot_and_why[1]))
    entries = tuple((depot.depot_id, display.clauses(*why)) for depot, why in depots_with_reasons[:places])
    return entries, max(len(depots_with_reasons) - places, 0)


def _unknown(city: str, network: NetworkView) -> tuple[str, str, tuple[str, ...]]:
    """Return an unknown city, the best suggestion, and further ones; empty values without cities."""
    names = [total.name for total in network.cities if total.name]
    return (city, nearest_word(city, names) or "", tuple(names[:MOST_CITIES])) if names else ("", "", ())


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
