"""Data lake of append-only Delta tables: their names and schemas, append, and read as of an instant or a version.

A table is only ever appended to, and one append is one commit: a process killed before it leaves nothing. What was
known at an instant is read by `recorded_at`; what the tables held at a commit, by version. Demand is partitioned by the
year of its days, and the small files of many nights are put together now and then, so that old nights cost new ones
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from forecaster.errors import LakeError

NOT_THERE = -1

_INSTANT = pa.timestamp("us", tz="UTC")
_TEXT, _DAY, _LEVELS, _QUANTILES = pa.string(), pa.date32(), pa.list_(pa.float64()), pa.list_(pa.float32())

TABLES: Mapping[str, pa.Schema] = MappingProxyType(
    {
        # a reading that passed the contract; a restated value is a new row; covariates follow as further columns
        "demand": pa.schema(
            [
                ("depot_id", _TEXT),
                ("date", _DAY),
                ("demand", pa.float64()),
                ("open", pa.bool_()),
                ("source", _TEXT),
                ("batch", _TEXT),
                ("row", pa.int64()),
                ("recorded_at", _INSTANT),
            ]
        ),
        # a reading that did not, whole, with the rule it broke
        "quarantine": pa.schema(
            [
                ("id", _TEXT),
                ("depot_id", _TEXT),
                ("date", _DAY),
                ("source", _TEXT),
                ("batch", _TEXT),
                ("row", pa.int64()),
                ("rule", _TEXT),
                ("message", _TEXT),
                ("content", _TEXT),
                ("recorded_at", _INSTANT),
            ]
        ),
        # what a person decided about a quarantined row; the last decision counts
        "decisions": pa.schema(
            [
                ("id", _TEXT),
                ("action", _TEXT),
                ("by", _TEXT),
                ("reason", _TEXT),
                ("recorded_at", _INSTANT),
            ]
        ),
        # what became of each batch: read = accepted + unchanged + quarantined
        "batches": pa.schema(
            [
                ("batch", _TEXT),
                ("source", _TEXT),
                ("read", pa.int64()),
                ("accepted", pa.int64()),
                ("unchanged", pa.int64()),
                ("quarantined", pa.int64()),
                ("stopped", pa.bool_()),
                ("watermark", _TEXT),
                ("recorded_at", _INSTANT),
            ]
        ),
        # what is known of a depot; static attributes follow as further columns of words
        "depots": pa.schema(
            [
                ("depot_id", _TEXT),
                ("opened", _DAY),
                ("closed", _DAY),
                ("timezone", _TEXT),
                ("retracted", pa.bool_()),
                ("recorded_at", _INSTANT),
            ]
        ),
        "events": pa.schema(
            [
                ("date", _DAY),
                ("kind", _TEXT),
                ("name", _TEXT),
                ("depot_id", _TEXT),
                ("city", _TEXT),
                ("subdivision", _TEXT),
                ("country", _TEXT),
                ("retracted", pa.bool_()),
                ("recorded_at", _INSTANT),
            ]
        ),
        # a former depot id and the depot that it belongs to
        "aliases": pa.schema(
            [
                ("alias", _TEXT),
                ("depot_id", _TEXT),
                ("retracted", pa.bool_()),
                ("recorded_at", _INSTANT),
            ]
        ),
        # the archive of every run's forecasts: `quantiles[i]` belongs to `levels[i]`
        "forecasts": pa.schema(
            [
                ("run_id", _TEXT),
                ("recorded_at", _INSTANT),
                ("bundle", _TEXT),
                ("tier", _TEXT),
                ("depot_id", _TEXT),
                ("cutoff", _DAY),
                ("target_date", _DAY),
                ("horizon", pa.int32()),
                ("levels", _LEVELS),
                ("quantiles", _QUANTILES),
                ("override", pa.int64()),
            ]
        ),
        "scores": pa.schema(
            [
                ("run_id", _TEXT),
                ("recorded_at", _INSTANT),
                ("model", _TEXT),
                ("cutoff", _DAY),
                ("depot_id", _TEXT),
                ("target_date", _DAY),
                ("horizon", pa.int32()),
                ("levels", _LEVELS),
                ("quantiles", _QUANTILES),
                ("actual", pa.float32()),
            ]
        ),
        # the fleet whose demand the lake holds; the first row counts
        "owners": pa.schema([("fleet", _TEXT), ("recorded_at", _INSTANT)]),
    }
)
GROWING = frozenset({"demand", "depots"})  # tables that take further columns from the sources
GREW = frozenset({"forecasts"})  # tables that once had fewer columns
YEAR = "year"  # of the day; demand is partitioned by it
TIDIED = 32  # commits of a table after which its small files are put together
KEPT_HOURS = 7 * 24  # for which files that were put together stay, for whoever reads an older version
WAITING = 1 << 16  # rows handed over at once; the writer lets so many of such pieces wait, and spells their words out
REPEATING = ("depot_id", "source", "batch")  # columns of few words, which are read as codes

_PACKED = WriterProperties(
    compression="ZSTD",  # a third of the space, in the same time
    dictionary_page_size_limit=1 << 24,  # bytes: the words of 100,000 depots, which else were written out for each row
    column_properties={"row": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")},
)
_FAULTS = (DeltaError, OSError, pa.ArrowException, ValueError, TypeError, KeyError)


class Lake:
    """The tables below one folder or object-store URL."""

    def __init__(self, url: str) -> None:
        """Nothing is touched yet. Raises LakeError for a folder that Delta cannot address."""
        if "%" in url and "://" not in url:
            raise LakeError(
                f"lake {url!r}: found % in the path of a folder, which Delta decodes; wanted a path without"
            )
        self.url = url.rstrip("/")
        # by table and version, which stays what it is
        self._tables: dict[tuple[str, int], DeltaTable] = {}
        self._read: dict[tuple[str, int, bool], ds.Dataset] = {}

    def append(self, table: str, rows: pa.Table | pd.DataFrame | Iterable[pa.Table]) -> int:
        """Add rows in one atomic commit; the table's version afterwards. No rows, no commit.

        Many rows can be given as tables of the same columns, which are written one after the other.
        Raises LakeError when the rows do not fit the table's schema or cannot be written.
        """
        parts = iter([rows] if isinstance(rows, pa.Table | pd.DataFrame) else rows)
        first = next((part for each in parts if (part := _conform(table, each)).num_rows), None)
        if first is None:
            return self.version(table)
        stream = pa.RecordBatchReader.from_batches(first.schema, _batches(table, first, parts))
        merge = {"schema_mode": "merge"} if table in GROWING | GREW else {}
        divided = {"partition_by": [YEAR]} if table == "demand" else {}
        try:
            write_deltalake(  # type: ignore[call-overload]
                self._place(table), stream, mode="append", writer_properties=_PACKED, **merge, **divided
            )
        except LakeError:
            raise
        except Exception as error:  # delta-rs raises bare ones, too
            raise LakeError(f"lake table '{table}' at {self.url}: rows cannot be added: {_short(error)}") from error
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
        """The rows that pass `where` (a dataset expression or filters as lists of tuples), in no particular order.

        `version` reads what an earlier commit held; `columns` only those, with `codes` such that repeat their words as
        dictionaries. A table that does not exist yet has no rows.
        Raises LakeError when the table is damaged or has another schema than ours.
        """
        schema, names = _schema(table), list(columns) if columns is not None else None
        if version == NOT_THERE:
            return _coded(schema, names, codes).empty_table()
        condition = pq.filters_to_expression(where) if isinstance(where, list) else where
        try:
            dataset = self._dataset(table, version, codes)
            further = [field for field in dataset.schema if field.name not in (*schema.names, YEAR)]
            target = _coded(pa.schema([*schema, *further]), names, codes)
            data = dataset.to_table(
                columns=[name for name in target.names if name in dataset.schema.names], filter=condition
            )
            return _completed(data, target)
        except TableNotFoundError:
            return _coded(schema, names, codes).empty_table()
        except Exception as error:  # delta-rs raises bare ones, too
            raise LakeError(
                f"lake table '{table}' at {self.url} cannot be read: {_short(error)}; restore the folder from a "
                "backup, or move it aside and ingest again"
            ) from error

    def covariates(self, table: str = "demand", *, version: int | None = None) -> dict[str, pa.DataType]:
        """The columns that a table has beyond its own, with their types. Raises LakeError when it cannot be read."""
        if version == NOT_THERE:
            return {}
        try:
            schema = pa.schema(self._table(table, version).schema().to_arrow())
        except TableNotFoundError:
            return {}
        except _FAULTS as error:
            raise LakeError(f"lake table '{table}' at {self.url} cannot be opened: {_short(error)}") from error
        return {field.name: field.type for field in schema if field.name not in (*TABLES[table].names, YEAR)}

    def tidy(self, table: str, *, hours: int = KEPT_HOURS) -> None:
        """Put a table's small files together, and delete those that were put together long ago.

        `hours` ago, that is. What a reader sees stays the same. A disk that is full, or another process that does the
        same, leaves the work to the next time.
        """
        try:
            delta = DeltaTable(self._place(table))
            delta.optimize.compact(writer_properties=_PACKED)
            delta.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
            delta.create_checkpoint()
        except _FAULTS:
            return

    def files(self) -> int:
        """How many data files all tables have. Raises LakeError for a damaged one."""
        return sum(len(DeltaTable(self._place(table)).file_uris()) for table, v in self.versions().items() if v >= 0)

    def versions(self, tables: Iterable[str] = tuple(TABLES)) -> dict[str, int]:
        """The Delta version of each of these tables; -1 for one that is not there yet."""
        return {table: self.version(table) for table in tables}

    def version(self, table: str) -> int:
        """A table's Delta version; NOT_THERE for one that is not there yet. Raises LakeError for a damaged one."""
        try:
            return self._table(table, None).version()
        except TableNotFoundError:
            return NOT_THERE
        except _FAULTS as error:
            raise LakeError(f"lake table '{table}' at {self.url} cannot be opened: {_short(error)}") from error

    def _dataset(self, table: str, version: int | None, codes: bool) -> ds.Dataset:
        if version is None:
            return self._opened(table, None, codes)
        if (dataset := self._read.get((table, version, codes))) is None:
            dataset = self._read[table, version, codes] = self._opened(table, version, codes)
        return dataset

    def _opened(self, table: str, version: int | None, codes: bool) -> ds.Dataset:
        options = ds.ParquetReadOptions(dictionary_columns=set(REPEATING) if codes else set())
        delta = self._table(table, version)
        return delta.to_pyarrow_dataset(filesystem=_local(self._place(table)), parquet_read_options=options)

    def _table(self, table: str, version: int | None) -> DeltaTable:
        """The table as of a commit, which is looked up once; without one the newest, which is looked up each time."""
        if version is not None and (delta := self._tables.get((table, version))) is not None:
            return delta
        delta = DeltaTable(self._place(table), version=version)
        return self._tables.setdefault((table, delta.version()), delta)

    def _place(self, table: str) -> str:
        return f"{self.url}/{table}"


