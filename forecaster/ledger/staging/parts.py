"""Staging of a publication: write its rows in parts, read each part back and compare it.

Each function works on a connection whose transaction the caller holds; no slot shows staged rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

import sqlalchemy as sa

from forecaster.errors import LedgerError
from forecaster.ledger import records, soundness
from forecaster.ledger.publication import Publication
from forecaster.ledger.soundness import Seal
from forecaster.ledger.staging import depot_rows
from forecaster.ledger.staging.depot_rows import DepotRows

Parts = Callable[[], Iterable[DepotRows]]
"""Returns all depots of a publication, in batches, at each call."""
_DIFFERS = "not published: the database does not give back what was written; check its disk"


def parts_of(publication: Publication) -> Parts:
    """Depots of a publication in memory."""
    parts = [DepotRows.from_batch(batch) for batch in depot_rows.published_batches(publication.depots)]
    return lambda: parts


def is_kept(connection: sa.Connection, number: int, publication: Publication, parts: Parts) -> bool:
    """Return true if the kept publication with this id equals the given one, except for the instant
    of publication."""
    stored_publication = records.without_depots(connection, number)
    if replace(stored_publication, published_at=publication.published_at) != replace(publication, depots=()):
        return False
    count = 0
    for part in parts():
        if depot_rows.read(connection, number, part.ids) != part:
            return False
        count += len(part.ids)
    return count == depot_rows.count(connection, number)


def stage(connection: sa.Connection, publication: Publication, parts: Parts, seal: Seal | None = None) -> int:
    """Write a publication, sealed if there is a key, and verify it against the database; return its
    new id.

    Raises LedgerError if it has no depot, a duplicate depot or other days than its horizon, and if
    the database returns other rows than were written.
    """
    number, ids = records.stage(connection, publication), set[str]()
    for part in parts():
        if sentences := "; ".join(_wrong_part(part, ids, publication)):
            raise LedgerError(f"not published: {sentences}")
        depot_rows.insert(connection, number, part, len(ids))
        if depot_rows.read(connection, number, part.ids) != part:
            raise LedgerError(_DIFFERS)
        ids.update(part.ids)
    if not ids:
        raise LedgerError("not published: there is no depot in it")
    if records.without_depots(connection, number) != replace(publication, depots=()):
        raise LedgerError(_DIFFERS)
    soundness.write_digest(connection, number, seal)
    return number


def _wrong_part(part: DepotRows, ids: Container[str], publication: Publication) -> Iterator[str]:
    """Contradictions within a part, and between it and the depots before it."""
    for depot_id, count in Counter(part.ids).items():
        if count > 1 or depot_id in ids:
            yield f"depot {depot_id!r} stands in it twice"
    horizon_days = publication.horizon_days
    days = [(depot_id, day, step) for depot_id in part.ids for step, day in horizon_days]
    if [row[:3] for row in part.days] != days:
        yield f"not all depots have the {publication.horizon} days after {publication.cutoff}"
