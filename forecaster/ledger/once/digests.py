"""Morning digests in the ledger: which receiver got which publication on which day, so that none
gets it twice.

A row is written before a digest is sent (`sending`), and settled afterwards: `sent`, or `unsure` if
the receiver did not answer in time and may have got it. A certain failure leaves no new row, so
that the next run retries it. A row that stays `sending` belongs to a process that was killed; it
counts as `unsure`. An event of a webhook has its id as its block, and a row only once it is `sent`:
its receiver recognizes it again.

Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from forecaster.ledger import tables

State = Literal["sending", "sent", "unsure"]
Crews = Mapping[str, Mapping[str, int | None]]  # ISO date → depot → drivers; None: none planned
CLOSED = -1  # stands for drivers
DAYS_KEPT = 30


@dataclass(frozen=True)
class DigestKey:
    """Receiver of a digest, and its day in the pipeline's zone."""

    pipeline: str
    block: str
    depot_id: str  # empty: of a city, or of all depots
    city: str  # empty: of a depot, or of all depots
    day: date


@dataclass(frozen=True)
class DigestRow:
    """The last digest that a receiver got, or may have got, on a day."""

    publication_id: int
    at: datetime
    state: State
    old: bool  # of a run before that day
    crews: Crews


def last(connection: sa.Connection, key: DigestKey) -> DigestRow | None:
    """Last digest of a receiver on a day; None if nothing was sent."""
    row = connection.execute(sa.select(tables.digests).where(_of(key))).mappings().one_or_none()
    return None if row is None else DigestRow(**{name: row[name] for name in DigestRow.__dataclass_fields__})


def last_before(connection: sa.Connection, key: DigestKey) -> DigestRow | None:
    """Last row of this receiver on an earlier day; None if there is none."""
    row = tables.digests.c
    of_receiver = (row[name] == value for name, value in asdict(key).items() if name != "day")
    query = sa.select(row.day).where(*of_receiver, row.day < key.day).order_by(row.day.desc()).limit(1)
    day = connection.scalar(query)
    return last(connection, replace(key, day=day)) if day else None


def sent_blocks(connection: sa.Connection, pipeline: str) -> frozenset[str]:
    """Blocks, or events of a webhook, sent on one of the last `DAYS_KEPT`."""
    row = tables.digests.c
    return frozenset(connection.scalars(sa.select(row.block).where(row.pipeline == pipeline, row.state == "sent")))


def claim(connection: sa.Connection, key: DigestKey, before: DigestRow | None, row: DigestRow) -> bool:
    """Replace the row read before with a new one; False if another run has written in the meantime."""
    table = tables.digests
    if before is None:
        insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)
        new_row = insert.values(**asdict(key), **_values(row)).on_conflict_do_nothing().returning(table.c.block)
        return connection.execute(new_row).first() is not None
    unchanged = sa.and_(_of(key), table.c.publication_id == before.publication_id, table.c.at == before.at)
    return connection.execute(table.update().where(unchanged).values(**_values(row))).rowcount == 1


def settle(connection: sa.Connection, key: DigestKey, state: State) -> None:
    connection.execute(tables.digests.update().where(_of(key)).values(state=state))


def give_back(connection: sa.Connection, key: DigestKey, before: DigestRow | None) -> None:
    """Restore the row of a digest that certainly was not sent."""
    table = tables.digests
    if before is None:
        connection.execute(table.delete().where(_of(key)))
    else:
        connection.execute(table.update().where(_of(key)).values(**_values(before)))


def forget(connection: sa.Connection, pipeline: str, today: date) -> None:
    """Delete rows of days before the last `DAYS_KEPT`."""
    row = tables.digests.c
    old = tables.digests.delete().where(row.pipeline == pipeline, row.day < today - timedelta(days=DAYS_KEPT))
    connection.execute(old)


def _of(key: DigestKey) -> sa.ColumnElement[bool]:
    return sa.and_(*(tables.digests.c[name] == value for name, value in asdict(key).items()))


def _values(row: DigestRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in DigestRow.__dataclass_fields__}
