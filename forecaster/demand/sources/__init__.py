"""Read what a declared source holds, block by block.

Text stays as it was given: what it means, and whether it is accepted, the contract decides. Every row keeps its place,
so that a message can point at it: `:file` names the file, and `row` the line in a CSV file (the header is line 1), the
row number in a Parquet file, or a running number.

    delimited     CSV, by lines
    parquet       files, folders and partitioned folders
    sql           any database that SQLAlchemy reaches
    delta         Delta tables
    places        files and object stores, which CSV and Parquet read
    feed          what the kinds have in common: blocks, digest, errors
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import pandas as pd

from forecaster.config import AnySource, CsvSource, DeltaSource, ParquetSource, Spec
from forecaster.demand.sources import csv, delta, files, parquet, sql
from forecaster.demand.sources.feed import BLOCK, FAULT, FILE, ROW, Columns, Feed, joined

__all__ = ["BLOCK", "FAULT", "FILE", "ROW", "Feed", "name", "open_feed", "read"]


def open_feed(
    source: AnySource, spec: Spec, wanted: Iterable[str], optional: Iterable[str] = (), *, since: str | None = None
) -> Feed:
    """A source's blocks of the wanted columns and of those optional ones that are there.

    `since` is a watermark that an earlier feed of this source gave: what is below it is not read again. Nothing is
    reached before the first block is asked for; that raises

    - SourceUnreachable when the source cannot be reached now,
    - SourceError when it is not what its kind says, or lacks a wanted column,
    - SpecError when a credential or variable that it names is not there,
    - MissingExtra when its driver is not installed.
    """
    columns = Columns(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(optional)))
    if isinstance(source, CsvSource):
        pieces = csv.pieces(source, spec, columns)
    elif isinstance(source, ParquetSource):
        pieces = parquet.pieces(source, spec, columns)
    elif isinstance(source, DeltaSource):
        pieces = delta.pieces(source, spec, columns, name(source))
    else:
        pieces = sql.pieces(source, spec, columns, name(source), since)
    return Feed(name(source), pieces)


def read(source: AnySource, spec: Spec, wanted: Iterable[str], optional: Iterable[str] = ()) -> pd.DataFrame:
    """All blocks of a small source in one frame. Raises as `open_feed` does."""
    return joined(list(open_feed(source, spec, wanted, optional).blocks))


def name(source: AnySource) -> str:
    """What messages and tables call the source: its file, its glob as declared, its table; never a credential."""
    if isinstance(source, CsvSource | ParquetSource | DeltaSource):
        shown = files.without_credentials(source.path)
        return shown if files.is_glob(shown) else PurePosixPath(shown).name
    return sql.name(source)
