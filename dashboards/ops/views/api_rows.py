"""API schema of list views: each row is the same in JSON and CSV."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from dashboards.ops.reading.editions import Edition, Logbook
from dashboards.ops.reading.header import median_and_range
from dashboards.ops.views import roster_text
from dashboards.ops.views.api_schema import AboutOut, LevelOut, TotalOut, about, levels_out, totals_out
from forecaster.ledger.publication import LearnedShares, PublishedDay, PublishedDepot


@dataclass(frozen=True)
class DepotDayRow:
    """Forecast of a depot and day: the median and the ends of the 80 % interval, in orders."""

    depot_id: str
    city: str | None
    target_date: date
    open: bool
    low: float
    median: float
    high: float
    drivers: int | None


@dataclass(frozen=True)
class DepotsOut:
    about: AboutOut
    rows: list[DepotDayRow]


@dataclass(frozen=True)
class NetworkOut:
    """The day in front: tomorrow if it is forecast."""

    about: AboutOut
    target_date: date
    rows: list[DepotDayRow]


@dataclass(frozen=True)
class TotalsOut:
    about: AboutOut
    rows: list[TotalOut]


@dataclass(frozen=True)
class LevelsOut:
    about: AboutOut
    rows: list[LevelOut]


@dataclass(frozen=True)
class RosterRow:
    """Roster of a depot and day; costs are in the unit of `staffing`, and loans are of vans.

    `drivers` are those available; `wanted` is their number if there were vans and people for all;
    `why` explains the difference, or why the crew differs from a new plan. `shifts` has the crew of
    each shift; `shares` has each shift's share of the day's orders, learned from `share_days` days
    of the `depot` or the `network` (`share_source`), or else by their `hours`, without any days.
    """

    depot_id: str
    city: str | None
    target_date: date
    open: bool
    drivers: int | None
    vans: int | None
    chance_short: float | None
    cost: float | None
    one_more: float | None
    one_fewer: float | None
    borrowed: list[tuple[str, int]]
    lent: list[tuple[str, int]]
    wanted: int | None
    why: str
    shifts: list[tuple[str, int]]
    shares: list[tuple[str, float]]
    share_source: Literal["depot", "network", "hours"] | None
    share_days: int | None
    share_weekdays: int | None


@dataclass(frozen=True)
class RostersOut:
    about: AboutOut
    rows: list[RosterRow]


@dataclass(frozen=True)
class PublicationRow:
    publication_id: int
    run_id: str
    published_at: datetime
    as_of: datetime
    cutoff: date
    tier: str
    model: str
    shown: bool


@dataclass(frozen=True)
class PublicationsOut:
    """Every retained publication, newest first."""

    rows: list[PublicationRow]


@dataclass(frozen=True)
class ChampionRow:
    at: datetime
    bundle_digest: str
    model_version: str | None
    previous_digest: str | None
    run_id: str
    by: str
    reason: str


@dataclass(frozen=True)
class ChampionsOut:
    """Champions, newest first."""

    rows: list[ChampionRow]


@dataclass(frozen=True)
class AccuracyRow:
    """Sums over the `days` depot-days of a week with known actuals, in orders; `error` is forecast
    minus actual, `covered` the number inside the 80 % range. `part` is all, horizon, city, weekday,
    tier or depot, and `label` names it."""

    week: date  # its Monday
    model: str
    part: str
    label: str
    days: int
    actual: float
    error: float
    absolute: float
    covered: int | None
    wape: float | None
    bias: float | None
    coverage: float | None


@dataclass(frozen=True)
class AccuracyOut:
    """Accuracy of earlier forecasts, oldest week first. Readers of some cities get only those."""

    rows: list[AccuracyRow]


def depots(edition: Edition) -> DepotsOut:
    return DepotsOut(about(edition.head, edition.front), _days(edition))


def network(edition: Edition) -> NetworkOut:
    day = edition.front.target_dates[edition.front.meant]
    rows = [row for row in _days(edition) if row.target_date == day]
    return NetworkOut(about(edition.head, edition.front), day, rows)


def totals(edition: Edition) -> TotalsOut:
    rows = totals_out(edition.head, edition.depots(), edition.front, edition.totals())
    return TotalsOut(about(edition.head, edition.front), rows)


def levels(edition: Edition) -> LevelsOut:
    rows = levels_out(edition.head, edition.outline(), edition.totals())
    return LevelsOut(about(edition.head, edition.front), rows)


def rosters(edition: Edition) -> RostersOut:
    rows = [_roster_row(depot, day) for depot in edition.depots() for day in depot.days]
    return RostersOut(about(edition.head, edition.front), rows)


def _roster_row(depot: PublishedDepot, day: PublishedDay) -> RosterRow:
    place = depot.depot_id, depot.attributes.get("city"), day.target_date, day.open, day.drivers
    plan, reason = day.roster, roster_text.why(day)
    if plan is None:
        return RosterRow(*place, None, None, None, None, None, [], [], None, reason, [], *_shares(None))
    return RosterRow(
        *place,
        plan.vans,
        plan.chance_short,
        plan.cost,
        plan.one_more,
        plan.one_fewer,
        list(plan.borrowed),
        list(plan.lent),
        plan.wanted,
        reason,
        list(plan.shifts),
        *_shares(plan.shares),
    )


def _shares(
    learned: LearnedShares | None,
) -> tuple[list[tuple[str, float]], Literal["depot", "network", "hours"] | None, int | None, int | None]:
    if learned is None:
        return [], None, None, None
    return list(learned.shares), learned.source, learned.days, learned.weekdays


def publications(book: Logbook) -> PublicationsOut:
    if book.head is None:
        return PublicationsOut([])
    current_id = book.head.publication_id
    names = [name for name in PublicationRow.__dataclass_fields__ if name != "shown"]
    return PublicationsOut(
        [
            PublicationRow(**{name: getattr(head, name) for name in names}, shown=head.publication_id == current_id)
            for head in book.ledger.publications(book.head.pipeline)
        ]
    )


def champions(book: Logbook) -> ChampionsOut:
    names = tuple(ChampionRow.__dataclass_fields__)
    promotions = book.promotions()[::-1] if book.head else ()
    return ChampionsOut([ChampionRow(**{name: getattr(promotion, name) for name in names}) for promotion in promotions])


def accuracy(book: Logbook) -> AccuracyOut:
    names = tuple(AccuracyRow.__dataclass_fields__)
    return AccuracyOut([AccuracyRow(**{name: getattr(tally, name) for name in names}) for tally in book.tallies()])


def _days(edition: Edition) -> list[DepotDayRow]:
    rows = []
    for depot in edition.depots():
        for day in depot.days:
            forecast = median_and_range(day, edition.head.levels)
            city = depot.attributes.get("city")
            rows.append(
                DepotDayRow(
                    depot.depot_id,
                    city,
                    day.target_date,
                    day.open,
                    forecast.low,
                    forecast.median,
                    forecast.high,
                    day.drivers,
                )
            )
    return rows
