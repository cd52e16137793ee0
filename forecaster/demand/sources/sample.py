"""The Harbor Fleet sample as a living source: its committed CSV file, then simulated days up to
yesterday.

The content of a source depends on when it is read; so this is the one source that reads the clock.
It continues no file but the sample's own.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pyarrow as pa

from forecaster.config import CsvSource, SampleSource, Spec
from forecaster.demand.sample.continuation import last_exported, later_days
from forecaster.demand.sources import csv, files
from forecaster.demand.sources.feed import FAULT, ROW, Columns, Ending, Pieces, numbered
from forecaster.errors import SourceError

DEMAND, EVENTS = "7b55273b951b", "9549f71ac060"  # digests of the sample's files


def pieces(source: SampleSource, spec: Spec, columns: Columns, **_: str | None) -> Pieces:
    """Rows of the file, then those of later days, from a file whose name states that it is
    simulated.

    Raises SourceError if the file is not the sample's.
    """
    [file] = files.files(source, spec)
    header: list[str] = []
    rows = 1  # the header's line

    ending = None
    lines = csv.pieces(CsvSource(kind="csv", path=source.path), spec, columns)
    while ending is None:
        try:
            name, table = next(lines)
        except StopIteration as end:
            ending = end.value
            continue
        header, rows = header or [n for n in table.column_names if n not in (ROW, FAULT)], rows + len(table)
        yield name, table
    if ending.digest not in (DEMAND, EVENTS):
        raise SourceError(
            f"{file.place}: not a file of the Harbor Fleet sample; wanted an unchanged file of the sample, or "
            "`kind: csv` for your own file: only the sample can be continued with simulated days"
        )
    until = source.until or last_exported(datetime.now(UTC))
    later = later_days(until)
    values = later.demand if ending.digest == DEMAND else later.events
    table = pa.table({name: pa.array(values[name], pa.string()) for name in header})
    yield f"simulated days of {file.name}", numbered(table, rows + 1)
    return Ending(hashlib.sha256(f"{ending.digest} {until}".encode()).hexdigest()[:12])
