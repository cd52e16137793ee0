"""Verification of a ledger: SQLite's check of its pages, and a SHA-256 over the rows of each
publication.

The digest covers depots, days and totals of a publication. It is written in the transaction that
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from forecaster.errors import UnusableLedger
from forecaster.ledger import tables

# whose publication a page verifies: 5,000 depots take a second; `forecaster doctor` verifies all
MOST_DEPOTS = 500
REMEDY = "`forecaster restore` brings a backup back"
# last columns of rows that were written before there were these: no part of their digest
_ABSENT = {tables.published_depots: (None,), tables.published_totals: ("city", 1)}


def require_sound(connection: sa.Connection) -> None:
    """Run SQLite's quick check. Raises UnusableLedger with the first fault."""
    for fault in page_faults(connection):
        raise UnusableLedger(fault)


def page_faults(connection: sa.Connection) -> list[str]:
    """Sentences of SQLite's quick check; empty if the pages are sound, and for PostgreSQL."""
    if connection.dialect.name != "sqlite":
        return []
    faults = map(str, connection.exec_driver_sql("pragma quick_check").scalars())
    return [f"the ledger is damaged: {' '.join(fault.split())}; {REMEDY}" for fault in faults if fault != "ok"]


def faults(connection: sa.Connection) -> list[str]:
    """Sentences for damaged pages and changed publications."""
    if broken := page_faults(connection):
        return broken
    numbers = connection.execute(sa.select(tables.publications.c.publication_id).order_by("publication_id"))
    return [_changed(number) for number in numbers.scalars().all() if not _is_unchanged(connection, number)]


def write_digest(connection: sa.Connection, publication_id: int) -> None:
    """Store the digest of a publication whose rows have been written or changed."""
    rows = tables.publications
    here = rows.c.publication_id == publication_id
    connection.execute(rows.update().where(here).values(rows_digest=rows_digest(connection, publication_id)))


def require_unchanged(connection: sa.Connection, publication_id: int) -> None:
    """Compare the rows of a publication of at most `MOST_DEPOTS` depots with its digest.

    Raises UnusableLedger if they differ.
    """
    depots = tables.published_depots.c.publication_id
    count = sa.select(sa.func.count()).where(depots == publication_id)
    if connection.execute(count).scalar_one() <= MOST_DEPOTS and not _is_unchanged(connection, publication_id):
        raise UnusableLedger(_changed(publication_id))


def _is_unchanged(connection: sa.Connection, publication_id: int) -> bool:
    rows = tables.publications.c
    query = sa.select(rows.rows_digest).where(rows.publication_id == publication_id)
    with named_damage(f"publication {publication_id}"):
        return connection.execute(query).scalar_one_or_none() == rows_digest(connection, publication_id)


def _changed(publication_id: int) -> str:
    return (
        f"the ledger is damaged: rows of publication {publication_id} are not those that were published; the next "
        f"`forecaster predict FILE` replaces it, or {REMEDY}"
    )


def rows_digest(connection: sa.Connection, publication_id: int) -> str:
    """SHA-256 over the depots, days and totals of a publication, in the order of their keys."""
    digest = sha256()
    for table in (tables.published_depots, tables.published, tables.published_totals):
        columns = [column for column in table.columns if column.name != "publication_id"]
        query = sa.select(*columns).where(table.c.publication_id == publication_id)
        keys = [_by_code_point(connection, key) for key in table.primary_key.columns if key.name != "publication_id"]
        absent = _ABSENT.get(table, ())
        for row in connection.execute(query.order_by(*keys), execution_options={"yield_per": 1000}):
            values = tuple(row)
            whole = not absent or values[-len(absent) :] != absent
            digest.update(repr(values if whole else values[: -len(absent)]).encode())
    return digest.hexdigest()


def _by_code_point(connection: sa.Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """The column in an order that does not depend on the database's locale."""
    is_text = isinstance(column.type, sa.Text) and connection.dialect.name == "postgresql"
    return sa.collate(column, "C") if is_text else column


@contextmanager
def named_damage(what: str) -> Iterator[None]:
    """Translate malformed values of rows into UnusableLedger."""
    try:
        yield
    except (ValueError, TypeError, LookupError) as error:
        raise UnusableLedger(f"the ledger is damaged: {what}: {error}; {REMEDY}") from error
