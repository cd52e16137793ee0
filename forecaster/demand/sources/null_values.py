"""Null words: in every kind of source, cells with one of its `null_values` are empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from forecaster.demand.sources.feed import FAULT, ROW, Pieces, is_text, map_tables


def emptied(pieces: Pieces, null_values: Sequence[str]) -> Pieces:
    """Pieces of a source with such words in text cells, in any case, replaced by null."""
    if not null_values:
        return pieces
    lowered = pa.array(sorted({word.strip().lower() for word in null_values}), pa.string())

    def emptied_table(table: pa.Table) -> Iterator[pa.Table]:
        columns = {
            column: values if column in (ROW, FAULT) else _emptied(values, lowered)
            for column, values in zip(table.column_names, table.columns, strict=True)
        }
        yield pa.table(columns)

    return map_tables(pieces, emptied_table)


def _emptied(values: pa.ChunkedArray, lowered: pa.Array) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type) and is_text(values.type.value_type):
        values = pc.cast(values, values.type.value_type)
    if not is_text(values.type):
        return values
    text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.cast(values, pa.large_string())))
    is_null = pc.fill_null(pc.is_in(text, pc.cast(lowered, text.type)), False)
    return pc.if_else(is_null, pa.scalar(None, values.type), values)