def _local(place: str) -> fs.FileSystem | None:
    """Arrow's own files for a folder of this machine. Those of delta-rs are Python's: a thread of Arrow's that closes
    one while Python ends, as after a command that only read, aborts the process.
    """
    return None if "://" in place else fs.SubTreeFileSystem(str(Path(place).absolute()), fs.LocalFileSystem())


def _batches(table: str, first: pa.Table, parts: Iterator[pa.Table | pd.DataFrame]) -> Iterator[pa.RecordBatch]:
    yield from first.to_batches(WAITING)
    for part in parts:
        yield from _conform(table, part).select(first.schema.names).cast(first.schema).to_batches(WAITING)


def _coded(schema: pa.Schema, names: list[str] | None, codes: bool) -> pa.Schema:
    """The schema of the wanted columns, repeating ones as dictionaries."""
    fields = [field for field in schema if names is None or field.name in names]
    coded = pa.dictionary(pa.int32(), _TEXT)
    return pa.schema([pa.field(f.name, coded) if codes and f.name in REPEATING else f for f in fields])


def _completed(data: pa.Table, target: pa.Schema) -> pa.Table:
    """The data with all columns of the target; one that an older table lacks is null."""
    for field in target:
        if field.name not in data.column_names:
            data = data.append_column(field, pa.nulls(len(data), field.type))
    return data.select(target.names).cast(target)


