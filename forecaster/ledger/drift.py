"""Drift in the ledger: how each day's actuals lie within their forecasts, and the current drifts.

Scores are those of `forecaster.evaluation.pit`, for the newest forecast before the day. An examined
day without any score has a row without depots, so that the archive is not searched for it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date

import sqlalchemy as sa

from forecaster.ledger import tables

ALL, CITY, DEPOT, COVARIATE = "all", "city", "depot", "covariate"
LEVEL, SPREAD, UNKNOWN, CLOSED, INPUT = "level", "spread", "unknown", "closed", "input"


@dataclass(frozen=True)
class ScoredDay:
    """The forecast depots with known actuals of a day, as aligned lists."""

    day: date
    depots: Sequence[str]
    scores: Sequence[float]
    actual: Sequence[float]
    median: Sequence[float]


@dataclass(frozen=True)
class Drift:
    """A deviation from the past. `direction` is 1 above (ranges too narrow, a share too large), −1
    below, and 0 for a covariate that stands still."""

    part: str
    label: str  # depot, city or covariate; empty: the network
    kind: str
    direction: int
    # estimated first day; without a beginning, that of the first run that reported it
    since: date
    through: date  # last examined day
    # of `level`, actuals over forecasts, 1 = as before; otherwise a share, or a covariate's mean
    value: float
    usual: float | None  # the same value before; None for `level`

    @property
    def days(self) -> int:
        """Duration in days."""
        return (self.through - self.since).days + 1


def scored_days(connection: sa.Connection, pipeline: str, since: date) -> tuple[ScoredDay, ...]:
    """Examined days from `since` on, oldest first."""
    table = tables.drift_days
    query = sa.select(table.c.day, table.c.scores).where(table.c.pipeline == pipeline, table.c.day >= since)
    return tuple(ScoredDay(day, **scores) for day, scores in connection.execute(query.order_by(table.c.day)))


def newest_day(connection: sa.Connection, pipeline: str) -> date | None:
    """The last examined day."""
    table = tables.drift_days.c
    query = sa.select(sa.func.max(table.day, type_=sa.Date)).where(table.pipeline == pipeline)
    newest: date | None = connection.execute(query).scalar()
    return newest


def replace_days(connection: sa.Connection, pipeline: str, days: Sequence[ScoredDay], *, keep_from: date) -> None:
    """Replace these days, and delete those before `keep_from`."""
    table = tables.drift_days
    old = sa.or_(table.c.day.in_([day.day for day in days]), table.c.day < keep_from)
    connection.execute(table.delete().where(table.c.pipeline == pipeline, old))
    if days:
        # unlike `asdict`, does not copy each value
        lists = ("depots", "scores", "actual", "median")
        rows = [
            {"pipeline": pipeline, "day": day.day, "scores": {name: getattr(day, name) for name in lists}}
            for day in days
        ]
        connection.execute(table.insert(), rows)


def replace_drifts(connection: sa.Connection, pipeline: str, drifts: Iterable[Drift]) -> None:
    """Replace all stored drifts with those of the last run."""
    table = tables.drifts
    connection.execute(table.delete().where(table.c.pipeline == pipeline))
    if rows := [{"pipeline": pipeline, **asdict(drift)} for drift in drifts]:
        connection.execute(table.insert(), rows)


def drifts(
    connection: sa.Connection, pipeline: str, part: str | None = None, label: str | None = None
) -> tuple[Drift, ...]:
    """Drifts, optionally of one part or label; the largest deviations come first."""
    table = tables.drifts
    query = sa.select(*(column for column in table.c if column.name != "pipeline")).where(table.c.pipeline == pipeline)
    if part is not None:
        query = query.where(table.c.part == part)
    if label is not None:
        query = query.where(table.c.label == label)
    rows = (Drift(**row) for row in connection.execute(query).mappings())
    return tuple(sorted(rows, key=lambda drift: (-abs(drift.value - (drift.usual or 1.0)), drift.label)))
