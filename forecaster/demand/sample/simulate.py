"""Simulation of the Harbor Fleet sample: daily orders of a delivery fleet in three cities, from a
seed.

A day's expected orders are a product: depot level × weekday profile × yearly cycle × growth ×
holidays × shopping season × promotions × local events. City-wide weather and negative-binomial
noise are added; both are unpredictable. The numbers below are the whole recipe; README.md next to
the sample describes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles
from forecaster.demand.sample.events import CITIES, closures, local_events, promotions, public_holidays, shopping_season
from forecaster.demand.sample.flaws import plant

Codes = NDArray[np.int64]
Random = np.random.Generator

ZONE = ZoneInfo("America/New_York")
EXPORTED = time(1, 30)  # local time on the next day at which the source exports a day
AHEAD = 21  # days after `end` for which promotions, local events and closures are planned
YOUNG, GONE = 35, 120  # days since the newest depot opened; days since one closed for good
BLOCK = 4096  # depots drawn at a time: bounds memory, and is part of the recipe
VANS = 120  # in a fleet of 64 depots; proportional in other fleets
PROFILES = np.log([  # Monday … Sunday: residential, business district, mixed
    [0.92, 0.90, 0.92, 0.95, 1.05, 1.18, 1.12],
    [1.12, 1.15, 1.16, 1.14, 1.10, 0.82, 0.52],
    [1.02, 1.00, 1.00, 1.02, 1.07, 1.02, 0.88],
])  # fmt: skip
PROFILE_SHARES = (0.40, 0.25, 0.35)


@dataclass(frozen=True)
class Sample:
    """The three files of the sample as text-ready tables, and facts that only the simulator knows.

    demand: depot, day, orders, recorded_at, sorted by recorded_at and depot; orders are text, or
    integers without flaws. depots: depot, city, country, subdivision, vans, opened, closed. events:
    date, kind, name, depot_id, city; up to 21 days after the last day of demand. truth: depot, day,
    expected (orders, before weather and noise), up to 21 days after the last day of demand.
    planted: flaw, depot, day, found; one row per flaw in demand.
    """

    demand: pd.DataFrame
    depots: pd.DataFrame
    events: pd.DataFrame
    truth: pd.DataFrame
    planted: pd.DataFrame


@dataclass(frozen=True)
class SimulatedFleet:
    """Properties of simulated depots; every array is (depots, …). Responses average 1 and scale a
    city's effect."""

    ids: list[str]
    city: Codes  # index into CITIES
    first: Codes  # index of the first day in business
    last: Codes  # index of the first day out of business
    level: Doubles  # orders per day
    profile: Doubles  # (depots, 7), log
    growth: Doubles  # log per year
    drift: Doubles  # (depots, weeks), log: a slow random walk
    yearly: Doubles
    holiday: Doubles
    season: Doubles
    promo: Doubles
    event: Doubles

    @property
    def steady(self) -> Codes:
        """Depots in business all the time."""
        return np.flatnonzero((self.first == 0) & (self.last == self.last.max()))


