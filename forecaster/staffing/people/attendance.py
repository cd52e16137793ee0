"""Drivers who come: the published crews less the drivers for whom the plan of the week has nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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
    """The depots with the drivers who come by these plans, and with the chance of a shortage and the cost of those.

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
    missing = roster.crews - crews

    def attended(day: PublishedDay, row: int, step: int) -> PublishedDay:
        if day.roster is None or not (missing[:, row, step].any() or day.roster.missing):
            return day
        more, fewer = coming.one_more[row, step], coming.one_fewer[row, step]
        plan = replace(
            day.roster,
            chance_short=float(coming.chance_short[row, step]),
            cost=float(coming.expected_cost[row, step]),
            one_more=None if more != more else float(more),
            one_fewer=None if fewer != fewer else float(fewer),
            shifts=_by_shift(roster.names, crews[:, row, step]),
            missing=_by_shift(roster.names, missing[:, row, step]) if missing[:, row, step].any() else (),
        )
        return replace(day, drivers=int(coming.drivers[row, step]), roster=plan)

    return tuple(
        replace(depot, days=tuple(attended(day, rows[depot.depot_id], step) for step, day in enumerate(depot.days)))
        if depot.depot_id in planned
        else depot
        for depot in depots
    )


def _by_shift(names: tuple[str, ...], counts: Ints) -> tuple[tuple[str, int], ...]:
    return tuple(zip(names, counts.tolist(), strict=True))
