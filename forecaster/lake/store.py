"""Data lake of append-only Delta tables: append, and read as of an instant or a version.

A table is only ever appended to, and one append is one commit: a process killed before it leaves
nothing. What was known at an instant is read by `recorded_at`; what the tables held at a commit, by
version. Demand is partitioned by the year of its days, and the small files of many nights are put
together now and then, so that old nights cost new ones nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import TableNotFoundError

from forecaster.errors import LakeError, LakeSilent
from forecaster.lake import digests
from forecaster.lake.faults import FAULTS, remedy, sentence
from forecaster.lake.limits import Waits, storage_options
from forecaster.lake.rows import conform
from forecaster.lake.tables import GREW, GROWING, TABLES, TEXT, YEAR, schema_of

NOT_THERE = -1

TIDIED = 32  # commits of a table after which its small files are put together
# for which files that were put together stay, for whoever reads an older version
KEPT_HOURS = 7 * 24
# rows handed over at once; the writer lets so many of such pieces wait, and spells their words out
WAITING = 1 << 16
REPEATING = ("depot_id", "source", "batch")  # columns of few words, which are read as codes

_PACKED = WriterProperties(
    compression="ZSTD",  # a third of the space, in the same time
    # bytes: the words of 100,000 depots, which else were written out for each row
    dictionary_page_size_limit=1 << 24,
    column_properties={"row": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")},
)


class Windowed(Protocol):
    """A schedule: `window` are the seconds from the night's start to its deadline."""

    @property
    def window(self) -> float: ...


class Located(Protocol):
    """A pipeline file, as far as a lake needs one."""

    @property
    def lake_url(self) -> str: ...

    @property
    def schedule(self) -> Windowed: ...


