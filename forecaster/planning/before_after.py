"""Days of a what-if before and after, from the forecasts and rosters of its depots."""

from __future__ import annotations

import numpy as np

from forecaster.core.forecast import Forecast
from forecaster.planning.scenario import MovedVans, Side, SupposedDay
from forecaster.staffing.newsvendor import Roster


def side(forecast: Forecast, roster: Roster | None, row: int, step: int) -> Side:
    """Numbers of a depot's day; `roster` covers this day alone."""
    low, orders, high = (float(forecast.quantiles[row, step, forecast.levels.index(q)]) for q in (0.1, 0.5, 0.9))
    opened = bool(forecast.open[row, step])
    if roster is None:
        return Side(opened, low, orders, high, None, None, None, None)
    vans = None if roster.vans is None else int(roster.vans[row, 0])
    drivers, costs = int(roster.drivers[row, 0]), roster.expected_cost
    return Side(opened, low, orders, high, drivers, vans, float(costs[row, 0]), float(costs.sum()))


def supposed_day(
    before: Forecast,
    after: Forecast,
    rosters_of_day: tuple[Roster | None, Roster | None],
    rows: list[int],
    step: int,
) -> SupposedDay:
    """One day of the question, its depots taken together."""
    orders = [float(forecast.median[rows, step].sum()) for forecast in (before, after)]
    drivers = [None if roster is None else int(roster.drivers[rows, 0].sum()) for roster in rosters_of_day]
    costs = [None if roster is None else float(roster.expected_cost.sum()) for roster in rosters_of_day]
    return SupposedDay(before.target_dates[step], orders[0], orders[1], drivers[0], drivers[1], costs[0], costs[1])


def moved_vans(
    forecast: Forecast, rosters_of_day: tuple[Roster | None, Roster | None], step: int
) -> tuple[MovedVans, ...]:
    """The depots whose vans differ between the two rosters of a day."""
    vans = [roster.vans for roster in rosters_of_day if roster is not None and roster.vans is not None]
    if len(vans) < 2:
        return ()
    moved = np.flatnonzero(vans[0][:, 0] != vans[1][:, 0]).tolist()
    day = forecast.target_dates[step]
    return tuple(MovedVans(day, forecast.depot_ids[row], int(vans[0][row, 0]), int(vans[1][row, 0])) for row in moved)
