"""Forecast accuracy in hindsight: sums by week and segment that the ledger keeps, and WAPE, bias
and coverage of them.

A tally is of one model (ours, the seasonal naive, or the system that the section `legacy`
declares), one week of target days and one part of the depot-days: all of them, those of a horizon
(days ahead), of a city, of a weekday, of a depot, of a tier (who forecast). Sums are kept and not
rates, so that weeks can be put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta

import sqlalchemy as sa

from forecaster.ledger import tables

FORECAST, NAIVE, LEGACY = "forecast", "seasonal naive", "legacy"
MODELS = (FORECAST, NAIVE, LEGACY)
ALL, HORIZON, CITY, WEEKDAY, DEPOT, TIER = "all", "horizon", "city", "weekday", "depot", "tier"
WEEKS = 26  # that are kept


@dataclass(frozen=True)
class Tally:
    """Sums over `days` depot-days whose count is known; what came and what was forecast are in
    orders."""

    week: date  # its Monday
    model: str
    part: str
    label: str
    days: int
    actual: float  # orders that came
    error: float  # forecast minus actual: above zero = too much was forecast
    absolute: float  # of each depot-day's error
    covered: int | None  # depot-days inside the 80 % range; None = this model gives no range

    @property
    def wape(self) -> float | None:
        return self.absolute / self.actual if self.actual > 0 else None

    @property
    def bias(self) -> float | None:
        return self.error / self.actual if self.actual > 0 else None

    @property
    def coverage(self) -> float | None:
        return None if self.covered is None or not self.days else self.covered / self.days


def combined(tallies: Sequence[Tally]) -> Tally | None:
    """Several as one, named as the first; None of nothing."""
    if not tallies:
        return None
    first = tallies[0]
    return Tally(
        first.week,
        first.model,
        first.part,
        first.label,
        sum(tally.days for tally in tallies),
        sum(tally.actual for tally in tallies),
        sum(tally.error for tally in tallies),
        sum(tally.absolute for tally in tallies),
        None if any(tally.covered is None for tally in tallies) else sum(tally.covered or 0 for tally in tallies),
    )


def monday(day: date) -> date:
    """The first day of its week."""
    return day - timedelta(days=day.weekday())


def newest_week(connection: sa.Connection, pipeline: str) -> date | None:
    """The last week that is told of."""
    table = tables.hindsight.c
    week: date | None = connection.execute(
        sa.select(sa.func.max(table.week, type_=sa.Date)).where(table.pipeline == pipeline)
    ).scalar()
    return week


def has_model(connection: sa.Connection, pipeline: str, model: str) -> bool:
    """True if a model has results."""
    table = tables.hindsight.c
    query = sa.select(table.week).where(table.pipeline == pipeline, table.model == model).limit(1)
    return connection.execute(query).first() is not None


def replace_weeks(connection: sa.Connection, pipeline: str, weeks: Iterable[date], tallies: Sequence[Tally]) -> None:
    """Write these weeks anew. Depots are told of the newest time only, and weeks long past are
    forgotten."""
    table, days = tables.hindsight, sorted(weeks)
    if not days:
        return
    old = sa.or_(table.c.week.in_(days), table.c.week <= days[-1] - timedelta(weeks=WEEKS), table.c.part == DEPOT)
    connection.execute(table.delete().where(table.c.pipeline == pipeline, old))
    if tallies:
        connection.execute(table.insert(), [{"pipeline": pipeline, **asdict(tally)} for tally in tallies])


def all_tallies(connection: sa.Connection, pipeline: str) -> tuple[Tally, ...]:
    """Everything that is told of a pipeline, the oldest week first."""
    table = tables.hindsight
    columns = [column for column in table.c if column.name != "pipeline"]
    query = sa.select(*columns).where(table.c.pipeline == pipeline)
    rows = connection.execute(query.order_by(table.c.week, table.c.label)).mappings()
    return tuple(Tally(**row) for row in rows)
