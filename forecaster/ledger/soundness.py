"""Verification of a ledger: SQLite's check of its pages, and a SHA-256 over the rows of each
publication, signed if there is a key.

The digest covers all that readers see of a publication: its row, depots, days, totals and plans of
the week. It is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from forecaster.errors import UnusableLedger
from forecaster.ledger import tables

# largest publication that the page verifies: 5,000 depots take a second; `forecaster doctor`
# verifies all
MOST_DEPOTS = 500
REMEDY = "`forecaster restore` brings a backup back"
AT_A_TIME = 1000  # rows whose columns are hashed together; another number gives another digest
DIGESTS = ("rows_digest", "rows_seal")  # columns excluded from the digest

Seal = Callable[[bytes], bytes]
"""Returns the 96 bytes of public key and signature for a content."""
VerifySeal = Callable[[bytes, bytes, datetime], str | None]
"""Returns why a seal is not valid for a content as of an instant; None if it is."""


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


def faults(connection: sa.Connection, verify: VerifySeal | None = None) -> list[str]:
    """Sentences about damaged pages or, if there are none, about changed publications.

    `verify` checks the seals.
    """
    if broken := page_faults(connection):
        return broken
    row = tables.publications.c
    numbers = connection.execute(sa.select(row.publication_id).order_by(row.publication_id)).scalars().all()
    checks = (_change(connection, number, verify) for number in numbers)
    return [*filter(None, checks)]


@dataclass(frozen=True)
class SealCounts:
    """Numbers of kept publications, and of those with a seal."""

    publications: int
    seals: int
    unsealed: int | None  # first publication without a seal after one with a seal


def seal_counts(connection: sa.Connection) -> SealCounts:
    """Seal counts of all kept publications."""
    row = tables.publications.c
    rows = connection.execute(sa.select(row.publication_id, row.rows_seal).order_by(row.publication_id)).all()
    seals = [row.publication_id for row in rows if row.rows_seal]
    unsealed = (row.publication_id for row in rows if not row.rows_seal and row.publication_id > min(seals))
    return SealCounts(len(rows), len(seals), next(unsealed, None) if seals else None)


def write_digest(connection: sa.Connection, publication_id: int, seal: Seal | None = None) -> None:
    """Store the digest of a publication whose rows have been written or changed, and its seal;
    without `seal` it loses an earlier one."""
    rows, digest = tables.publications, rows_digest(connection, publication_id)
    values = {"rows_digest": digest, "rows_seal": seal(_sealed(digest)).hex() if seal else None}
    connection.execute(rows.update().where(rows.c.publication_id == publication_id).values(**values))


def require_unchanged(connection: sa.Connection, publication_id: int) -> None:
    """Compare the rows of a publication of at most `MOST_DEPOTS` depots with its digest.

    Raises UnusableLedger if they differ.
    """
    depots = tables.published_depots.c.publication_id
    count = sa.select(sa.func.count()).where(depots == publication_id)
    if connection.execute(count).scalar_one() <= MOST_DEPOTS and (change := _change(connection, publication_id)):
        raise UnusableLedger(change)


def _change(connection: sa.Connection, publication_id: int, verify: VerifySeal | None = None) -> str | None:
    """Sentence if the rows of a publication are not those published; None if they are."""
    rows = tables.publications.c
    with named_damage(f"publication {publication_id}"):
        row = connection.execute(sa.select(tables.publications).where(rows.publication_id == publication_id)).one()
        if row.rows_digest is None:
            return _changed(publication_id, "no digest, wanted one")
        if (digest := rows_digest(connection, publication_id)) != row.rows_digest:
            return _changed(publication_id, f"the SHA-256 {digest[:16]}…, wanted {row.rows_digest[:16]}…")
        if verify is None or row.rows_seal is None:
            return None
        at = row.revised_at or row.published_at
        fault = verify(_sealed(digest), bytes.fromhex(row.rows_seal), at)
    return fault and _changed(publication_id, f"a digest whose signature does not hold: {fault}")


def _sealed(digest: str) -> bytes:
    """Sealed content; the prefix distinguishes it from other kinds of content."""
    return f"publication {digest}".encode()


def _changed(publication_id: int, actual: str) -> str:
    return (
        f"the ledger is damaged: rows of publication {publication_id} are not those that were published; found "
        f"{actual}; the next `forecaster predict FILE` replaces it, or {REMEDY}"
    )


def rows_digest(connection: sa.Connection, publication_id: int) -> str:
    """SHA-256 over the row, depots, days, totals and plans of a publication, in key order: column
    by column, JSON as its stored text."""
    digest = sha256()
    for table in (tables.publications, *tables.OF_PUBLICATION):
        columns = [column for column in table.columns if column.name not in ("publication_id", *DIGESTS)]
        fields = (sa.cast(column, sa.Text) if isinstance(column.type, sa.JSON) else column for column in columns)
        query = sa.select(*fields).where(table.c.publication_id == publication_id)
        keys = [_by_code_point(connection, key) for key in table.primary_key.columns if key.name != "publication_id"]
        for rows in connection.execute(query.order_by(*keys), execution_options={"yield_per": AT_A_TIME}).partitions():
            for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                digest.update(f"{table.name}.{column.name}={values!r}".encode())
    return digest.hexdigest()


def _by_code_point(connection: sa.Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Column in an order independent of the database's locale."""
    is_text = isinstance(column.type, sa.Text) and connection.dialect.name == "postgresql"
    return sa.collate(column, "C") if is_text else column


@contextmanager
def named_damage(subject: str) -> Iterator[None]:
    """Translate malformed values of rows into UnusableLedger."""
    try:
        yield
    except (ValueError, TypeError, LookupError) as error:
        raise UnusableLedger(f"the ledger is damaged: {subject}: {error}; {REMEDY}") from error
