"""Attending drivers: the published crews less the drivers for whom the plan of the week has nobody."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Ints
from forecaster.core.forecast import Forecast
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.week_plan import WeekPlan
from forecaster.plugins import plugin
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.shift_values import ShiftRoster


def with_attendance(
    depots: tuple[PublishedDepot, ...],
    plans: Iterable[WeekPlan],
    roster: Roster | None,
    forecast: Forecast,
    staffing: Staffing | None,
) -> tuple[PublishedDepot, ...]:
    """Return the depots with the attending drivers of these plans, and the resulting chance of a
    shortage and cost.

    `roster` has the crews that the plans are for, `forecast` the order of its depots and days.
    """
    if staffing is None or not isinstance(roster, ShiftRoster):
        return depots
    planned, crews = {plan.depot_id for plan in plans}, roster.crews.copy()
    rows = {depot_id: row for row, depot_id in enumerate(forecast.depot_ids)}
    steps = {day: step for step, day in enumerate(forecast.target_dates)}
    for plan in plans:
        for cover in plan.shifts:
            crews[roster.names.index(cover.shift), rows[plan.depot_id], steps[cover.date]] = cover.planned
    coming = plugin("shifts").with_crews(crews, roster.desired, roster.vans, roster.needs, forecast.open, staffing)
    missing = np.maximum(roster.crews - crews, 0)

    def attended(depot: PublishedDepot) -> PublishedDepot:
        if depot.depot_id not in planned:
            return depot
        places = ((rows[depot.depot_id], step) for step in range(len(depot.days)))
        attended_day = partial(_attended, coming=coming, names=roster.names, crews=crews, missing=missing)
        days = map(attended_day, depot.days, places)
        return replace(depot, days=tuple(days))

    return tuple(map(attended, depots))


def _attended(
    day: PublishedDay, at: tuple[int, int], coming: Roster, names: tuple[str, ...], crews: Ints, missing: Ints
) -> PublishedDay:
    by_shift = _by_shift(names, crews[:, *at])
    if day.roster is None or (day.roster.shifts == by_shift and not (missing[:, *at].any() or day.roster.missing)):
        return day
    more, fewer = float(coming.one_more[at]), float(coming.one_fewer[at])
    plan = replace(
        day.roster,
        chance_short=float(coming.chance_short[at]),
        cost=float(coming.expected_cost[at]),
        one_more=None if math.isnan(more) else more,
        one_fewer=None if math.isnan(fewer) else fewer,
        shifts=by_shift,
        missing=_by_shift(names, missing[:, *at]) if missing[:, *at].any() else (),
    )
    return replace(day, drivers=int(coming.drivers[at]), roster=plan)


def _by_shift(names: tuple[str, ...], counts: Ints) -> tuple[tuple[str, int], ...]:
    return tuple(zip(names, counts.tolist(), strict=True))
