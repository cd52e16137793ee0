"""Streaming publication: depots are written and read back some at a time, and shown all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

import sqlalchemy as sa

from forecaster.errors import LedgerError
from forecaster.ledger import lease, records, soundness
from forecaster.ledger.grouped import depot_rows
from forecaster.ledger.grouped.depot_rows import DepotRows
from forecaster.ledger.publication import Publication, objections_besides_depots
from forecaster.ledger.store import Ledger


def publish_parts(
    ledger: Ledger, publication: Publication, parts: Callable[[], Iterable[DepotRows]], *, keep: int
) -> int:
    """Show a publication whose depots are given some at a time, each time they are asked for; returns its id.

    Their rows have passed the integrity checks that `objections` makes of depots; that a depot is there twice, or has
    other days than the first, is found here. As `Ledger.publish` in everything else: what is shown already, of the same
    run, changes nothing. Raises LedgerError when the publication is not whole, or the run was never started or was
    closed as dead; then nothing has changed.
    """
    with ledger.transaction() as connection:
        lease.admit(connection, publication.pipeline, publication.run_id)
        head = records.head(connection, publication.pipeline)
        if head and head.run_id == publication.run_id and _stands(connection, head.publication_id, publication, parts):
            return head.publication_id
        _refuse(objections_besides_depots(publication))
        number, ids = records.stage(connection, replace(publication, depots=())), set[str]()
        for part in parts():
            _refuse(_wrong_part(part, ids, publication))
            depot_rows.insert(connection, number, part, len(ids))
            # Read back within the transaction, so that a publication which differs is never shown.
            if depot_rows.read(connection, number, part.ids) != part:
                raise LedgerError("not published: the database does not give back what was written; check its disk")
            ids.update(part.ids)
        if not ids:
            raise LedgerError("not published: there is no depot in it")
        if records.totals(connection, number) != publication.totals:
            raise LedgerError("not published: the database does not give back what was written; check its disk")
        soundness.write_digest(connection, number)
        previous = head.publication_id if head else None
        records.flip(connection, publication.pipeline, number, previous, publication.published_at)
        records.prune(connection, publication.pipeline, keep)
    return number


def _stands(
    connection: sa.Connection, number: int, publication: Publication, parts: Callable[[], Iterable[DepotRows]]
) -> bool:
    """Whether a publication is kept as it is to be published, but for the instant."""
    count = 0
    for part in parts():
        if depot_rows.read(connection, number, part.ids) != part:
            return False
        count += len(part.ids)
    return count == depot_rows.count(connection, number) and records.totals(connection, number) == publication.totals


def _refuse(sentences: Iterable[str]) -> None:
    if message := "; ".join(sentences):
        raise LedgerError(f"not published: {message}")


def _wrong_part(part: DepotRows, ids: Container[str], publication: Publication) -> Iterator[str]:
    """What cannot be true of some depots beside those before them."""
    here = Counter(part.ids)
    for depot_id in (depot_id for depot_id, count in here.items() if count > 1 or depot_id in ids):
        yield f"depot {depot_id!r} stands in it twice"
    horizon_days = publication.horizon_days
    days = [(depot_id, day, step) for depot_id in part.ids for step, day in horizon_days]
    if [row[:3] for row in part.days] != days:
        yield f"not all depots have the {publication.horizon} days after {publication.cutoff}"
