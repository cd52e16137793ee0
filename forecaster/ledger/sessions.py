"""Sign-in sessions of the page in the ledger: who has signed in, with which groups, and when that was last checked.

A browser holds a random token alone, and the ledger its digest: who reads the ledger cannot sign in with what they
find. Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256

import sqlalchemy as sa

from forecaster.ledger import tables


@dataclass(frozen=True)
class Session:
    """Somebody who has signed in; `checked_at` is when the provider last told their groups."""

    session_id: str
    pipeline: str
    name: str
    groups: tuple[str, ...]
    checked_at: datetime
    expires_at: datetime


def session_id(token: str) -> str:
    """The digest under which the session of a token is kept."""
    return sha256(token.encode()).hexdigest()


def begin(connection: sa.Connection, session: Session, now: datetime) -> None:
    """Keep a session, and forget those that are over."""
    connection.execute(tables.sessions.delete().where(tables.sessions.c.expires_at <= now))
    connection.execute(tables.sessions.insert().values(**asdict(session) | {"groups": list(session.groups)}))


def read(connection: sa.Connection, token: str) -> Session | None:
    query = sa.select(tables.sessions).where(tables.sessions.c.session_id == session_id(token))
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Session(**{**row, "groups": tuple(row["groups"])})


def end(connection: sa.Connection, token: str) -> None:
    """End it for every copy of the token."""
    connection.execute(tables.sessions.delete().where(tables.sessions.c.session_id == session_id(token)))
