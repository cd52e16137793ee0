"""Numbers of runs by outcome. They never fall: deleted runs stay counted.

Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median

import sqlalchemy as sa

from forecaster.ledger import tables
from forecaster.ledger.lease import WAS_KILLED

KILLED = "killed"  # an outcome only here: the run could not write another one
TIMED_RUNS = 14  # finished runs behind an expected timing
DEPLOY_WINDOW = timedelta(minutes=30)


def totals(connection: sa.Connection, pipeline: str) -> Mapping[tuple[str, str], int]:
    """(Kind, outcome) → number of finished runs of a pipeline, including deleted ones."""
    table = tables.forgotten_runs.c
    forgotten = sa.select(table.kind, table.outcome, table.runs).where(table.pipeline == pipeline)
    counts: dict[tuple[str, str], int] = {}
    for kind, outcome, runs in [*connection.execute(forgotten), *_ended(connection, pipeline)]:
        counts[kind, outcome] = counts.get((kind, outcome), 0) + runs
    return counts


def expected_timings(connection: sa.Connection, pipeline: str) -> dict[str, float]:
    """Stage → seconds: median over the last 14 finished nightly runs that had the stage."""
    runs = tables.runs.c
    query = sa.select(runs.timings).where(runs.pipeline == pipeline, runs.finished_at.is_not(None))
    query = query.where(runs.kind == "night", runs.outcome != "busy").order_by(runs.finished_at.desc())
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for timings in connection.execute(query.limit(TIMED_RUNS)).scalars():
        for stage, value in timings.items():
            seconds[stage].append(value)
    return {stage: median(values) for stage, values in seconds.items()}


def remember(connection: sa.Connection, pipeline: str, *where: sa.ColumnElement[bool]) -> None:
    """Add runs about to be deleted to the count of deleted runs."""
    table = tables.forgotten_runs
    for kind, outcome, runs in _ended(connection, pipeline, *where):
        row = (table.c.pipeline == pipeline) & (table.c.kind == kind) & (table.c.outcome == outcome)
        if connection.execute(table.update().where(row).values(runs=table.c.runs + runs)).rowcount == 0:
            connection.execute(table.insert().values(pipeline=pipeline, kind=kind, outcome=outcome, runs=runs))


def _ended(connection: sa.Connection, pipeline: str, *where: sa.ColumnElement[bool]) -> list[tuple[str, str, int]]:
    runs = tables.runs.c
    killed = sa.and_(runs.message.is_not(None), runs.message.startswith(WAS_KILLED))
    outcome = sa.case((killed, KILLED), else_=runs.outcome).label("ended_as")
    query = sa.select(runs.kind, outcome, sa.func.count()).where(
        runs.pipeline == pipeline, runs.finished_at.is_not(None), *where
    )
    return [
        (kind, ended_as, number) for kind, ended_as, number in connection.execute(query.group_by(runs.kind, outcome))
    ]


def open_deploy_window(connection: sa.Connection, pipeline: str, now: datetime) -> None:
    """Expect compilations for half an hour from now on."""
    table = tables.deploy_windows
    values = {"opened_at": now, "closes_at": now + DEPLOY_WINDOW}
    if connection.execute(table.update().where(table.c.pipeline == pipeline).values(**values)).rowcount == 0:
        connection.execute(table.insert().values(pipeline=pipeline, **values))


def is_deploying(connection: sa.Connection, pipeline: str, now: datetime) -> bool:
    """Return true during the half hour of a deployment."""
    table = tables.deploy_windows.c
    query = sa.select(table.closes_at).where(table.pipeline == pipeline)
    closes_at: datetime | None = connection.execute(query).scalar()
    return closes_at is not None and now < closes_at
