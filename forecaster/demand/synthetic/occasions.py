"""Events on some days of a simulated network: holidays, promotions, moves to another level,
openings, closures.

Effects are logs of a factor on counts; arrays are (depots, days).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from forecaster.core.arrays import Bools, Days, Doubles, Ints
from forecaster.demand.panel.calendar import holiday_names

Random = np.random.Generator

YEAR = 365.25
NEIGHBOURS = 3  # maximum number of days before and after a holiday that it affects
MOVE = 0.45  # standard deviation of a depot's move, log
CLOSURES = 0.4  # per year and depot
LONGEST_CLOSURE = 20  # days


@dataclass(frozen=True)
class SimulatedHolidays:
    """Public holidays of a network: their effects and their days."""

    effect: Doubles  # (depots, days)
    days: Bools  # (days,)


def holidays(
    dates: Days, country: str, subdivision: str | None, typical: float, depots: int, random: Random
) -> SimulatedHolidays:
    """Fixed and movable holidays: each has, by its name, the same effect every year on itself and
    on the days before and after; depots respond more or less, some inversely."""
    name_by_day = holiday_names(dates, country, subdivision)
    place = {day: number for number, day in enumerate(dates.tolist())}
    effect, is_holiday = np.zeros(len(dates)), np.zeros(len(dates), np.bool_)
    by_name: dict[str, Doubles] = {}
    for day, name in sorted(name_by_day.items()):
        if name not in by_name:
            by_name[name] = _around(typical, random)
        is_holiday[place[day]] = True
        for off, value in zip(range(-NEIGHBOURS, NEIGHBOURS + 1), by_name[name], strict=True):
            number = place.get(day + timedelta(days=off))
            if number is not None:
                effect[number] += value
    response = random.normal(1, 0.4, (depots, 1))
    return SimulatedHolidays(np.clip(response * effect, -3, 1.5), is_holiday)


def _around(typical: float, random: Random) -> Doubles:
    """Effect of one holiday on the days before it, on itself and on the days after it, (2 ·
    NEIGHBOURS + 1,)."""
    effect = np.zeros(2 * NEIGHBOURS + 1)
    effect[NEIGHBOURS] = typical * random.gamma(1.0, 1.0)
    if random.random() < 0.5:  # customers come before it instead
        effect[NEIGHBOURS - 1] = -effect[NEIGHBOURS] * random.uniform(-0.2, 0.6)
    if random.random() < 0.3:  # similar days surround it, as around Christmas
        spread = random.uniform(0.1, 0.7) * effect[NEIGHBOURS]
        effect[:NEIGHBOURS] += spread * random.uniform(0, 1, NEIGHBOURS)
        effect[NEIGHBOURS + 1 :] += spread * random.uniform(0, 1, NEIGHBOURS)
    return effect


def promotions(depots: int, days: int, share: float, random: Random) -> Doubles:
    """1 on days with a promotion, else 0: runs of some days, shared by all depots or separate for
    each."""
    together = random.random() < 0.5
    rows, length = 1 if together else depots, int(random.integers(1, 15))
    begins = random.random((rows, days)) < share / length
    running = np.zeros((rows, days), np.bool_)
    for day in range(length):
        running[:, day:] |= begins[:, : days - day]
    return np.broadcast_to(running, (depots, days)).astype(np.float64)


def moves(depots: int, days: int, a_year: float, random: Random) -> Doubles:
    """Permanent moves of single depots to another level, and occasional shifts of the whole network
    for some weeks."""
    steps = random.normal(0, MOVE, (depots, days)) * (random.random((depots, days)) < a_year / YEAR)
    level = steps.cumsum(axis=1)
    for begin in np.flatnonzero(random.random(days) < 0.15 / YEAR).tolist():
        level[:, begin : begin + int(random.integers(5, 120))] += random.normal(-0.3, 0.4)
    return np.asarray(np.clip(level, -3, 3))


def openings(depots: int, days: int, share: float, length: int, random: Random) -> tuple[Doubles, Ints]:
    """Days that each depot has been open by each day, negative before its opening, (depots,
    length), and its first day, (depots,); 0 if it was there before. No depot opens in the last four
    weeks."""
    first = np.where(random.random(depots) < share, random.integers(1, max(days - 28, 2), depots), 0).astype(np.int32)
    return np.arange(length, dtype=np.float64) - first[:, None], first


def closures(depots: int, days: int, random: Random) -> Bools:
    """Days on which a depot is closed, for example for its own holidays or repairs."""
    begins = random.random((depots, days)) < CLOSURES / YEAR
    closed = np.zeros((depots, days), np.bool_)
    for depot, day in np.argwhere(begins).tolist():
        closed[depot, day : day + int(random.integers(1, LONGEST_CLOSURE + 1))] = True
    return closed
