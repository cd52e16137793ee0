"""Continuation of the Harbor Fleet sample after its last committed day: the same fleet, day by day,
from the same seed.

Unlike another `end` of `simulate`, a later `until` only adds days: each day is drawn from its own
generator, or from one that is read forward in time. Weekdays, public holidays and the shopping
season follow the real calendar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache

import numpy as np

from forecaster.core.arrays import Bools, Doubles
from forecaster.demand.sample import simulate
from forecaster.demand.sample.events import (
    CITIES,
    CLOSURES,
    PROMOTIONS,
    Row,
    closures,
    local_events,
    promotions,
    public_holidays,
    shopping_season,
)
from forecaster.demand.sample.flaws import RESTATED_AFTER
from forecaster.demand.sample.simulate import AHEAD, EXPORTED, ZONE, SimulatedFleet

END, DAYS, DEPOTS, SEED = date(2026, 10, 31), 549, 64, 7  # of the committed files
# after local midnight: by then the source has reported the day before
TO_EXPORT = timedelta(hours=2)
# share of days on which one depot's first count is incomplete and corrected two days later
RESTATED = 1 / 14


@dataclass(frozen=True)
class LaterDays:
    """Rows after the committed ones, as text, in the columns and order of the files."""

    demand: dict[str, list[str]]
    events: dict[str, list[str]]


def last_exported(now: datetime) -> date:
    """Last day that the sample's source has reported by an instant."""
    return (now.astimezone(ZONE) - TO_EXPORT).date() - timedelta(days=1)


@lru_cache(maxsize=4)
def later_days(until: date) -> LaterDays:
    """Days after END up to `until`, and events announced up to AHEAD days later, without the
    committed ones."""
    added = max((until - END).days, 0)
    days = DAYS + added
    dates = [END + timedelta(k - DAYS + 1) for k in range(days + AHEAD)]
    for_fleet, for_plan, for_weather, *_ = np.random.default_rng(SEED).spawn(5)
    for_drift, for_shocks, *for_cities = np.random.default_rng([SEED, DAYS]).spawn(2 + len(CITIES))
    fleet = _grown(simulate.draw_fleet(DEPOTS, DAYS, for_fleet), len(dates), for_drift)
    promo, promo_rows = _promotions(dates, for_plan, for_cities)
    event, event_rows = local_events(dates)
    closed, closure_rows = _closures(fleet, dates, for_plan)
    effects = {"promo": promo, "event": event, "holiday": public_holidays(dates), "season": shopping_season(dates)}
    expected = np.where(closed, 0.0, simulate.expected_orders(fleet, slice(None), dates, effects))
    mean = expected[:, :days] * np.exp(_weather(added, for_weather, for_shocks))[fleet.city]
    last_known_day = (END + timedelta(days=AHEAD)).isoformat()
    rows = sorted(row for row in promo_rows + event_rows + closure_rows if row[0] > last_known_day)
    return LaterDays(
        _exports(fleet, dates, mean),
        {name: [row[place] for row in rows] for place, name in enumerate(("date", "kind", "name", "depot_id", "city"))},
    )


def _grown(fleet: SimulatedFleet, dates: int, random: np.random.Generator) -> SimulatedFleet:
    """Extend the fleet's slow random walk by weekly steps to all dates; depots in business at the
    end remain so."""
    weeks = dates // 7 + 1 - fleet.drift.shape[1]
    steps = random.normal(0, 0.008, (max(weeks, 0), len(fleet.ids))).cumsum(axis=0).T
    last = np.where(fleet.last == DAYS + AHEAD, dates, fleet.last)
    return replace(fleet, last=last, drift=np.concatenate([fleet.drift, fleet.drift[:, -1:] + steps], axis=1))


