"""Crews in the ledger that planners accepted as published, or set by hand.

An acceptance holds while the published crew is the accepted one; a crew set by hand is the one that
gets published. Rows are never deleted; of a depot's day the newest counts. Each function works on a
connection whose transaction the caller holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger import tables
from forecaster.planning.overrides import Cell

_TABLE = tables.accepted_crews


def accept(connection: sa.Connection, pipeline: str, cell: Cell, *, drivers: int, by: str, at: datetime) -> bool:
    """Accept a crew (idempotent). False if the same crew is accepted already."""
    query = sa.select(_TABLE).where(_of(pipeline, cell)).order_by(_TABLE.c.at.desc()).limit(1)
    newest = connection.execute(query).first()
    if newest is not None and newest.drivers == drivers and newest.withdrawn_at is None and newest.crews is None:
        return False
    row = {"pipeline": pipeline, "depot_id": cell[0], "target_date": cell[1], "at": at, "drivers": drivers, "by": by}
    connection.execute(_TABLE.insert().values(**row))
    return True


def set_crew(
    connection: sa.Connection, pipeline: str, cell: Cell, *, crews: Mapping[str, int], by: str, at: datetime
) -> bool:
    """Set a crew by hand, in drivers by shift (idempotent). False if it is set already."""
    if read_set(connection, pipeline, cell[1]).get(cell) == crews:
        return False
    row = {"pipeline": pipeline, "depot_id": cell[0], "target_date": cell[1], "at": at, "by": by}
    connection.execute(_TABLE.insert().values(**row, drivers=sum(crews.values()), crews=dict(crews)))
    return True


def withdraw(connection: sa.Connection, pipeline: str, cell: Cell, at: datetime) -> None:
    """Withdraw the accepted crew of a depot's day. Raises OverrideError if there is none."""
    change = _TABLE.update().where(_of(pipeline, cell), _TABLE.c.withdrawn_at.is_(None)).values(withdrawn_at=at)
    if not connection.execute(change).rowcount:
        raise OverrideError(_("{depot} on {day}: found no accepted crew, wanted one", depot=cell[0], day=cell[1]))


def read_accepted(connection: sa.Connection, pipeline: str, since: date) -> dict[Cell, int]:
    """Accepted crews, in drivers, by depot and day from `since` on, including those set by hand."""
    return {cell: row.drivers for cell, row in _newest(connection, pipeline, since).items()}


def read_set(connection: sa.Connection, pipeline: str, since: date) -> dict[Cell, Mapping[str, int]]:
    """Crews set by hand, in drivers by shift, by depot and day from `since` on."""
    newest = _newest(connection, pipeline, since)
    return {cell: row.crews for cell, row in newest.items() if row.crews is not None}


def _newest(connection: sa.Connection, pipeline: str, since: date) -> dict[Cell, sa.Row[Any]]:
    """The newest row of each depot's day, unless it was withdrawn."""
    query = sa.select(_TABLE).where(_TABLE.c.pipeline == pipeline, _TABLE.c.target_date >= since)
    rows = connection.execute(query.order_by(_TABLE.c.at)).all()
    newest = {(row.depot_id, row.target_date): row for row in rows}
    return {cell: row for cell, row in newest.items() if row.withdrawn_at is None}


def last_change(connection: sa.Connection, pipeline: str) -> datetime | None:
    """Instant of the last acceptance or withdrawal; None if there was none."""
    row = _TABLE.c
    query = sa.select(sa.func.max(row.at), sa.func.max(row.withdrawn_at)).where(row.pipeline == pipeline)
    return max((at for at in connection.execute(query).one() if at is not None), default=None)


def _of(pipeline: str, cell: Cell) -> sa.ColumnElement[bool]:
    """Condition for the rows of a depot's day."""
    row = _TABLE.c
    return sa.and_(row.pipeline == pipeline, row.depot_id == cell[0], row.target_date == cell[1])
