"""Forecast accuracy in hindsight: stored sums by week and segment, and their WAPE, bias and
coverage.

A tally belongs to one model (ours, the seasonal naive, or the system declared in the section
`legacy`), one week of target days and one segment of the depot-days: all, or those of a horizon
(days ahead), a city, a weekday, a depot or a tier (who forecast). The ledger stores sums instead of
rates, so that weeks can be added up.
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
WEEKS = 26  # kept weeks


@dataclass(frozen=True)
class Tally:
    """Sums over `days` depot-days with known actuals; actuals and forecasts are in orders."""

    week: date  # its Monday
    model: str
    part: str
    label: str
    days: int
    actual: float  # orders
    error: float  # forecast minus actual; positive means over-forecast
    absolute: float  # sum of the depot-days' absolute errors
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
    """Sum of several tallies, labeled as the first; None if there are none."""
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
    """Monday of a day's week."""
    return day - timedelta(days=day.weekday())


def newest_week(connection: sa.Connection, pipeline: str) -> date | None:
    """The newest week with results."""
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
    """Replace the tallies of these weeks.

    Tallies of single depots are kept for the newest weeks only: all earlier ones are deleted, and
    so are weeks older than `WEEKS`.
    """
    table, days = tables.hindsight, sorted(weeks)
    if not days:
        return
    old = sa.or_(table.c.week.in_(days), table.c.week <= days[-1] - timedelta(weeks=WEEKS), table.c.part == DEPOT)
    connection.execute(table.delete().where(table.c.pipeline == pipeline, old))
    if tallies:
        connection.execute(table.insert(), [{"pipeline": pipeline, **asdict(tally)} for tally in tallies])


def all_tallies(connection: sa.Connection, pipeline: str) -> tuple[Tally, ...]:
    """All tallies of a pipeline, oldest week first."""
    table = tables.hindsight
    columns = [column for column in table.c if column.name != "pipeline"]
    query = sa.select(*columns).where(table.c.pipeline == pipeline)
    rows = connection.execute(query.order_by(table.c.week, table.c.label)).mappings()
    return tuple(Tally(**row) for row in rows)
