"""Apply overrides to a forecast: a planner's number moves all quantiles of a day.

A planner's number takes the place of the median. The other quantiles are scaled with it, since a day twice as large is
about twice as uncertain in orders; where the model expects less than one order, there is no share to scale, and they
are shifted. Rosters and totals are then computed from these quantiles as from any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Forecast
from forecaster.planning.overrides import Cell, Override


def move_quantiles(quantiles: Floats, levels: Sequence[float], orders: float) -> Floats:
    """Quantiles (…, levels) around a planner's number, which becomes the median."""
    middle = levels.index(0.5)
    median = quantiles[..., [middle]].astype(float)
    scaled = np.where(
        median < 1, np.maximum(quantiles - median + orders, 0), quantiles / np.maximum(median, 1) * orders
    )
    scaled[..., middle] = orders
    moved: Floats = scaled.astype(np.float32)
    return moved


def locate_overrides(forecast: Forecast, active: Mapping[Cell, Override]) -> dict[tuple[int, int], Override]:
    """The overrides that hold on open days of a forecast, by the positions of depot and day; a closed day stays
    closed."""
    rows = {depot: row for row, depot in enumerate(forecast.depot_ids)}
    steps = {day: step for step, day in enumerate(forecast.target_dates)}
    cells = {(rows.get(depot, -1), steps.get(day, -1)): override for (depot, day), override in active.items()}
    return {(row, step): o for (row, step), o in cells.items() if min(row, step) >= 0 and forecast.open[row, step]}


def apply_overrides(forecast: Forecast, overrides: Mapping[tuple[int, int], Override]) -> Forecast:
    """The forecast with the planners' numbers in it."""
    quantiles = forecast.quantiles.copy()
    for (row, step), override in overrides.items():
        quantiles[row, step] = move_quantiles(quantiles[row, step], forecast.levels, override.orders)
    return replace(forecast, quantiles=quantiles)
