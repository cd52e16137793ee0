"""Conversion of rows to a table of the lake: its columns, in its order and types."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.errors import LakeError
from forecaster.lake.faults import FAULTS, sentence
from forecaster.lake.tables import GROWING, INSTANT, TEXT, YEAR, schema_of


def conform(table: str, rows: pa.Table | pd.DataFrame) -> pa.Table:
    """Rows with the table's own columns first and in its types; additional columns become doubles
    or text."""
    schema = schema_of(table)
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
    except FAULTS as error:
        raise LakeError(f"lake table '{table}': rows do not fit its schema: {sentence(error)}") from error


def _table(rows: pd.DataFrame) -> pa.Table:
    return pa.table({name: _array(rows[name]) for name in _names(rows)})


def _array(column: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    if isinstance(column.dtype, pd.DatetimeTZDtype):  # via UTC: pandas 3.1 warns if Arrow converts these directly
        return pa.array(column.dt.tz_convert(None).dt.as_unit("us").to_numpy()).cast(INSTANT)
    return pa.array(column, from_pandas=True)


def _names(rows: pa.Table | pd.DataFrame) -> list[str]:
    return [str(name) for name in (rows.columns if isinstance(rows, pd.DataFrame) else rows.column_names)]


def _coded_field(field: pa.Field, source: pa.Field) -> pa.Field:
    """Field of a schema, as a dictionary if the words are given as one, so that they are written
    unchanged."""
    coded = pa.types.is_dictionary(source.type) and field.type == TEXT and source.type.value_type == TEXT
    return field.with_type(pa.dictionary(pa.int32(), TEXT)) if coded else field


def _widest(field: pa.Field) -> pa.Field:
    if pa.types.is_dictionary(field.type):
        return pa.field(field.name, pa.string())
    number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    return pa.field(field.name, pa.float64() if number else pa.string())
