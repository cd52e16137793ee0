"""Forecast ─► whom to roster: the number of drivers at which one more would cost more than it saves.

The newsvendor model (Arrow, Harris & Marschak 1951; Porteus, Foundations of Stochastic Inventory Theory, ch. 1): with
a cost for each driver too few and one for each driver too many, the cheapest crew is the smallest that suffices with
probability cost_short / (cost_short + cost_idle).
"""

from __future__ import annotations

import numpy as np

from forecaster.spec import Staffing
from forecaster.values import Forecast, Ints


def drivers(forecast: Forecast, staffing: Staffing) -> Ints:
    """Drivers for each depot and day, (depots, horizon); none on closed days, at least one on open ones.

    The quantile at the critical ratio is read off the forecast's levels by straight lines between them; a ratio beyond
    the outermost level takes that level.
    """
    ratio = staffing.cost_short / (staffing.cost_short + staffing.cost_idle)
    levels = np.asarray(forecast.levels)
    right = int(np.clip(np.searchsorted(levels, ratio), 1, len(levels) - 1))
    share = float(np.clip((ratio - levels[right - 1]) / (levels[right] - levels[right - 1]), 0.0, 1.0))
    orders = forecast.quantiles[:, :, right - 1] * (1 - share) + forecast.quantiles[:, :, right] * share
    crew = np.ceil(np.round(orders / staffing.orders_per_driver, 6))
    return np.where(forecast.open, np.maximum(crew, 1), 0).astype(np.int32)
