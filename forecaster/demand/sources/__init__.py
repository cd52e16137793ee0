"""Source connectors: read what a declared source holds, block by block.

Text stays as it was given: what it means, and whether it is accepted, the contract decides. Every
row keeps its place, so that a message can point at it: `:file` names the file, and `row` the line
in a CSV file or a sheet, the row number in a Parquet file, or a running number.

The kinds are the rows of `KINDS`: one module each, named as the pipeline file names the kind. A
further kind is a class in `forecaster.config.sources`, a module here and a row of `KINDS`.

    csv           CSV, by lines (text_stream turns bytes into text)
    excel         workbooks, which a library reads
    parquet       files, folders and partitioned folders
    sql           any database that SQLAlchemy reaches (database opens it, driver_types reads what its driver gives)
    delta         Delta tables
    sample        the sample, and the days after it
    wide          tables with a column a depot or a day, of any kind
    null_values   words for nothing, of any kind
    encodings     bytes that are no text
    files         files and object stores, which CSV, Excel and Parquet read
    feed          what the kinds have in common: blocks, digest, errors
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
    "Feed",
    "fault_sentence",
    "name",
    "numbered_days",
    "open_feed",
    "pieces",
    "read",
]

# of the time that a night has, in which a source gives something, and all
SILENCE, READING = 1 / 6, 1 / 3


class SourceKind(NamedTuple):
    """One kind of source: how its rows are read, and what messages call a source of it."""

    # of the source, the pipeline file and the columns; `name` and `since` as keywords
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
    source: AnySource, spec: Spec, required: Iterable[str], optional: Iterable[str] = (), *, since: str | None = None
) -> Feed:
    """A source's blocks of the wanted columns and of those optional ones that are there.

    `since` is a watermark that an earlier feed of this source gave: what is below it is not read
    again. Nothing is reached before the first block is asked for; that raises

    - SourceUnreachable when the source cannot be reached now,
    - SourceError when it is not what its kind says, lacks a wanted column, or hangs (`SILENCE`, `READING`),
    - SpecError when a credential or variable that it names is not there,
    - MissingExtra when its driver is not installed.
    """
    return Feed(name(source), pieces(source, spec, required, optional, since=since))


def pieces(
    source: AnySource, spec: Spec, required: Iterable[str], optional: Iterable[str] = (), *, since: str | None = None
) -> Pieces:
    """Pieces of a source for the blocks of `open_feed`; raises as that does."""
    columns = wide.columns_of(source, spec, Columns(tuple(dict.fromkeys(required)), tuple(dict.fromkeys(optional))))
    answers = KINDS[source.kind].pieces(source, spec, columns, name=name(source), since=since)
    filled = null_values.emptied(_in_time(answers, spec, name(source)), source.null_values)
    return wide.turned(filled, columns)


def _in_time(pieces: Pieces, spec: Spec, name: str) -> Pieces:
    """The pieces, as long as the source gives some: one that hangs must not cost the night."""
    window = spec.schedule.window
    try:
        ending = yield from items_within(window * SILENCE, window * READING, pieces, f"the source {name}")
    except TimeLimitExceeded as error:
        raise SourceError(
            f"{error}, of the {window:.0f} s between schedule.cron and schedule.deadline; wanted a source that answers"
        ) from None
    return ending


def read(source: AnySource, spec: Spec, required: Iterable[str], optional: Iterable[str] = ()) -> pd.DataFrame:
    """All blocks of a small source in one frame. Raises as `open_feed` does."""
    return joined(list(open_feed(source, spec, required, optional).blocks))


def name(source: AnySource) -> str:
    """Name of the source in messages and tables: its file, its glob as declared, its table; never a
    credential."""
    return KINDS[source.kind].name(source)
