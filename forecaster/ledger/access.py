"""Share links, audit log and sign-in sessions of the page, as rows of the ledger.

Each function works on a connection whose transaction the caller holds, so a change and its audit
entry are stored together or not at all. A browser holds a random token and the ledger its digest:
the ledger alone opens no session.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256

import sqlalchemy as sa

from forecaster.errors import NoSuchRow
from forecaster.ledger import tables

MOST_DAYS = 400  # maximum lifetime of a link in days; browsers keep no cookie longer


@dataclass(frozen=True)
class Link:
    """A share link to one view, optionally of one city, depot or person, until it expires or is
    revoked.

    It is read-only, except for a person's answers to their own shifts.
    """

    link_id: str
    pipeline: str
    view: str
    city: str | None
    made_at: datetime
    made_by: str
    expires_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    depot_id: str | None = None
    person: str | None = None  # one of the depot's people

    def opens(self, now: datetime) -> bool:
        return self.revoked_at is None and now < self.expires_at


@dataclass(frozen=True)
class AuditEntry:
    """A row of the audit log: who wrote what, when, and from where."""

    at: datetime
    pipeline: str
    who: str
    role: str
    address: str
    method: str
    path: str
    what: str


def new_link_id() -> str:
    """Return a random id; the link's signature is what keeps unauthenticated clients out."""
    return secrets.token_hex(6)


def make_link(connection: sa.Connection, link: Link) -> None:
    connection.execute(tables.links.insert().values(**asdict(link)))


def links(connection: sa.Connection, pipeline: str) -> tuple[Link, ...]:
    """All links of a pipeline, newest first."""
    query = sa.select(tables.links).where(tables.links.c.pipeline == pipeline)
    rows = connection.execute(query.order_by(tables.links.c.made_at.desc(), tables.links.c.link_id)).mappings()
    return tuple(Link(**row) for row in rows)


def link(connection: sa.Connection, link_id: str) -> Link | None:
    row = connection.execute(sa.select(tables.links).where(tables.links.c.link_id == link_id)).mappings().one_or_none()
    return None if row is None else Link(**row)


def revoke(connection: sa.Connection, pipeline: str, link_id: str, *, by: str, at: datetime) -> tuple[Link, bool]:
    """Revoke a link, and return it with whether it was open.

    A link revoked earlier stays unchanged; there is nothing to audit then. Raises NoSuchRow if
    there is no such link.
    """
    existing = link(connection, link_id)
    if existing is None or existing.pipeline != pipeline:
        raise NoSuchRow(f"there is no link {link_id!r}; `forecaster links FILE` lists them")
    row = tables.links.c
    change = tables.links.update().where(row.link_id == link_id, row.revoked_at.is_(None))
    was_open = connection.execute(change.values(revoked_at=at, revoked_by=by)).rowcount > 0
    closed = link(connection, link_id)
    assert closed is not None
    return closed, was_open


def note(connection: sa.Connection, entry: AuditEntry) -> None:
    connection.execute(tables.audit.insert().values(**asdict(entry)))


def entries(connection: sa.Connection, pipeline: str, limit: int | None = None) -> tuple[AuditEntry, ...]:
    """Audit entries of a pipeline, newest first."""
    columns = [column for column in tables.audit.c if column.name != "id"]
    query = (
        sa.select(*columns).where(tables.audit.c.pipeline == pipeline).order_by(tables.audit.c.id.desc()).limit(limit)
    )
    return tuple(AuditEntry(**row) for row in connection.execute(query).mappings())


@dataclass(frozen=True)
class Session:
    """A signed-in person; the provider last confirmed the groups at `checked_at`."""

    session_id: str
    pipeline: str
    name: str
    groups: tuple[str, ...]
    checked_at: datetime
    expires_at: datetime


def session_id(token: str) -> str:
    """Digest of a token, under which its session is stored."""
    return sha256(token.encode()).hexdigest()


def begin_session(connection: sa.Connection, session: Session, now: datetime) -> None:
    """Store a session, and delete expired ones."""
    connection.execute(tables.sessions.delete().where(tables.sessions.c.expires_at <= now))
    connection.execute(tables.sessions.insert().values(**asdict(session) | {"groups": list(session.groups)}))


def read_session(connection: sa.Connection, token: str) -> Session | None:
    """Session of a token; None if there is none."""
    query = sa.select(tables.sessions).where(tables.sessions.c.session_id == session_id(token))
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Session(**{**row, "groups": tuple(row["groups"])})


def sessions(connection: sa.Connection, pipeline: str, now: datetime, name: str | None = None) -> tuple[Session, ...]:
    """Unexpired sessions of a pipeline, or of one person there, by name."""
    row = tables.sessions.c
    query = sa.select(tables.sessions).where(row.pipeline == pipeline, row.expires_at > now)
    if name is not None:
        query = query.where(row.name == name)
    rows = connection.execute(query.order_by(row.name, row.expires_at)).mappings()
    return tuple(Session(**{**row, "groups": tuple(row["groups"])}) for row in rows)


def close_session(connection: sa.Connection, pipeline: str, session_id: str) -> str | None:
    """Delete a session and return its person's name; None if the pipeline has no such session."""
    row = tables.sessions.c
    deletion = tables.sessions.delete().where(row.pipeline == pipeline, row.session_id == session_id)
    return connection.execute(deletion.returning(row.name)).scalar_one_or_none()


def end_sessions(connection: sa.Connection, pipeline: str, name: str | None = None) -> int:
    """Delete all sessions of a pipeline, or of one person there, and return their number."""
    row = tables.sessions.c
    deletion = tables.sessions.delete().where(row.pipeline == pipeline)
    return connection.execute(deletion if name is None else deletion.where(row.name == name)).rowcount


def end_session(connection: sa.Connection, token: str) -> None:
    """Delete the session of a token."""
    connection.execute(tables.sessions.delete().where(tables.sessions.c.session_id == session_id(token)))
