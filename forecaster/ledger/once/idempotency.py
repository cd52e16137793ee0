"""Idempotency keys of the page's writes in the ledger: a write that is sent again is done once, and answered alike.

The key's row is the first thing that the transaction of a write writes, and it is kept with what was written or not at
all. So of two transactions with one key the second waits for the first: SQLite has one writer, and PostgreSQL lets
nobody add to an index what somebody else may be about to. Each function works on a connection whose transaction the
caller holds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from forecaster.ledger import tables

LIFETIME = timedelta(hours=24)  # in which a write with the same key is the same write


@dataclass(frozen=True)
class IdempotencyKey:
    """What somebody calls a write; `request` is the digest of what they asked for."""

    pipeline: str
    who: str
    key: str
    request: str


@dataclass(frozen=True)
class FirstAnswer:
    """How a write was answered, and the digest of its request."""

    request: str
    answer: dict[str, Any]


def find(connection: sa.Connection, key: IdempotencyKey, now: datetime) -> FirstAnswer | None:
    """The answer that a write of this key had; None where there was none within the lifetime."""
    columns = tables.idempotency_keys.c
    query = sa.select(columns.request, columns.answer).where(_of(key), columns.at > now - LIFETIME)
    row = connection.execute(query).one_or_none()
    return None if row is None else FirstAnswer(*row)


def claim(connection: sa.Connection, key: IdempotencyKey, now: datetime) -> FirstAnswer | None:
    """Begin a write: None where it is the first of its key, else the answer of the first, which is waited for while it
    is at work. Keys that are over are forgotten."""
    keys = tables.idempotency_keys
    connection.execute(keys.delete().where(keys.c.at <= now - LIFETIME))
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(keys)
    row = insert.values(**asdict(key), at=now, answer={}).on_conflict_do_nothing().returning(keys.c.key)
    return find(connection, key, now) if connection.execute(row).first() is None else None


def keep(connection: sa.Connection, key: IdempotencyKey, answer: dict[str, Any]) -> None:
    """End a write: its answer is kept with what it wrote."""
    connection.execute(tables.idempotency_keys.update().where(_of(key)).values(answer=answer))


def _of(key: IdempotencyKey) -> sa.ColumnElement[bool]:
    columns = tables.idempotency_keys.c
    return sa.and_(columns.pipeline == key.pipeline, columns.who == key.who, columns.key == key.key)
