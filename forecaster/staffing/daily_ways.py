"""What each way to roster made of one day: the crews of ours, of its rivals and of ten more vans, and what they cost.

The rivals are those of `cost_backtest`, which has the arithmetic. All keep to the same limits and vans, and are billed
on the same depots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from forecaster.config import Staffing
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
from forecaster.staffing import newsvendor
from forecaster.staffing.cost_backtest import (
    BUFFERS,
    costs_paid,
    drivers_needed,
    missing_drivers,
    same_as_last_week,
    with_buffer,
    within_limits,
)
from forecaster.staffing.vans import VanPool

PLAIN_MEDIAN = BUFFERS.index((0.0, 0.0))  # where no day before tells of a better one


def crews(
    fold: Fold,
    published: Ints,
    before: Doubles,
    buffer: tuple[float, float],
    costs: Staffing,
    fleet: VanPool | None,
) -> dict[str, Ints]:
    """Way to roster → crews (depots, 1) of a fold of one day, which the model alone forecast.

    `published` are the crews that went out, planners' numbers included; `before` are orders (depots, days) up to the
    cutoff, NaN where closed or not known.
    """
    ahead = (fold.forecast.target_dates[0] - fold.forecast.cutoff).days
    last_week = same_as_last_week(before, ahead, costs)[:, -1:]
    needed = np.nan_to_num(drivers_needed(fold.actuals, costs))
    model = newsvendor.roster(fold.forecast, costs, fleet).drivers
    ways = {
        PUBLISHED: published,
        MODEL: model,
        LAST_WEEK: within_limits(last_week, fold, costs, fleet),
        BUFFER: within_limits(with_buffer(fold, buffer, costs), fold, costs, fleet),
        FORESIGHT: within_limits(needed, fold, costs, fleet),
    }
    if fleet is not None:
        larger = replace(fleet, total=fleet.total + VANS_MORE)
        ways[MORE_VANS] = newsvendor.roster(fold.forecast, costs, larger).drivers
    return ways


def buffer_costs(fold: Fold, costs: Staffing, fleet: VanPool | None) -> tuple[float, ...]:
    """What each buffer would have cost on this day, by which those of later days are chosen."""
    return tuple(
        float(np.nansum(costs_paid(within_limits(with_buffer(fold, buffer, costs), fold, costs, fleet), fold, costs)))
        for buffer in BUFFERS
    )


def best_buffer(costs_before: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The buffer that was cheapest on all days before; the plain median where there is none."""
    known = [day for day in costs_before if len(day) == len(BUFFERS)]
    return BUFFERS[int(np.sum(known, axis=0).argmin())] if known else BUFFERS[PLAIN_MEDIAN]


def bills(
    ways: Mapping[str, Ints], fold: Fold, cities: Sequence[str], costs: Staffing, day: date
) -> tuple[WayCost, ...]:
    """What each way cost each city, of the depots whose count is known; `cities` has the city of each depot."""
    names, of_depot = np.unique(np.asarray(cities, object).astype(str), return_inverse=True)
    rows = []
    for way, crew in ways.items():
        missing, paid = missing_drivers(crew, fold, costs)[:, 0], costs_paid(crew, fold, costs)[:, 0]
        known = np.isfinite(missing)

        def by_city(values: Doubles, known: Bools = known) -> Doubles:
            sums: Doubles = np.bincount(of_depot[known], values[known], len(names)).astype(float)
            return sums

        sums = [
            by_city(paid),
            by_city(np.maximum(missing, 0)),
            by_city(np.maximum(-missing, 0)),
            by_city(crew[:, 0].astype(float)),
            by_city(np.ones(len(missing))),
        ]
        for city, (cost, short, idle, drivers, depots) in zip(names.tolist(), np.transpose(sums).tolist(), strict=True):
            if depots:
                rows.append(WayCost(day, city, way, cost, int(short), int(idle), int(drivers), int(depots)))
    return tuple(rows)
