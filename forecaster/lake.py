"""The Delta tables: names, schemas, append, read as of.

A table is only ever appended to, and one append is one commit: a process killed before it leaves nothing. What was
known at an instant is read by `recorded_at`; what the tables held at a commit, by version.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
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
                ("source", _TEXT),
                ("batch", _TEXT),
                ("row", pa.int64()),
                ("rule", _TEXT),
                ("message", _TEXT),
                ("content", _TEXT),
                ("recorded_at", _INSTANT),
            ]
        ),
        # what is known of a depot; static attributes follow as further columns of words
        "depots": pa.schema(
            [
                ("depot_id", _TEXT),
                ("opened", _DAY),
                ("closed", _DAY),
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
    }
)
GROWING = frozenset({"demand", "depots"})  # tables that take further columns from the sources

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

    def append(self, table: str, rows: pa.Table | pd.DataFrame) -> int:
        """Add rows in one atomic commit; the table's version afterwards. No rows, no commit.

        Raises LakeError when the rows do not fit the table's schema or cannot be written.
        """
        data = _conform(table, rows)
        if data.num_rows == 0:
            return self._version(table)
        try:
            merge = {"schema_mode": "merge"} if table in GROWING else {}
            write_deltalake(self._place(table), data, mode="append", **merge)  # type: ignore[call-overload]
        except Exception as error:  # delta-rs raises bare ones, too
            raise LakeError(
                f"lake table '{table}' at {self.url}: {len(data)} rows cannot be added: {_short(error)}"
            ) from error
        return self._version(table)

    def read(self, table: str, *, where: Any = None, version: int | None = None) -> pa.Table:
        """The rows that pass `where` (a dataset expression or filters as lists of tuples), in no particular order.

        `version` reads what an earlier commit held. A table that does not exist yet has no rows.
        Raises LakeError when the table is damaged or has another schema than ours.
        """
        schema = _schema(table)
        if version == NOT_THERE:
            return schema.empty_table()
        condition = pq.filters_to_expression(where) if isinstance(where, list) else where
        try:
            found = DeltaTable(self._place(table), version=version).to_pyarrow_dataset().to_table(filter=condition)
            further = [field for field in found.schema if field.name not in schema.names]
            wanted = pa.schema([*schema, *further])
            return found.select(wanted.names).cast(wanted)
        except TableNotFoundError:
            return schema.empty_table()
        except Exception as error:  # delta-rs raises bare ones, too
            raise LakeError(
                f"lake table '{table}' at {self.url} cannot be read: {_short(error)}; restore the folder from a "
                "backup, or move it aside and ingest again"
            ) from error

    def versions(self) -> dict[str, int]:
        """Each table's Delta version; -1 for one that is not there yet."""
        return {table: self._version(table) for table in TABLES}

    def _version(self, table: str) -> int:
        try:
            return DeltaTable(self._place(table)).version()
        except TableNotFoundError:
            return NOT_THERE
        except _FAULTS as error:
            raise LakeError(f"lake table '{table}' at {self.url} cannot be opened: {_short(error)}") from error

    def _place(self, table: str) -> str:
        return f"{self.url}/{table}"


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
        wanted = pa.schema([*schema, *further])
        return data.select(wanted.names).cast(wanted)
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


def _widest(field: pa.Field) -> pa.Field:
    number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    return pa.field(field.name, pa.float64() if number else pa.string())


def _short(error: BaseException) -> str:
    """The first line: Delta's errors may carry a backtrace."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip()