class Lake:
    """The tables below one folder or object-store URL."""

    def __init__(self, url: str, *, window: float | None = None) -> None:
        """Nothing is touched yet. `window` are the seconds that a run has
        (`forecaster.lake.limits`), within which everything here answers or raises LakeSilent.
        Raises LakeError for a folder that Delta cannot address.
        """
        if "%" in url and "://" not in url:
            raise LakeError(
                f"lake {url!r}: found % in the path of a folder, which Delta decodes; wanted a path without"
            )
        self.url = url.rstrip("/")
        self._waits, self._options = Waits(self.url, window), storage_options(self.url, window)
        # by table and version, which stays what it is
        self._tables: dict[tuple[str, int], DeltaTable] = {}
        self._read: dict[tuple[str, int, bool], ds.Dataset] = {}
        # table → the last commit seen, and how its file was
        self._newest: dict[str, tuple[int, tuple[int, ...]]] = {}

    @classmethod
    def of(cls, spec: Located) -> Self:
        """The lake of a pipeline, within the time that its nights have. Raises LakeError as the
        constructor does."""
        return cls(spec.lake_url, window=spec.schedule.window)

    def append(self, table: str, rows: pa.Table | pd.DataFrame | Iterable[pa.Table]) -> int:
        """Add rows in one atomic commit; the table's version afterwards. No rows, no commit.

        Many rows can be given as tables of the same columns, which are written one after the other.
        Raises LakeError when the rows do not fit the table's schema or cannot be written.
        """
        parts = iter([rows] if isinstance(rows, pa.Table | pd.DataFrame) else rows)
        first = next((part for each in parts if (part := conform(table, each)).num_rows), None)
        if first is None:
            return self.version(table)
        stream = pa.RecordBatchReader.from_batches(first.schema, _batches(table, first, parts))
        merge = {"schema_mode": "merge"} if table in GROWING | GREW else {}
        divided = {"partition_by": [YEAR]} if table == "demand" else {}

        def write() -> None:
            place = self._place(table)
            digests.verify(place)
            write_deltalake(  # type: ignore[call-overload]
                place,
                stream,
                mode="append",
                writer_properties=_PACKED,
                storage_options=self._options,
                **merge,
                **divided,
            )
            digests.keep(place)

        try:
            self._waits.call(write, table)
        except LakeError:
            raise
        except Exception as error:  # delta-rs raises bare ones, too
            raise LakeError(f"lake table '{table}' at {self.url}: rows cannot be added: {sentence(error)}") from error
        version = self.version(table)
        if version % TIDIED == TIDIED - 1:
            self.tidy(table)
            version = self.version(table)
        return version

    def read(
        self,
        table: str,
        *,
        where: Any = None,
        version: int | None = None,
        columns: Iterable[str] | None = None,
        codes: bool = False,
    ) -> pa.Table:
        """The rows that pass `where` (a dataset expression or filters as lists of tuples), in no
        particular order.

        `version` reads what an earlier commit held; `columns` only those, with `codes` such that
        repeat their words as dictionaries. A table that does not exist yet has no rows. Raises
        LakeError when the table is damaged or has another schema than ours.
        """
        schema, names = schema_of(table), list(columns) if columns is not None else None
        if version == NOT_THERE:
            return _coded(schema, names, codes).empty_table()
        condition = pq.filters_to_expression(where) if isinstance(where, list) else where

        def rows() -> pa.Table:
            dataset = self._dataset(table, version, codes)
            further = [field for field in dataset.schema if field.name not in (*schema.names, YEAR)]
            target = _coded(pa.schema([*schema, *further]), names, codes)
            data = dataset.to_table(
                columns=[name for name in target.names if name in dataset.schema.names], filter=condition
            )
            return _completed(data, target)

        try:
            return self._waits.call(rows, table)
        except TableNotFoundError:
            return _coded(schema, names, codes).empty_table()
        except LakeSilent:
            raise
        except Exception as error:  # delta-rs raises bare ones, too
            raise self._unreadable(table, error) from error

    def share(
        self, table: str, *, version: int, columns: Iterable[str], number: int, of: int, where: Any = None
    ) -> Iterator[pa.Table]:
        """One of `of` shares of a commit's rows, about as large as the others, a million rows or so
        at a time, in the order in which they lie; words that repeat are codes. The caller, the
        shares are the same.

        Raises LakeError when the table is damaged.
        """
        names, schema = list(columns), schema_of(table)
        try:
            dataset = self._waits.call(lambda: self._dataset(table, version, codes=True), table)
            pieces = [
                piece
                for file in sorted(dataset.get_fragments(), key=lambda fragment: fragment.path)
                for piece in file.split_by_row_group()
            ]
            further = [field for field in dataset.schema if field.name not in (*schema.names, YEAR)]
            target = _coded(pa.schema([*schema, *further]), names, codes=True)
            present = [name for name in target.names if name in dataset.schema.names]
            for piece in pieces[number * len(pieces) // of : (number + 1) * len(pieces) // of]:
                rows = partial(piece.to_table, schema=dataset.schema, columns=present, filter=where)
                yield _completed(self._waits.call(rows, table), target)
        except LakeSilent:
            raise
        except Exception as error:  # delta-rs raises bare ones, too
            raise self._unreadable(table, error) from error

    def pieces(self, table: str, *, version: int) -> int:
        """Into how many shares the rows of a commit can be divided. Raises LakeError when the table
        is damaged."""
        try:
            dataset = self._waits.call(lambda: self._dataset(table, version, codes=True), table)
            return sum(file.num_row_groups for file in dataset.get_fragments())
        except LakeSilent:
            raise
        except Exception as error:  # delta-rs raises bare ones, too
            raise self._unreadable(table, error) from error

    def row_count(self, table: str) -> int:
        """Number of rows of a table, from the metadata of its files. Raises LakeError when the table is damaged."""
        try:
            return int(self._waits.call(lambda: self._dataset(table, None, codes=False).count_rows(), table))
        except LakeSilent:
            raise
        except Exception as error:  # delta-rs raises bare ones, too
            raise self._unreadable(table, error) from error

    def covariates(self, table: str = "demand", *, version: int | None = None) -> dict[str, pa.DataType]:
        """The columns that a table has beyond its own, with their types. Raises LakeError when it
        cannot be read."""
        if version == NOT_THERE:
            return {}
        try:
            delta = self._waits.call(lambda: self._table(table, version), table)
            schema = pa.schema(delta.schema().to_arrow())
        except TableNotFoundError:
            return {}
        except FAULTS as error:
            raise self._unreadable(table, error, "opened") from error
        return {field.name: field.type for field in schema if field.name not in (*TABLES[table].names, YEAR)}

    def tidy(self, table: str, *, hours: int = KEPT_HOURS) -> None:
        """Put a table's small files together, and delete those that were put together long ago.

        `hours` ago, that is. What a reader sees stays the same. A disk that is full, or another
        process that does the same, leaves the work to the next time, and so does a store that does
        not answer.
        """

        def put_together() -> None:
            delta = self._delta(table)
            delta.optimize.compact(writer_properties=_PACKED)
            delta.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
            delta.create_checkpoint()
            digests.keep(self._place(table), again=".checkpoint.parquet")

        with suppress(*FAULTS, LakeSilent):
            self._waits.call(put_together, table)

    def files(self) -> int:
        """Number of data files of all tables. Raises LakeError for a damaged one."""
        there = [table for table, version in self.versions().items() if version != NOT_THERE]
        return sum(map(self._files, there))

    def versions(self, tables: Iterable[str] = tuple(TABLES)) -> dict[str, int]:
        """The Delta version of each of these tables; -1 for one that is not there yet."""
        return {table: self.version(table) for table in tables}

    def version(self, table: str) -> int:
        """A table's Delta version; NOT_THERE for one that is not there yet. Raises LakeError for a
        damaged one."""
        try:
            return self._waits.call(lambda: self._table(table, None), table).version()
        except TableNotFoundError:
            return NOT_THERE
        except FAULTS as error:
            raise self._unreadable(table, error, "opened") from error

    def _files(self, table: str) -> int:
        return len(self._waits.call(lambda: self._delta(table).file_uris(), table))

    def _dataset(self, table: str, version: int | None, codes: bool) -> ds.Dataset:
        delta = self._table(table, version)
        key = table, delta.version(), codes
        if (dataset := self._read.get(key)) is None:
            options = ds.ParquetReadOptions(dictionary_columns=set(REPEATING) if codes else set())
            place = _local(self._place(table))
            dataset = self._read[key] = delta.to_pyarrow_dataset(filesystem=place, parquet_read_options=options)
        return dataset

    def _table(self, table: str, version: int | None) -> DeltaTable:
        """The table as of a commit, which is looked up once; without one the newest, which is
        looked up each time."""
        expected = self._still_newest(table) if version is None else version
        if expected is not None and (delta := self._tables.get((table, expected))) is not None:
            return delta
        delta = self._delta(table, version)
        if version is None and (file := self._commit(table, delta.version())) is not None:
            self._newest[table] = delta.version(), file
        return self._tables.setdefault((table, delta.version()), delta)

    def _still_newest(self, table: str) -> int | None:
        """The version that was the newest when it was looked up last, if a glance at a folder shows
        that it is yet: to open a table takes a hundred times as long, and a night looks up versions
        by the dozen."""
        if table not in self._newest:
            return None
        digests.verify(self._place(table))
        version, file = self._newest[table]
        is_newest = self._commit(table, version) == file and self._commit(table, version + 1) is None
        return version if is_newest else None

    def _commit(self, table: str, version: int) -> tuple[int, ...] | None:
        """Identity of a commit's file; None where there is none, and in an object store. Commits
        are numbered without gaps:
        https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries"""
        try:
            status = os.stat(f"{self._place(table)}/_delta_log/{version:020}.json")
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _delta(self, table: str, version: int | None = None) -> DeltaTable:
        digests.verify(self._place(table))
        return DeltaTable(self._place(table), version=version, storage_options=self._options)

    def _unreadable(self, table: str, error: Exception, what: str = "read") -> LakeError:
        return LakeError(f"lake table '{table}' at {self.url} cannot be {what}: {sentence(error)}; {remedy(error)}")

    def _place(self, table: str) -> str:
        return f"{self.url}/{table}"


def _local(place: str) -> fs.FileSystem | None:
    """Arrow's own files for a folder of this machine. Those of delta-rs are Python's: a thread of
    Arrow's that closes one while Python ends, as after a command that only read, aborts the
    process.
    """
    return None if "://" in place else fs.SubTreeFileSystem(str(Path(place).absolute()), fs.LocalFileSystem())


def _batches(table: str, first: pa.Table, parts: Iterator[pa.Table | pd.DataFrame]) -> Iterator[pa.RecordBatch]:
    yield from _pieces(first)
    for part in parts:
        yield from _pieces(conform(table, part).select(first.schema.names).cast(first.schema))


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A table cut where it is long enough, and nowhere else: the writer takes pieces in any
    order."""
    for start in range(0, len(table), WAITING):
        yield from table.slice(start, WAITING).combine_chunks().to_batches()


def _coded(schema: pa.Schema, names: list[str] | None, codes: bool) -> pa.Schema:
    """The schema of the wanted columns, repeating ones as dictionaries."""
    fields = [field for field in schema if names is None or field.name in names]
    coded = pa.dictionary(pa.int32(), TEXT)
    return pa.schema([pa.field(f.name, coded) if codes and f.name in REPEATING else f for f in fields])


def _completed(data: pa.Table, target: pa.Schema) -> pa.Table:
    """The data with all columns of the target; one that an older table lacks is null."""
    for field in target:
        if field.name not in data.column_names:
            data = data.append_column(field, pa.nulls(len(data), field.type))
    return data.select(target.names).cast(target)