def simulate(
    *, end: date = date(2026, 10, 31), days: int = 549, depots: int = 64, seed: int = 7, flaws: bool = True
) -> Sample:
    """Simulate the sample whose last day of demand is `end`: the same arguments give the same
    bytes.

    Another `end` gives another history, not a continuation: to replay the past of a sample, cut it.
    With `flaws`, demand.csv holds the mistakes of a real feed; without them, `planted` is empty.
    Raises ValueError for fewer than 8 depots or 60 days, too few for the sample's features.
    """
    if depots < 8 or days < 60:
        raise ValueError(f"found {depots} depots and {days} days, wanted at least 8 depots and 60 days")
    for_fleet, for_plan, for_weather, for_noise, for_flaws = np.random.default_rng(seed).spawn(5)
    dates = [end + timedelta(k - days + 1) for k in range(days + AHEAD)]
    fleet = draw_fleet(depots, days, for_fleet)
    promo, promo_rows = promotions(dates, days, for_plan)
    event, event_rows = local_events(dates)
    closed, closure_rows = closures(fleet.ids, fleet.steady, dates, days, for_plan)
    effects = {"promo": promo, "event": event, "holiday": public_holidays(dates), "season": shopping_season(dates)}
    expected = np.empty((depots, len(dates)), np.float32)
    orders = np.empty((depots, days), np.int32)
    weather = weather_shocks(days, for_weather)
    for start in range(0, depots, BLOCK):
        block = slice(start, start + BLOCK)
        mean = np.where(closed[block], 0.0, expected_orders(fleet, block, dates, effects))
        expected[block] = mean
        orders[block] = observe(mean[:, :days] * np.exp(weather[fleet.city[block]]), for_noise)
    day, depot = _in_business(fleet, len(dates))
    truth = pd.DataFrame(
        {"depot": _words(depot, fleet.ids), "day": _words(day, _iso(dates)), "expected": expected[depot, day]}
    )
    day, depot = _in_business(fleet, days)
    rows = pd.DataFrame({"depot": depot, "day": day, "orders": orders[depot, day], "export": day})
    demand, planted = _feed(rows, fleet, dates[:days], for_flaws if flaws else None)
    events = pd.DataFrame(promo_rows + event_rows + closure_rows, columns=["date", "kind", "name", "depot_id", "city"])
    events = events.sort_values(["date", "kind", "city", "depot_id", "name"], ignore_index=True)
    return Sample(demand, _depot_table(fleet, dates, days), events, truth, planted)


