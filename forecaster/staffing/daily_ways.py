"""What each way to roster made of one day: the crews of ours, of its rivals and of ten more vans,
and what they cost.

The rivals are those of `cost_backtest`, which has the arithmetic. All keep to the same limits and
vans, and are billed on the same depots; where shifts are declared, all have a crew for each and are
billed for each by itself. Crews are (shifts, depots, 1), of one shift where none is declared.
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

PLAIN_MEDIAN = BUFFERS.index((0.0, 0.0))  # where no day before tells of a better one


def crews(
    fold: Fold, published: Ints, before: Doubles, buffer: tuple[float, float], rosters: RosterWays
) -> dict[str, Ints]:
    """Way to roster → crews (shifts, depots, 1) of a fold of one day, which the model alone
    forecast.

    `published` are the crews that went out, planners' numbers included; `before` are orders
    (depots, days) up to the cutoff, NaN where closed or not known.
    """
    costs = rosters.costs
    ahead = (fold.forecast.target_dates[0] - fold.forecast.cutoff).days
    last_week = np.nan_to_num(same_weekday_orders(before, ahead)[:, -1:])
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
    """Cost of each buffer on this day, by which those of later days are chosen."""
    return tuple(
        float(np.nansum(rosters.billed(rosters.limited(buffered_need(fold, buffer, rosters.costs), fold), fold).cost))
        for buffer in BUFFERS
    )


def best_buffer(costs_before: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The buffer that was cheapest on all days before; the plain median where there is none."""
    known = [day for day in costs_before if len(day) == len(BUFFERS)]
    return BUFFERS[int(np.sum(known, axis=0).argmin())] if known else BUFFERS[PLAIN_MEDIAN]


def bills(
    ways: Mapping[str, Ints], fold: Fold, cities: Sequence[str], rosters: RosterWays, day: date
) -> tuple[WayCost, ...]:
    """Cost of each policy in each city, of the depots whose count is known; `cities` has the city
    of each depot."""
    names, of_depot = np.unique(np.asarray(cities, object).astype(str), return_inverse=True)
    rows = []
    for way, crew in ways.items():
        billed = rosters.billed(crew, fold)
        known = billed.known[:, 0]

        def by_city(values: Doubles, known: Bools = known) -> Doubles:
            sums: Doubles = np.bincount(of_depot[known], values[known], len(names)).astype(float)
            return sums

        sums = [
            by_city(billed.cost[:, 0]),
            by_city(billed.short[:, 0]),
            by_city(billed.idle[:, 0]),
            by_city(crew.sum(axis=0)[:, 0].astype(float)),
            by_city(np.ones(len(known))),
        ]
        for city, (cost, short, idle, drivers, depots) in zip(names.tolist(), np.transpose(sums).tolist(), strict=True):
            if depots:
                rows.append(WayCost(day, city, way, cost, int(short), int(idle), int(drivers), int(depots)))
    return tuple(rows)