def _promotions(
    dates: list[date], for_plan: np.random.Generator, for_cities: list[np.random.Generator]
) -> tuple[Doubles, list[Row]]:
    """Committed plan of promotions, which is drawn first, and each city's next promotions, 4 to 13
    days apart."""
    planned, rows = promotions(dates[: DAYS + AHEAD], DAYS, for_plan)
    effect = np.pad(planned, ((0, 0), (0, len(dates) - planned.shape[1])))
    for code, (city, random) in enumerate(zip(CITIES, for_cities, strict=True)):
        day = max(dates.index(date.fromisoformat(row[0])) for row in rows if row[4] == city.name)
        while True:
            if planned.shape[1] <= day + 1 < len(dates):
                effect[code, day + 1] += np.log1p(-0.04)
            day += int(random.integers(4, 14))
            gain, name = random.uniform(0.25, 0.45), PROMOTIONS[random.integers(len(PROMOTIONS))]
            if day >= len(dates):
                break
            effect[code, day] += np.log1p(gain)
            rows.append((dates[day].isoformat(), "promo", name, "", city.name))
    return effect, rows


def _closures(fleet: SimulatedFleet, dates: list[date], for_plan: np.random.Generator) -> tuple[Bools, list[Row]]:
    """Committed closures, and later ones: about one per depot in four years."""
    steady = np.flatnonzero((fleet.first == 0) & (fleet.last == len(dates)))
    closed, rows = closures(fleet.ids, steady, dates[: DAYS + AHEAD], DAYS, for_plan)
    closed = np.pad(closed, ((0, 0), (0, len(dates) - closed.shape[1])))
    for begin in range(DAYS + AHEAD, len(dates)):
        random = np.random.default_rng([SEED, begin, 1])
        if random.random() >= len(fleet.ids) / 1461:
            continue
        depot, length, name = int(random.choice(steady)), int(random.integers(1, 4)), CLOSURES[random.integers(3)]
        for day in range(begin, min(begin + length, len(dates))):
            if not closed[depot, day]:
                closed[depot, day] = True
                rows.append((dates[day].isoformat(), "closure", name, fleet.ids[depot], ""))
    return closed, rows


def _weather(added: int, committed: np.random.Generator, random: np.random.Generator) -> Doubles:
    """Committed weather, continued from its last day, (cities, days)."""
    before = simulate.weather_shocks(DAYS, committed)
    after = random.normal(0, 0.045, (added, len(CITIES))).T
    shocks = np.concatenate([before, after], axis=1)
    for day in range(DAYS, DAYS + added):
        shocks[:, day] = 0.6 * shocks[:, day - 1] + 0.8 * shocks[:, day]
    return shocks


def _exports(fleet: SimulatedFleet, dates: list[date], mean: Doubles) -> dict[str, list[str]]:
    """Exports of the later days, sorted by day of export and depot."""
    rows = list[tuple[int, str, str, str]]()  # export, depot, day, orders
    last = mean.shape[1] - 1
    for day in range(DAYS, last + 1):
        random = np.random.default_rng([SEED, day])
        orders = simulate.observe(mean[:, day], random)
        working = np.flatnonzero((fleet.first <= day) & (day < fleet.last))
        counts = dict(zip(working.tolist(), orders[working].astype(int).tolist(), strict=True))
        early = int(random.choice(working)) if random.random() < RESTATED else None
        if early is not None and counts[early] > 0:
            if day + RESTATED_AFTER <= last:
                rows.append((day + RESTATED_AFTER, fleet.ids[early], dates[day].isoformat(), str(counts[early])))
            counts[early] = int(counts[early] * random.uniform(0.75, 0.95))
        rows += [(day, fleet.ids[depot], dates[day].isoformat(), str(n)) for depot, n in counts.items()]
    rows.sort(key=lambda row: row[:3])
    exports = [datetime.combine(dates[k] + timedelta(1), EXPORTED, ZONE).isoformat() for k, *_ in rows]
    texts = [row[1:] for row in rows]
    columns = {name: [text[place] for text in texts] for place, name in enumerate(("depot", "day", "orders"))}
    return {**columns, "recorded_at": exports}
