"""Streaming publication: depots are checked, written and read back some at a time, and shown all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

import sqlalchemy as sa

from forecaster.errors import LedgerError
from forecaster.ledger import lease, records
from forecaster.ledger.publication import Publication, PublishedDepot, objections
from forecaster.ledger.store import Ledger

AT_A_TIME = 512  # depots


def publish_parts(
    ledger: Ledger, publication: Publication, depots: Callable[[], Iterable[PublishedDepot]], *, keep: int
) -> int:
    """Show a publication whose depots are given one after the other, each time they are asked for; returns its id.

    As `Ledger.publish` in everything else: what is shown already, of the same run, changes nothing. Raises LedgerError
    when the publication is not whole, or the run was never started or was closed as dead; then nothing has changed.
    """
    with ledger.transaction() as connection:
        lease.admit(connection, publication.pipeline, publication.run_id)
        head = records.head(connection, publication.pipeline)
        if head and head.run_id == publication.run_id and _stands(connection, head.publication_id, publication, depots):
            return head.publication_id
        number, position = records.stage(connection, replace(publication, depots=())), 0
        for part in _parts(depots()):
            if sentences := objections(replace(publication, depots=part)):
                raise LedgerError("not published: " + "; ".join(sentences))
            records.stage_depots(connection, number, part, position)
            # Read back within the transaction, so that a publication which differs is never shown.
            if records.depots(connection, number, [depot.depot_id for depot in part]) != part:
                raise LedgerError("not published: the database does not give back what was written; check its disk")
            position += len(part)
        if not position:
            raise LedgerError("not published: there is no depot in it")
        if records.totals(connection, number) != publication.totals:
            raise LedgerError("not published: the database does not give back what was written; check its disk")
        previous = head.publication_id if head else None
        records.flip(connection, publication.pipeline, number, previous, publication.published_at)
        records.prune(connection, publication.pipeline, keep)
    return number


def _stands(
    connection: sa.Connection, number: int, publication: Publication, depots: Callable[[], Iterable[PublishedDepot]]
) -> bool:
    """Whether a publication is kept as it is to be published, but for the instant."""
    position = 0
    for part in _parts(depots()):
        if records.depots(connection, number, [depot.depot_id for depot in part]) != part:
            return False
        position += len(part)
    return records.totals(connection, number) == publication.totals


def _parts(depots: Iterable[PublishedDepot]) -> Iterator[tuple[PublishedDepot, ...]]:
    waiting = iter(depots)
    while part := tuple(islice(waiting, AT_A_TIME)):
        yield part