def _schema(table: str) -> pa.Schema:
    if table not in TABLES:
        raise LakeError(f"unknown lake table '{table}'; wanted one of {', '.join(TABLES)}")
    return TABLES[table]


def _conform(table: str, rows: pa.Table | pd.DataFrame) -> pa.Table:
    """The rows with the table's own columns first and in its types; further columns become doubles or text."""
    schema = _schema(table)
    if (missing := [name for name in schema.names if name not in list(_names(rows))]) or (
        table not in GROWING and len(_names(rows)) > len(schema)
    ):
        raise LakeError(
            f"lake table '{table}': found columns {', '.join(_names(rows))}, wanted {', '.join(schema.names)}"
            + (f"; missing {', '.join(missing)}" if missing else "")
        )
    try:
        data = _table(rows) if isinstance(rows, pd.DataFrame) else rows
        further = [_widest(field) for field in data.schema if field.name not in schema.names]
        coded = [_coded_field(field, data.schema.field(field.name)) for field in schema]
        target = pa.schema([*coded, *further])
        data = data.select(target.names).cast(target)
        return data.append_column(YEAR, pc.year(data["date"]).cast(pa.int32())) if table == "demand" else data
    except _FAULTS as error:
        raise LakeError(f"lake table '{table}': rows do not fit its schema: {_short(error)}") from error


def _table(rows: pd.DataFrame) -> pa.Table:
    return pa.table({name: _array(rows[name]) for name in _names(rows)})


def _array(column: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    if isinstance(
        column.dtype, pd.DatetimeTZDtype
    ):  # by way of UTC: pandas 3.1 warns when Arrow takes these as they are
        return pa.array(column.dt.tz_convert(None).dt.as_unit("us").to_numpy()).cast(_INSTANT)
    return pa.array(column, from_pandas=True)


def _names(rows: pa.Table | pd.DataFrame) -> list[str]:
    return [str(name) for name in (rows.columns if isinstance(rows, pd.DataFrame) else rows.column_names)]


def _coded_field(field: pa.Field, source: pa.Field) -> pa.Field:
    """The field of a schema, as a dictionary where such words are given: they are written as they are."""
    coded = pa.types.is_dictionary(source.type) and field.type == _TEXT and source.type.value_type == _TEXT
    return field.with_type(pa.dictionary(pa.int32(), _TEXT)) if coded else field


def _widest(field: pa.Field) -> pa.Field:
    if pa.types.is_dictionary(field.type):
        return pa.field(field.name, pa.string())
    number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    return pa.field(field.name, pa.float64() if number else pa.string())


def _short(error: BaseException) -> str:
    """The first line: Delta's errors may carry a backtrace."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip()
