"""Content of a publication: each depot's days, roster and recent past, and the totals of the
network and of groups of depots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from forecaster.serving.totals import Group
from forecaster.staffing import rosters
from forecaster.staffing.changes import PublishedCrews
from forecaster.staffing.shift_values import ShiftShares

Cell = tuple[int, int]  # positions of depot and day
RECENT_DAYS = 60  # days of actuals in a publication


def published_totals(quantiles: Mapping[Group, Doubles], days: Sequence[date]) -> tuple[PublishedTotal, ...]:
    """Totals of each group by day and week, from quantiles (days, then weeks; quantile levels)."""
    weeks = days[:: totals.SEASON][: len(days) // totals.SEASON]
    spans = [*((day, 1) for day in days), *((day, totals.SEASON) for day in weeks)]
    return tuple(
        PublishedTotal(name, first, tuple(of_span), level, length)
        for (level, name), of_group in quantiles.items()
        for (first, length), of_span in zip(spans, of_group.tolist(), strict=True)
    )


def with_weeks(depots: Iterable[PublishedDepot], panel: Panel, weeks: Doubles) -> tuple[PublishedDepot, ...]:
    """Return the depots with quantiles of their weeks; `weeks` is (depots of the panel, weeks,
    quantile levels)."""
    rows = {depot_id: row for row, depot_id in enumerate(panel.depot_ids)}
    return tuple(replace(depot, weeks=weeks[rows[depot.depot_id]].tolist()) for depot in depots)


def depot_timezones(knowledge: Knowledge) -> dict[str, str]:
    """Time zones of depots with one of their own."""
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
    """Yield the published depots, from a forecast with the planners' numbers, and the model's
    `result` without them.

    A depot that closed before its recent days began is left out. Of `crews` already published,
    those stay whose change is not worth its cost `now`. `shares` of shifts are the learned ones.
    """
    panel, timezones = result.panel, depot_timezones(knowledge)
    roster = rosters.plan(forecast, panel, spec, crews, shares)
    roster_at = rosters.published_rosters(roster, forecast, crews, now) if roster else {}
    first, comparison = max(panel.history - RECENT_DAYS, 0), result.beside
    names = (*spec.depots.static, *spec.depots.levels) if spec.depots else ()
    for row, depot_id in enumerate(panel.depot_ids):
        if not panel.open[row, first:].any():
            continue  # permanently closed
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
        attributes = {name: panel.attributes[name][row] for name in names}
        tier: Tier | None = "fallback" if depot_id in result.strangers else None
        canary = comparison.canary.digest if comparison and depot_id in comparison.cohort else None
        yield PublishedDepot(
            depot_id, days, _recent_days(panel, row, first), attributes, marks, timezones.get(depot_id), tier, canary
        )


def _recent_days(panel: Panel, row: int, first: int) -> tuple[RecentDay, ...]:
    """Days of a depot from the position `first` up to the cutoff."""
    days: list[date] = panel.days[first : panel.history].astype(object).tolist()
    demand, served, is_open = (x[row, first : panel.history].tolist() for x in (panel.demand, panel.served, panel.open))
    is_capped = panel.is_capped[row, first:].tolist()
    counts = (count if capped else None for count, capped in zip(served, is_capped, strict=True))
    return tuple(map(RecentDay, days, demand, is_open, counts))


def _published_override(override: Override | None, quantiles: Floats) -> PublishedOverride | None:
    """Published override, with the model's quantiles."""
    return override.to_published(quantiles.tolist()) if override else None
