"""Share of a day's demand that had arrived when a depot sold out, from the half hours of days that
did not sell out."""

from __future__ import annotations

from typing import Any

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.demand.half_hours.clock import HALF_HOURS
from forecaster.demand.panel.grid import Grid

LEAST_SHARE = 0.2  # minimum share of a day's demand before it sold out; below it the rest cannot be estimated
OF_ALL = 10.0  # a depot's own days at which its profile and that of all depots have equal weight
WEEK = 7


def share_by_then(half_hours: Any, sold_out_at: Floats, grid: Grid, day_starts: int = 0) -> Doubles:
    """Share of a day's demand that arrives before the hour at which it sold out, (depots, days of
    the history); NaN if nothing sold out, or the share is too small to estimate the rest.

    `half_hours` are the known profiles (depot_id, day, orders), `sold_out_at` hours since midnight
    (depots, days), `day_starts` the half hour at which a day begins. A depot's profile of a weekday
    is mixed with that of all depots.
    """
    row, column = grid.rows(half_hours["depot_id"]), half_hours["day"].to_numpy() - grid.numbers[0]
    inside = (row >= 0) & (column >= 0) & (column < grid.history)
    row, column = row[inside], column[inside]
    orders = np.stack(half_hours["orders"].to_numpy()[inside]) if inside.any() else np.zeros((0, HALF_HOURS))
    is_full_day = np.isnan(sold_out_at[row, column]) & (orders.sum(axis=1) > 0)
    row, column, orders = row[is_full_day], column[is_full_day], orders[is_full_day]
    shares = np.zeros((len(sold_out_at), WEEK, HALF_HOURS))
    days = np.zeros((len(sold_out_at), WEEK, 1))
    np.add.at(shares, (row, column % WEEK), np.roll(orders, -day_starts, axis=1) / orders.sum(axis=1, keepdims=True))
    np.add.at(days, (row, column % WEEK), 1.0)
    of_all = shares.sum(axis=0) / np.maximum(days.sum(axis=0), 1.0)
    profile = (shares + OF_ALL * of_all) / (days + OF_ALL)
    until = np.concatenate([np.zeros((*profile.shape[:2], 1)), np.cumsum(profile, axis=2)], axis=2)
    depot, day = np.nonzero(np.isfinite(sold_out_at))
    # hours since the day began, in half hours; the share is interpolated linearly within one
    place = np.clip((2 * sold_out_at[depot, day].astype(np.float64) - day_starts) % HALF_HOURS, 0, HALF_HOURS)
    lower = np.minimum(place.astype(np.intp), HALF_HOURS - 1)
    of_day = until[depot, day % WEEK]
    rows = np.arange(len(depot))
    share = of_day[rows, lower] + (place - lower) * (of_day[rows, lower + 1] - of_day[rows, lower])
    result = np.full(sold_out_at.shape, np.nan)
    result[depot, day] = np.where(share >= LEAST_SHARE, np.minimum(share, 1.0), np.nan)
    return result