def write(sample: Sample, folder: Path) -> None:
    """Write demand.csv, depots.csv and events.csv into `folder`, creating it if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (("demand", sample.demand), ("depots", sample.depots), ("events", sample.events)):
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n", encoding="utf-8")


def draw_fleet(depots: int, days: int, random: Random) -> SimulatedFleet:
    counts = _apportion(np.array([city.depots for city in CITIES], float), depots)
    width = max(2, len(str(depots)))
    ids = [f"{c.prefix}-{k + 1:0{width}d}" for c, count in zip(CITIES, counts, strict=True) for k in range(count)]
    first, last = np.zeros(depots, np.int64), np.full(depots, days + AHEAD)
    first[counts[0] + counts[1] - 1] = days - min(YOUNG, days // 4)  # the newest: last of Boston
    last[counts[0] - 1] = days - 1 - min(GONE, days // 3)  # gone: last of Baltimore
    profile = PROFILES[random.choice(3, depots, p=PROFILE_SHARES)] + random.normal(0, 0.04, (depots, 7))
    drift = random.normal(0, 0.008, (depots, (days + AHEAD) // 7 + 1)).cumsum(axis=1)
    return SimulatedFleet(
        ids=ids,
        city=np.repeat(np.arange(len(CITIES)), counts),
        first=first,
        last=last,
        level=np.clip(random.lognormal(np.log(130), 0.45, depots), 60, 400),
        profile=profile - np.log(np.exp(profile).mean(axis=1, keepdims=True)),
        growth=random.normal(0.04, 0.12, depots),
        drift=drift,
        yearly=random.normal(1, 0.4, depots),
        holiday=random.uniform(0.5, 1.5, depots),
        season=random.uniform(0.5, 1.5, depots),
        promo=np.clip(random.normal(1, 0.15, depots), 0.6, 1.4),
        event=random.uniform(0.4, 1.6, depots),
    )


def expected_orders(fleet: SimulatedFleet, block: slice, dates: list[date], effects: dict[str, Doubles]) -> Doubles:
    """Mean orders of a block of depots on open days, (depots, days)."""
    city, index = fleet.city[block], np.arange(len(dates))
    day_of_year = np.array([d.timetuple().tm_yday for d in dates])
    turn = 2 * np.pi * (day_of_year - np.array([[c.peak] for c in CITIES])) / 365.25
    yearly = np.array([[c.yearly] for c in CITIES]) * (np.cos(turn) + 0.3 * np.cos(2 * turn))
    log = np.log(fleet.level[block])[:, None] + fleet.profile[block][:, [d.weekday() for d in dates]]
    log += fleet.drift[block][:, index // 7]
    log += fleet.growth[block][:, None] * (index / 365.25)
    for name, effect in {"yearly": yearly, **effects}.items():
        response: Doubles = getattr(fleet, name)
        log += response[block][:, None] * effect[city]
    age = index - fleet.first[block][:, None]
    young = (fleet.first[block] > 0)[:, None]
    mean: Doubles = np.exp(log) * np.where(young, 1 - 0.55 * np.exp(-np.maximum(age, 0) / 21), 1.0)
    return mean


def observe(mean: Doubles, random: Random) -> Codes:
    """Negative-binomial counts: variance mean + mean² / 500, slightly above Poisson."""
    return random.poisson(mean * random.standard_gamma(500, mean.shape) / 500)


def weather_shocks(days: int, random: Random) -> Doubles:
    """One shock per city and day, log: AR(1) with coefficient 0.6 and standard deviation 4.5 %,
    (cities, days)."""
    shocks = random.normal(0, 0.045, (len(CITIES), days))
    for day in range(1, days):
        shocks[:, day] = 0.6 * shocks[:, day - 1] + 0.8 * shocks[:, day]
    return shocks


def _depot_table(fleet: SimulatedFleet, dates: list[date], days: int) -> pd.DataFrame:
    working = np.flatnonzero(fleet.last > days)
    vans = np.zeros(len(fleet.ids), np.int64)
    spare = fleet.level[working] - fleet.level[working].min()
    vans[working] = 1 + _apportion(spare, round(VANS * len(fleet.ids) / 64) - len(working))
    cities = [CITIES[code] for code in fleet.city]
    return pd.DataFrame(
        {
            "depot": fleet.ids,
            "city": [city.name for city in cities],
            "country": "US",
            "subdivision": [city.subdivision for city in cities],
            "vans": vans,
            "opened": [dates[k].isoformat() if k > 0 else "" for k in fleet.first],
            "closed": [dates[k].isoformat() if k < len(dates) else "" for k in fleet.last],
        }
    )


def _feed(
    rows: pd.DataFrame, fleet: SimulatedFleet, dates: list[date], random: Random | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows as the source exports them; with a `random`, flaws are planted."""
    ids, days = fleet.ids, _iso(dates)
    exports = [datetime.combine(d + timedelta(1), EXPORTED, ZONE).isoformat() for d in dates]
    planted = pd.DataFrame(columns=["flaw", "depot", "day", "found"], dtype=str)
    if random is not None:
        flawed = plant(rows, ids, fleet.steady, dates, random)
        rows, ids, days, planted = flawed.rows, flawed.ids, flawed.days, flawed.planted
    demand = pd.DataFrame(
        {
            "depot": _words(rows["depot"].to_numpy(), ids),
            "day": _words(rows["day"].to_numpy(), days),
            "orders": rows["orders"].to_numpy(),
            "recorded_at": _words(rows["export"].to_numpy(), exports),
        }
    )
    return demand, planted


def _apportion(weights: Doubles, total: int) -> Codes:
    """Integers proportional to the weights that sum to the total (largest remainders)."""
    exact = weights / weights.sum() * total
    integers = np.floor(exact).astype(np.int64)
    most_left = np.argsort(integers - exact, kind="stable")[: total - int(integers.sum())]
    integers[most_left] += 1
    return np.asarray(integers, np.int64)


def _in_business(fleet: SimulatedFleet, days: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Day and depot of every day in business, sorted by day."""
    day = np.arange(days)[:, None]
    pairs = np.nonzero((day >= fleet.first) & (day < fleet.last))
    return pairs[0].astype(np.int32), pairs[1].astype(np.int32)


def _words(codes: NDArray[np.integer[Any]], categories: list[str]) -> pd.Series[str]:
    """Categorical column of a few words (in ascending order), without a copy of the word per row."""
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(categories), ordered=True))


def _iso(dates: list[date]) -> list[str]:
    return [d.isoformat() for d in dates]
