"""Share links and audit log of the page in the ledger: links that wall screens open, and who wrote what.

Each function works on a connection whose transaction the caller holds, so that what was written and who wrote it are
kept together or not at all.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from forecaster.errors import NoSuchRow
from forecaster.ledger import tables

MOST_DAYS = 400  # of a link: longer no browser keeps what lets the screen in


@dataclass(frozen=True)
class Link:
    """A read-only way to one view, and to one city or depot where it names one, until it expires or is revoked."""

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

    def opens(self, now: datetime) -> bool:
        return self.revoked_at is None and now < self.expires_at


@dataclass(frozen=True)
class AuditEntry:
    """A row of the audit: who wrote what when, from where."""

    at: datetime
    pipeline: str
    who: str
    role: str
    address: str
    method: str
    path: str
    what: str


def new_link_id() -> str:
    """Not to be guessed, though the signature is what keeps strangers out."""
    return secrets.token_hex(6)


def make_link(connection: sa.Connection, link: Link) -> None:
    connection.execute(tables.links.insert().values(**asdict(link)))


def links(connection: sa.Connection, pipeline: str) -> tuple[Link, ...]:
    """Every link of a pipeline, the newest first."""
    query = sa.select(tables.links).where(tables.links.c.pipeline == pipeline)
    rows = connection.execute(query.order_by(tables.links.c.made_at.desc(), tables.links.c.link_id)).mappings()
    return tuple(Link(**row) for row in rows)


def link(connection: sa.Connection, link_id: str) -> Link | None:
    row = connection.execute(sa.select(tables.links).where(tables.links.c.link_id == link_id)).mappings().one_or_none()
    return None if row is None else Link(**row)


def revoke(connection: sa.Connection, pipeline: str, link_id: str, *, by: str, at: datetime) -> tuple[Link, bool]:
    """Close a link for good; also whether it was open: one that is revoked already stays as it is, and there is nothing
    to audit. NoSuchRow when there is none."""
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
    """The audit of a pipeline, the newest first."""
    columns = [column for column in tables.audit.c if column.name != "id"]
    query = (
        sa.select(*columns).where(tables.audit.c.pipeline == pipeline).order_by(tables.audit.c.id.desc()).limit(limit)
    )
    return tuple(AuditEntry(**row) for row in connection.execute(query).mappings())
