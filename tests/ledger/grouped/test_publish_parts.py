"""A publication is written some depots at a time, as rows by columns, and is the one that is written whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from forecaster.errors import LedgerError
from forecaster.ledger import records
from forecaster.ledger.columns.json_text import json_text
from forecaster.ledger.grouped.depot_rows import DAYS, SCHEMA, DepotRows
from forecaster.ledger.grouped.publish_parts import publish_parts
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication, total

WHOLE = replace(publication(depots=3), totals=(total(),))


def part(*depots: PublishedDepot) -> DepotRows:
    rows = [_as_text(records.of_depot(depot)) for depot in depots]
    for row, depot in zip(rows, depots, strict=True):
        row[DAYS] = [_as_text(records.of_day(day)) for day in depot.days]
    return DepotRows.of(pa.RecordBatch.from_pylist(rows, SCHEMA))


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json_text(value) if isinstance(value, list | dict) else value for name, value in row.items()}


def test_depots_that_are_written_in_parts_are_read_as_those_of_a_whole_publication(ledger: Ledger) -> None:
    number = publish_parts(ledger, WHOLE, lambda: map(part, reversed(WHOLE.depots)), keep=8)
    head = ledger.current(WHOLE.pipeline)
    assert head is not None
    assert head.publication_id == number
    assert ledger.whole(head) == replace(WHOLE, depots=WHOLE.depots[::-1])
    assert publish_parts(ledger, WHOLE, lambda: map(part, reversed(WHOLE.depots)), keep=8) == number
    young = replace(
        WHOLE.depots[0], days=tuple(replace(day, drivers=None, roster=None) for day in WHOLE.depots[0].days)
    )
    assert publish_parts(ledger, WHOLE, lambda: [part(young, *WHOLE.depots[1:])], keep=8) == number + 1

    def refused(parts: Iterable[DepotRows]) -> str:
        with pytest.raises(LedgerError) as error:
            publish_parts(ledger, WHOLE, lambda: parts, keep=8)
        return str(error.value)

    first, second, *_ = WHOLE.depots
    assert refused([part(first, second), part(first)]) == "not published: depot 'D0' stands in it twice"
    short = replace(second, days=second.days[:2])
    assert refused([part(first, short)]) == "not published: not all depots have the 3 days after 2025-06-17"
    assert refused([]) == "not published: there is no depot in it"
    head = ledger.current(WHOLE.pipeline)
    assert head is not None
    assert head.publication_id == number + 1
