"""Simulated events: holidays, shopping season, promotions, local events and closures of the cities.

Effects are logs of a factor on orders, (cities, days); rows are what events.csv announces. `days`
is the number of days with demand; the dates after them are planned ahead.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import NamedTuple

import holidays
import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Doubles

Row = tuple[str, str, str, str, str]  # date, kind, name, depot_id, city; both empty: everywhere


class SimulatedCity(NamedTuple):
    prefix: str
    name: str
    subdivision: str
    depots: int  # out of 64
    yearly: float  # amplitude of the yearly cycle, as a share
    peak: int  # day of the year on which it peaks


class LocalEvent(NamedTuple):
    city: int
    name: str
    month: int
    weekday: int  # Monday = 0
    nth: int  # the first, second … such weekday of the month
    days: int
    effect: float  # on the city's orders, as a share


CITIES = (
    SimulatedCity("BAL", "Baltimore", "MD", 16, 0.06, 190),
    SimulatedCity("BOS", "Boston", "MA", 18, 0.10, 15),
    SimulatedCity("NYC", "New York", "NY", 30, 0.07, 345),
)
HOLIDAYS = {
    "Christmas Day": -0.60,
    "Thanksgiving Day": -0.45,
    "New Year's Day": -0.35,
    "Independence Day": -0.20,
    "Memorial Day": -0.15,
    "Labor Day": -0.15,
}
OTHER_HOLIDAY = -0.05
EVE = 0.3  # the day before a holiday gains this share of the holiday's loss
LOCAL_EVENTS = (
    LocalEvent(0, "Harbor Tall Ships", 6, 5, 2, 2, 0.12),
    LocalEvent(0, "Horse Race Weekend", 5, 4, 3, 2, 0.15),
    LocalEvent(0, "Arts Street Festival", 9, 5, 3, 2, -0.08),
    LocalEvent(0, "City Running Festival", 10, 5, 3, 1, -0.12),
    LocalEvent(0, "Light Parade", 12, 5, 1, 1, 0.08),
    LocalEvent(1, "City Marathon", 4, 0, 3, 1, -0.15),
    LocalEvent(1, "Move-in Weekend", 9, 5, 1, 2, 0.20),
    LocalEvent(1, "River Regatta", 10, 5, 3, 2, 0.07),
    LocalEvent(1, "Winter Carnival", 2, 5, 2, 1, 0.06),
    LocalEvent(1, "Seaport Street Festival", 7, 5, 3, 1, -0.10),
    LocalEvent(2, "Bridges Bike Tour", 5, 6, 1, 1, -0.12),
    LocalEvent(2, "Avenue Street Festival", 8, 5, 2, 1, -0.07),
    LocalEvent(2, "Summer Pride Parade", 6, 6, 4, 1, 0.10),
    LocalEvent(2, "Harvest Parade", 10, 0, 2, 1, -0.06),
    LocalEvent(2, "Five Rivers Marathon", 11, 6, 1, 1, -0.15),
)
PROMOTIONS = ("Free delivery day", "Flash sale", "Double points", "Neighborhood offer")
CLOSURES = ("Floor repairs", "Stocktaking", "Power works")


def promotions(dates: list[date], days: int, random: np.random.Generator) -> tuple[Doubles, list[Row]]:
    """Promotion days of each city, 4 to 13 days apart; one of them is in the seven days after the
    last day of demand."""
    effect, rows = np.zeros((len(CITIES), len(dates))), list[Row]()
    for code, city in enumerate(CITIES):
        anchor = days + int(random.integers(0, 7))
        steps = random.integers(4, 14, 2 * len(dates))
        later, earlier = anchor + steps[: len(dates)].cumsum(), anchor - steps[len(dates) :].cumsum()
        planned = np.sort(np.concatenate([earlier, [anchor], later]))
        for day in planned[(planned >= 0) & (planned < len(dates))].tolist():
            effect[code, day] += np.log1p(random.uniform(0.25, 0.45))
            if day + 1 < len(dates):
                effect[code, day + 1] += np.log1p(-0.04)  # some orders were only brought forward
            rows.append((dates[day].isoformat(), "promo", PROMOTIONS[random.integers(4)], "", city.name))
    return effect, rows


def local_events(dates: list[date]) -> tuple[Doubles, list[Row]]:
    """Marathons, festivals and parades by city, and the two sale days that are announced
    everywhere."""
    effect, rows = np.zeros((len(CITIES), len(dates))), list[Row]()
    for year in _years_of(dates):
        for event in LOCAL_EVENTS:
            begin = (_nth(year, event.month, event.weekday, event.nth) - dates[0]).days
            for day in range(max(begin, 0), min(begin + event.days, len(dates))):
                effect[event.city, day] += np.log1p(event.effect)
                rows.append((dates[day].isoformat(), "event", event.name, "", CITIES[event.city].name))
        for name, day_of_sale in zip(("Black Friday", "Cyber Monday"), _sales(year), strict=True):
            if dates[0] <= day_of_sale <= dates[-1]:
                rows.append((day_of_sale.isoformat(), "event", name, "", ""))
    return effect, rows


def closures(
    ids: list[str], steady: NDArray[np.int64], dates: list[date], days: int, random: np.random.Generator
) -> tuple[Bools, list[Row]]:
    """Planned closures of steady depots for one to three days, (depots, days): one per depot in
    four years, one of them ahead."""
    count = max(3, round(len(ids) * len(dates) / 1461))
    depot = random.choice(steady, count)
    begin = random.integers(0, len(dates) - 3, count)
    begin[0] = days + random.integers(1, 12)
    length, name = random.integers(1, 4, count), random.integers(0, len(CLOSURES), count)
    closed, rows = np.zeros((len(ids), len(dates)), np.bool_), list[Row]()
    for d, b, n, w in zip(depot.tolist(), begin.tolist(), length.tolist(), name.tolist(), strict=True):
        for day in range(b, b + n):
            if not closed[d, day]:
                closed[d, day] = True
                rows.append((dates[day].isoformat(), "closure", CLOSURES[w], ids[d], ""))
    return closed, rows


def public_holidays(dates: list[date]) -> Doubles:
    """Effect of public holidays, which lower the day and raise the day before; shares by name, the
    largest loss if two coincide."""
    effect, place = np.zeros((len(CITIES), len(dates))), {d: k for k, d in enumerate(dates)}
    for code, city in enumerate(CITIES):
        # without a language, the machine's locale would choose it
        named_days = holidays.country_holidays("US", subdiv=city.subdivision, years=_years_of(dates), language="en_US")
        for day, names in named_days.items():
            share = min(HOLIDAYS.get(name, OTHER_HOLIDAY) for name in names.split("; "))
            if day in place:
                effect[code, place[day]] += np.log1p(share)
            if (eve := day - timedelta(1)) in place:
                effect[code, place[eve]] += np.log1p(-EVE * share)
    return effect


def shopping_season(dates: list[date]) -> Doubles:
    """Effect of the shopping season, equal in all cities: two sale days, the weeks before
    Christmas, the lull after it."""
    effect = np.zeros(len(dates))
    for k, day in enumerate(dates):
        friday, monday = _sales(day.year)
        if day in (friday, monday):
            effect[k] = np.log1p(0.30 if day == friday else 0.40)
        elif friday < day <= monday + timedelta(3):
            effect[k] = np.log1p(0.12)
        elif day.month == 12 and 8 <= day.day <= 23:
            effect[k] = np.log1p(0.08 + 0.17 * (day.day - 8) / 15)
        elif day.month == 12 and day.day >= 26:
            effect[k] = np.log1p(-0.10)
    return np.tile(effect, (len(CITIES), 1))


def _years_of(dates: list[date]) -> range:
    return range(dates[0].year, (dates[-1] + timedelta(1)).year + 1)


def _nth(year: int, month: int, weekday: int, nth: int) -> date:
    first = date(year, month, 1)
    return first + timedelta((weekday - first.weekday()) % 7 + 7 * (nth - 1))


def _sales(year: int) -> tuple[date, date]:
    """Black Friday and Cyber Monday."""
    thanksgiving = _nth(year, 11, 3, 4)
    return thanksgiving + timedelta(1), thanksgiving + timedelta(4)
