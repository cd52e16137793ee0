"""Apply overrides to a forecast: a planner's number moves all quantiles of a day.

A planner's number replaces the median. The distances of the other quantiles from it are scaled in
proportion, since a day twice as large is about twice as uncertain in orders. A median below one
order is scaled as if it were one: otherwise a few more orders would be a huge multiple of a
fraction. Rosters and totals are then computed from these quantiles as from any others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Forecast
from forecaster.planning.overrides import Cell, Override


def move_quantiles(quantiles: Floats, levels: Sequence[float], orders: float) -> Floats:
    """Move quantiles (…, quantile levels) to a planner's number, which becomes the median.

    orders + (quantile - median) · orders / max(median, 1), at least 0. A day with no orders has no
    range.
    """
    middle = levels.index(0.5)
    median = quantiles[..., [middle]].astype(float)
    scaled = np.maximum(orders + (quantiles - median) * (orders / np.maximum(median, 1)), 0)
    scaled[..., middle] = orders
    moved: Floats = scaled.astype(np.float32)
    return moved


def locate_overrides(
    forecast: Forecast, active: Mapping[Cell, Override], may_open: Callable[[Cell], bool] = lambda cell: False
) -> dict[tuple[int, int], Override]:
    """Overrides in force on open days of a forecast, by the positions of depot and day.

    A closed day stays closed, unless it `may_open`.
    """
    rows = {depot: row for row, depot in enumerate(forecast.depot_ids)}
    steps = {day: step for step, day in enumerate(forecast.target_dates)}
    located = {}
    for cell, override in active.items():
        row, step = rows.get(cell[0], -1), steps.get(cell[1], -1)
        if min(row, step) >= 0 and (forecast.open[row, step] or may_open(cell)):
            located[row, step] = override
    return located


def apply_overrides(forecast: Forecast, overrides: Mapping[tuple[int, int], Override]) -> Forecast:
    """Return the forecast with the planners' numbers."""
    return with_orders(forecast, {cell: override.orders for cell, override in overrides.items()})


def with_orders(forecast: Forecast, numbers: Mapping[tuple[int, int], int]) -> Forecast:
    """Return the forecast with other numbers of orders, by the positions of depot and day.

    A closed day becomes open; its quantiles are scaled from the average of the depot's open days.
    """
    quantiles, open_ = forecast.quantiles.copy(), forecast.open.copy()
    for (row, step), orders in numbers.items():
        around = quantiles[row, step]
        if not forecast.open[row, step] and forecast.open[row].any():
            around = forecast.quantiles[row, forecast.open[row]].mean(axis=0)
        quantiles[row, step], open_[row, step] = move_quantiles(around, forecast.levels, orders), True
    return replace(forecast, quantiles=quantiles, open=open_)
