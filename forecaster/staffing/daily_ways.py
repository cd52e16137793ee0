"""Crews and costs of each rostering policy on one day: ours, its rivals, and ours with ten more
vans.

The rivals and the arithmetic are those of `cost_backtest`. All policies have the same limits and
vans, and are billed on the same depots; if shifts are declared, all have a crew per shift and are
billed per shift. Crews are (shifts, depots, 1), with one shift if none is declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.forecast import Fold
from forecaster.ledger.value import (
    BUFFER,
    FORESIGHT,
    LAST_WEEK,
    MODEL,
    MORE_VANS,
    PUBLISHED,
    VANS_MORE,
    WayCost,
)
from forecaster.staffing.cost_backtest import (
    BUFFERS,
    buffered_need,
    same_weekday_orders,
)
from forecaster.staffing.roster_ways import RosterWays

PLAIN_MEDIAN = BUFFERS.index((0.0, 0.0))  # default while there are no earlier days


def crews(
    fold: Fold, published: Ints, before: Doubles, buffer: tuple[float, float], rosters: RosterWays
) -> dict[str, Ints]:
    """Rostering policy → crews (shifts, depots, 1) of a one-day fold forecast by the model alone.

    `published` are the published crews, including planners' numbers; `before` are orders (depots,
    days) up to the cutoff, NaN if closed or unknown.
    """
    costs = rosters.costs
    horizon = (fold.forecast.target_dates[0] - fold.forecast.cutoff).days
    last_week = np.nan_to_num(same_weekday_orders(before, horizon)[:, -1:])
    actual = np.nan_to_num(fold.actuals.astype(float))
    ways = {
        PUBLISHED: published,
        MODEL: rosters.cheapest(fold),
        LAST_WEEK: rosters.limited(last_week / costs.orders_per_driver, fold),
        BUFFER: rosters.limited(buffered_need(fold, buffer, costs), fold),
        FORESIGHT: rosters.limited(actual / costs.orders_per_driver, fold),
    }
    if rosters.fleet is not None:
        larger = replace(rosters.fleet, total=rosters.fleet.total + VANS_MORE)
        ways[MORE_VANS] = replace(rosters, fleet=larger).cheapest(fold)
    return ways


def buffer_costs(fold: Fold, rosters: RosterWays) -> tuple[float, ...]:
    """Cost of each buffer on this day, used to choose those of later days."""
    return tuple(
        float(np.nansum(rosters.billed(rosters.limited(buffered_need(fold, buffer, rosters.costs), fold), fold).cost))
        for buffer in BUFFERS
    )


def best_buffer(costs_before: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The cheapest buffer on all days before; the plain median if there are none."""
    daily_costs = [day for day in costs_before if len(day) == len(BUFFERS)]
    return BUFFERS[int(np.sum(daily_costs, axis=0).argmin())] if daily_costs else BUFFERS[PLAIN_MEDIAN]


def bills(
    ways: Mapping[str, Ints], fold: Fold, cities: Sequence[str], rosters: RosterWays, day: date
) -> tuple[WayCost, ...]:
    """Cost of each policy in each city, over depots with known actuals; `cities` has the city of
    each depot."""
    names, of_depot = np.unique(np.asarray(cities, object).astype(str), return_inverse=True)
    rows = []
    for way, crew in ways.items():
        billed = rosters.billed(crew, fold)
        is_known = billed.known[:, 0]

        def by_city(values: Doubles, is_known: Bools = is_known) -> Doubles:
            sums: Doubles = np.bincount(of_depot[is_known], values[is_known], len(names)).astype(float)
            return sums

        sums = [
            by_city(billed.cost[:, 0]),
            by_city(billed.short[:, 0]),
            by_city(billed.idle[:, 0]),
            by_city(crew.sum(axis=0)[:, 0].astype(float)),
            by_city(np.ones(len(is_known))),
        ]
        for city, (cost, short, idle, drivers, depots) in zip(names.tolist(), np.transpose(sums).tolist(), strict=True):
            if depots:
                rows.append(WayCost(day, city, way, cost, int(short), int(idle), int(drivers), int(depots)))
    return tuple(rows)
