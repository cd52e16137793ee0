"""Content of a publication: each depot's days, roster and recent past, and the totals of cities and
the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType

from forecaster.config import Spec
from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.ledger.publication import (
    PublishedChange,
    PublishedDay,
    PublishedDepot,
    PublishedMark,
    PublishedOverride,
    PublishedTotal,
    RecentDay,
    Tier,
)
from forecaster.planning.overrides import Override
from forecaster.publishing.forecast import ForecastResult
from forecaster.serving import totals
from forecaster.staffing import rosters
from forecaster.staffing.changes import PublishedCrews
from forecaster.staffing.shift_values import ShiftShares

Cell = tuple[int, int]  # positions of a depot and a day
RECENT_DAYS = 60  # days of actuals that a publication carries


def published_totals(forecast: Forecast, panel: Panel) -> tuple[PublishedTotal, ...]:
    """Quantiles of the orders of each city, and of the network under an empty name, day by day."""
    return totals_by_day(totals.group_totals(forecast, panel), forecast.target_dates)


def totals_by_day(quantiles: Mapping[str, Doubles], days: Sequence[date]) -> tuple[PublishedTotal, ...]:
    """Quantiles (horizon, levels) of each city, and of the network under an empty name, day by
    day."""
    return tuple(
        PublishedTotal(city, day, tuple(of_day))
        for city, of_city in sorted(quantiles.items())
        for day, of_day in zip(days, of_city.tolist(), strict=True)
    )


def depot_timezones(knowledge: Knowledge) -> dict[str, str]:
    """The time zones of depots that have one of their own."""
    depots = knowledge.depots
    if "timezone" not in depots:
        return {}
    declared = depots[depots["timezone"].notna()]
    return dict(zip(declared["depot_id"], declared["timezone"], strict=True))


def published_depots(
    forecast: Forecast,
    result: ForecastResult,
    spec: Spec,
    knowledge: Knowledge,
    overrides: Mapping[Cell, Override] = MappingProxyType({}),
    changes: Mapping[Cell, PublishedChange] = MappingProxyType({}),
    crews: PublishedCrews | None = None,
    now: datetime | None = None,
    shares: ShiftShares | None = None,
) -> Iterator[PublishedDepot]:
    """Each depot's days, of a forecast with the planners' numbers in it and of what the model
    `result` without them.

    A depot that closed before its recent days began is left out. Of `crews` that are
    published already those stay whose change is not worth what it costs `now`. `shares` of shifts
    are those that are learned.
    """
    panel, timezones = result.panel, depot_timezones(knowledge)
    roster = rosters.plan(forecast, panel, spec, crews, shares)
    roster_at = rosters.published_rosters(roster, forecast, crews, now) if roster else {}
    first, beside = max(panel.history - RECENT_DAYS, 0), result.beside
    for row, depot_id in enumerate(panel.depot_ids):
        if not panel.open[row, first:].any():
            continue  # closed for good
        days = tuple(
            PublishedDay(
                target_date=day,
                horizon=step + 1,
                open=bool(forecast.open[row, step]),
                quantiles=tuple(float(q) for q in forecast.quantiles[row, step]),
                drivers=int(roster.drivers[row, step]) if roster else None,
                roster=roster_at.get((row, step)),
                override=_published_override(overrides.get((row, step)), result.forecast.quantiles[row, step]),
                change=changes.get((row, step)),
            )
            for step, day in enumerate(forecast.target_dates)
        )
        marks = tuple(PublishedMark(mark.date, mark.kind, mark.name) for mark in panel.marks.of(row))
        attributes = {name: panel.attributes[name][row] for name in spec.depots.static} if spec.depots else {}
        tier: Tier | None = "fallback" if depot_id in result.strangers else None
        canary = beside.canary.digest if beside and depot_id in beside.cohort else None
        yield PublishedDepot(
            depot_id, days, _recent_days(panel, row, first), attributes, marks, timezones.get(depot_id), tier, canary
        )


def _recent_days(panel: Panel, row: int, first: int) -> tuple[RecentDay, ...]:
    """A depot's days from the position `first` up to the cutoff."""
    days: list[date] = panel.days[first : panel.history].astype(object).tolist()
    demand, served, is_open = (x[row, first : panel.history].tolist() for x in (panel.demand, panel.served, panel.open))
    is_capped = panel.is_capped[row, first:].tolist()
    counts = (count if capped else None for count, capped in zip(served, is_capped, strict=True))
    return tuple(map(RecentDay, days, demand, is_open, counts))


def _published_override(override: Override | None, quantiles: Floats) -> PublishedOverride | None:
    """A planner's number compared with what the model said."""
    return override.to_published(quantiles.tolist()) if override else None
