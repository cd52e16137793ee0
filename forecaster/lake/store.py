"""Data lake of append-only Delta tables: append rows, and read them as of an instant or a version.

A table is only ever appended to, and one append is one commit: a process killed before it leaves
nothing behind. `recorded_at` selects the state known at an instant; the version selects the content
of a commit. Demand is partitioned by the year of its days, and the small files of many nights are
compacted regularly, so that old nights do not slow down new ones.
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

TIDIED = 32  # commits of a table after which its small files are compacted
# retention of compacted files, for readers of older versions
KEPT_HOURS = 7 * 24
# rows passed at a time; the writer queues this many pieces, and expands their words
WAITING = 1 << 16
REPEATING = ("depot_id", "source", "batch")  # columns of few distinct words, which are read as codes

_PACKED = WriterProperties(
    compression="ZSTD",  # a third of the space, in the same time
    # bytes: fits the words of 100,000 depots, which would otherwise be repeated for each row
    dictionary_page_size_limit=1 << 24,
    column_properties={"row": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")},
)


class Windowed(Protocol):
    """Schedule with `window`, the seconds from the start of the nightly run to its deadline."""

    @property
    def window(self) -> float: ...


class Located(Protocol):
    """Part of a pipeline file that a lake needs."""

    @property
    def lake_url(self) -> str: ...

    @property
    def schedule(self) -> Windowed: ...


class Lake:
    """Tables below one folder or object-store URL."""

    def __init__(self, url: str, *, window: float | None = None) -> None:
        """Create the lake without accessing it. `window` is the time of a run in seconds
        (`forecaster.lake.limits`), within which every method answers or raises LakeSilent. Raises
        LakeError for a folder that Delta cannot address."""
        if "%" in url and "://" not in url:
            raise LakeError(
                f"lake {url!r}: found % in the path of a folder, which Delta decodes; wanted a path without"
            )
        self.url = url.rstrip("/")
        self._waits, self._options = Waits(self.url, window), storage_options(self.url, window)
        # by table and version; immutable
        self._tables: dict[tuple[str, int], DeltaTable] = {}
        self._read: dict[tuple[str, int, bool], ds.Dataset] = {}
        # table → last commit seen, and the state of its file
        self._newest: dict[str, tuple[int, tuple[int, ...]]] = {}

    @classmethod
    def of(cls, spec: Located) -> Self:
        """Lake of a pipeline, with the time limit of its nightly runs. Raises LakeError like the
        constructor."""
        return cls(spec.lake_url, window=spec.schedule.window)

    def append(self, table: str, rows: pa.Table | pd.DataFrame | Iterable[pa.Table]) -> int:
        """Append rows in one atomic commit; return the table's version afterwards. Without rows
        there is no commit.

        Many rows can be given as tables with the same columns, which are written one after another.
        Raises LakeError when the rows do not fit the table's schema or cannot be written.
        """
        parts = iter([rows] if isinstance(rows, pa.Table | pd.DataFrame) else rows)
        first = next((part for batch in parts if (part := conform(table, batch)).num_rows), None)
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
        except Exception as error:  # delta-rs also raises plain Exception
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
        """Read the rows that pass `where` (a dataset expression or filters as lists of tuples), in
        no particular order.

        `version` reads the content of an earlier commit; `columns` selects columns; with `codes`,
        repeating words are read as dictionaries. A table that does not exist yet has no rows.
        Raises LakeError when the table is damaged or has a different schema.
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
        except Exception as error:  # delta-rs also raises plain Exception
            raise self._unreadable(table, error) from error

    def share(
        self, table: str, *, version: int, columns: Iterable[str], number: int, of: int, where: Any = None
    ) -> Iterator[pa.Table]:
        """Read one of `of` shares of a commit's rows, all about equally large, around a million
        rows at a time, in their stored order; repeating words are codes. The shares are the same
        for every caller.

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
        except Exception as error:  # delta-rs also raises plain Exception
            raise self._unreadable(table, error) from error

    def pieces(self, table: str, *, version: int) -> int:
        """Maximum number of shares of a commit's rows. Raises LakeError when the table is damaged."""
        try:
            dataset = self._waits.call(lambda: self._dataset(table, version, codes=True), table)
            return sum(file.num_row_groups for file in dataset.get_fragments())
        except LakeSilent:
            raise
        except Exception as error:  # delta-rs also raises plain Exception
            raise self._unreadable(table, error) from error

    def row_count(self, table: str) -> int:
        """Number of rows of a table, from the metadata of its files. Raises LakeError when the table is damaged."""
        try:
            return int(self._waits.call(lambda: self._dataset(table, None, codes=False).count_rows(), table))
        except LakeSilent:
            raise
        except Exception as error:  # delta-rs also raises plain Exception
            raise self._unreadable(table, error) from error

    def covariates(self, table: str = "demand", *, version: int | None = None) -> dict[str, pa.DataType]:
        """Additional columns of a table, with their types. Raises LakeError when it cannot be read."""
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
        """Compact a table's small files, and delete those compacted more than `hours` ago.

        Readers see no difference. If the disk is full, another process does the same, or the store
        does not answer, the work is postponed.
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
        existing_tables = [table for table, version in self.versions().items() if version != NOT_THERE]
        return sum(map(self._files, existing_tables))

    def versions(self, tables: Iterable[str] = tuple(TABLES)) -> dict[str, int]:
        """Delta version of each of these tables; -1 for one that does not exist yet."""
        return {table: self.version(table) for table in tables}

    def version(self, table: str) -> int:
        """Delta version of a table; NOT_THERE if it does not exist yet. Raises LakeError for a
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
        """Table as of a commit, which is cached; without one the newest, which is looked up each
        time."""
        expected = self._still_newest(table) if version is None else version
        if expected is not None and (delta := self._tables.get((table, expected))) is not None:
            return delta
        delta = self._delta(table, version)
        if version is None and (file := self._commit(table, delta.version())) is not None:
            self._newest[table] = delta.version(), file
        return self._tables.setdefault((table, delta.version()), delta)

    def _still_newest(self, table: str) -> int | None:
        """Latest version found by the previous lookup, if a glance at the folder shows that it
        still is the latest: opening a table takes a hundred times as long, and a nightly run looks
        up versions dozens of times."""
        if table not in self._newest:
            return None
        digests.verify(self._place(table))
        version, file = self._newest[table]
        is_newest = self._commit(table, version) == file and self._commit(table, version + 1) is None
        return version if is_newest else None

    def _commit(self, table: str, version: int) -> tuple[int, ...] | None:
        """Identity of a commit's file; None if it does not exist, and in an object store. Commits
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

    def _unreadable(self, table: str, error: Exception, action: str = "read") -> LakeError:
        return LakeError(f"lake table '{table}' at {self.url} cannot be {action}: {sentence(error)}; {remedy(error)}")

    def _place(self, table: str) -> str:
        return f"{self.url}/{table}"


def _local(place: str) -> fs.FileSystem | None:
    """Arrow's own file system for a local folder. That of delta-rs is in Python: an Arrow thread
    that closes one of its files while Python exits, for example after a command that only read,
    aborts the process."""
    return None if "://" in place else fs.SubTreeFileSystem(str(Path(place).absolute()), fs.LocalFileSystem())


def _batches(table: str, first: pa.Table, parts: Iterator[pa.Table | pd.DataFrame]) -> Iterator[pa.RecordBatch]:
    yield from _pieces(first)
    for part in parts:
        yield from _pieces(conform(table, part).select(first.schema.names).cast(first.schema))


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut a table only where it is too long: the writer processes pieces in any order."""
    for start in range(0, len(table), WAITING):
        yield from table.slice(start, WAITING).combine_chunks().to_batches()


def _coded(schema: pa.Schema, names: list[str] | None, codes: bool) -> pa.Schema:
    """Schema of the selected columns, with repeating ones as dictionaries."""
    fields = [field for field in schema if names is None or field.name in names]
    coded = pa.dictionary(pa.int32(), TEXT)
    return pa.schema([pa.field(f.name, coded) if codes and f.name in REPEATING else f for f in fields])


def _completed(data: pa.Table, target: pa.Schema) -> pa.Table:
    """Data with all columns of the target; columns missing in an older table are null."""
    for field in target:
        if field.name not in data.column_names:
            data = data.append_column(field, pa.nulls(len(data), field.type))
    return data.select(target.names).cast(target)
