"""A publication written in parts equals one written as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from forecaster.errors import LedgerError
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.staging.depot_rows import DepotRows, published_batches
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication, total

WHOLE = replace(publication(depots=3), totals=(total(),))


def part(*depots: PublishedDepot) -> DepotRows:
    [batch] = published_batches(depots)
    return DepotRows.from_batch(batch)


def test_publication_written_in_parts_equals_a_whole_one(ledger: Ledger) -> None:
    number = ledger.publish(WHOLE, parts=lambda: map(part, reversed(WHOLE.depots)))
    head = ledger.current(WHOLE.pipeline)
    assert head is not None
    assert head.publication_id == number
    assert ledger.whole(head) == replace(WHOLE, depots=WHOLE.depots[::-1])
    assert ledger.publish(WHOLE, parts=lambda: map(part, reversed(WHOLE.depots))) == number
    young = replace(
        WHOLE.depots[0], days=tuple(replace(day, drivers=None, roster=None) for day in WHOLE.depots[0].days)
    )
    assert ledger.publish(WHOLE, parts=lambda: [part(young, *WHOLE.depots[1:])]) == number + 1

    def refused(parts: Iterable[DepotRows]) -> str:
        with pytest.raises(LedgerError) as error:
            ledger.publish(WHOLE, parts=lambda: parts)
        return str(error.value)

    first, second, *_ = WHOLE.depots
    assert refused([part(first, second), part(first)]) == "not published: depot 'D0' stands in it twice"
    short = replace(second, days=second.days[:2])
    assert refused([part(first, short)]) == "not published: not all depots have the 3 days after 2025-06-17"
    assert refused([]) == "not published: there is no depot in it"
    head = ledger.current(WHOLE.pipeline)
    assert head is not None
    assert head.publication_id == number + 1
