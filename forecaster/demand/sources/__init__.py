"""Source connectors: read the rows of a declared source, block by block.

Text stays as given; the contract decides its meaning and validity. Every row keeps its position for
messages: `:file` is the name of the file, and `row` is the line in a CSV file or sheet, the row
number in a Parquet file, or a running number.

The kinds are the rows of `KINDS`: one module each, named like the kind in the pipeline file. To add
a kind, add a class in `forecaster.config.sources`, a module here and a row of `KINDS`.

    csv           CSV, by lines (text_stream turns bytes into text)
    excel         workbooks, read by a library
    parquet       files, folders and partitioned folders
    sql           any database that SQLAlchemy reaches (database opens it, driver_types converts the driver's values)
    delta         Delta tables
    sample        the sample, and the days after it
    wide          tables with one column per depot or day, of any kind
    null_values   words for missing values, of any kind
    encodings     bytes that are not valid text
    files         files and object stores, for CSV, Excel and Parquet
    feed          common parts of the kinds: blocks, digest, errors
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from forecaster.config import AnySource, Spec
from forecaster.core.time_limits import items_within
from forecaster.demand.sources import csv, delta, excel, files, null_values, parquet, sample, sql, wide
from forecaster.demand.sources.csv import fault_sentence
from forecaster.demand.sources.encodings import NO_TEXT
from forecaster.demand.sources.feed import BLOCK, FAULT, FILE, ROW, Columns, Feed, Pieces, joined, numbered_days
from forecaster.errors import SourceError, TimeLimitExceeded

__all__ = [
    "BLOCK",
    "FAULT",
    "FILE",
    "NO_TEXT",
    "ROW",
    "Columns",
    "Feed",
    "fault_sentence",
    "name",
    "numbered_days",
    "open_feed",
    "pieces",
    "read",
]

# shares of the time of a nightly run: longest silence of a source, and its longest reading time
SILENCE, READING = 1 / 6, 1 / 3


class SourceKind(NamedTuple):
    """Kind of source: how to read its rows, and how to name such a source in messages."""

    # called with the source, the pipeline file and the columns; `name` and `since` as keywords
    pieces: Callable[..., Pieces]
    name: Callable[[Any], str]


KINDS: Mapping[str, SourceKind] = {
    "csv": SourceKind(csv.pieces, files.name),
    "excel": SourceKind(excel.pieces, files.name),
    "parquet": SourceKind(parquet.pieces, files.name),
    "delta": SourceKind(delta.pieces, files.name),
    "sql": SourceKind(sql.pieces, sql.name),
    "sample": SourceKind(sample.pieces, files.name),
}


def open_feed(
    source: AnySource,
    spec: Spec,
    required: Iterable[str],
    optional: Iterable[str] = (),
    *,
    others: bool = False,
    since: str | None = None,
) -> Feed:
    """Open a source: blocks of the required columns, of those optional ones that exist, and with
    `others` of all others that have a name of their own.

    `since` is a watermark from an earlier feed of this source: rows below it are not read again.
    Nothing is accessed before the first block is requested, which raises

    - SourceUnreachable when the source cannot be reached now,
    - SourceError when it is not of its kind, lacks a required column, or hangs (`SILENCE`, `READING`),
    - SpecError when a credential or variable that it names is missing,
    - MissingExtra when its driver is not installed.
    """
    columns = Columns(tuple(dict.fromkeys(required)), tuple(dict.fromkeys(optional)), others)
    return Feed(name(source), pieces(source, spec, columns, since))


def pieces(source: AnySource, spec: Spec, columns: Columns, since: str | None = None) -> Pieces:
    """Pieces of a source for the blocks of `open_feed`; raises the same errors."""
    columns = wide.columns_of(source, spec, columns)
    answers = KINDS[source.kind].pieces(source, spec, columns, name=name(source), since=since)
    filled = null_values.emptied(_in_time(answers, spec, name(source)), source.null_values)
    return wide.turned(filled, columns)


def _in_time(pieces: Pieces, spec: Spec, name: str) -> Pieces:
    """Pass on the pieces while the source delivers; a hanging source must not block the nightly
    run."""
    window = spec.schedule.window
    try:
        ending = yield from items_within(window * SILENCE, window * READING, pieces, f"the source {name}")
    except TimeLimitExceeded as error:
        raise SourceError(
            f"{error}, of the {window:.0f} s between schedule.cron and schedule.deadline; wanted a source that answers"
        ) from None
    return ending


def read(
    source: AnySource, spec: Spec, required: Iterable[str], optional: Iterable[str] = (), *, others: bool = False
) -> pd.DataFrame:
    """All blocks of a small source in one frame. Raises the errors of `open_feed`."""
    return joined(list(open_feed(source, spec, required, optional, others=others).blocks))


def name(source: AnySource) -> str:
    """Name of the source in messages and tables: its file, its glob as declared, or its table;
    never a credential."""
    return KINDS[source.kind].name(source)
