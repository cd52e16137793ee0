"""Wide tables, with one column per depot or day: each cell becomes a reading, on the line of its
row.

Cells are unpivoted as whole columns. A cell without a value is no reading. A fault of a row applies
to each of its readings, except for an undecodable byte, which applies only to the reading of its
cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forecaster.config import AnySource, Spec
from forecaster.demand.sources.encodings import NO_TEXT
from forecaster.demand.sources.feed import FAULT, NAMELESS, ROW, Columns, Pieces, for_pandas, is_text, map_tables
from forecaster.errors import SourceError

_CELLS = 2_000_000  # unpivoted at a time
_ESCAPE = r"\\x[89a-f][0-9a-f]"  # in a cell with an undecodable byte


@dataclass(frozen=True, kw_only=True)
class WideColumns(Columns):
    """Columns of a wide table: those that apply to a whole row, and those that hold readings."""

    headers: str  # required column made from the headers
    cells: str  # required column made from the cells
    what: str  # meaning of a header: depot, day
    ignored: tuple[str, ...] = ()

    def of(self, place: str, available: Sequence[str]) -> list[str]:
        """Columns to read: first those of a whole row, then those with readings. Raises SourceError
        as Columns does, and if the table has no readings in columns."""
        if self.headers in available and self.cells in available:
            raise SourceError(
                f"{place}: found columns '{self.headers}' and '{self.cells}', as in a table with one row per "
                "reading; wanted a wide table, or no `wide` in the source"
            )
        row_columns = Columns(self._of_rows, self.optional).of(place, available)
        names = [name for name in available if name not in row_columns and name not in self.ignored]
        if not any(names):
            raise SourceError(
                f"{place}: found columns {', '.join(available)}; wanted further ones, one per {self.what}, because the "
                f"source is `wide`"
            )
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SourceError(f"{place}: found column '{twice}' twice; wanted each name once")
        return [*row_columns, *names]

    def readings(self, table: pa.Table) -> Iterator[pa.Table]:
        """Table with one row per reading, in parts of a suitable size; an empty table if there are
        no rows."""
        row_columns = [name for name in table.column_names if name in {*self._of_rows, *self.optional, ROW, FAULT}]
        names = [name for name in table.column_names if name not in row_columns]
        step = max(1, _CELLS // len(names))
        for start in range(0, max(len(table), 1), step):
            yield self._turned(table.slice(start, step), row_columns, names)

    @property
    def _of_rows(self) -> tuple[str, ...]:
        return tuple(name for name in self.required if name not in (self.headers, self.cells))

    def _turned(self, table: pa.Table, row_columns: Sequence[str], names: Sequence[str]) -> pa.Table:
        cells = _one_type([table[name] for name in names])
        filled = _filled(cells).reshape(len(names), len(table))
        faulty = _are_faulty(table)
        has_no_cells = faulty & ~filled.any(axis=0)  # report such a row even without cells
        filled[0] |= has_no_cells
        rows, columns = np.nonzero(filled.T)
        turned = {name: pc.take(table[name], pa.array(rows)) for name in row_columns}
        headers = pa.array(["" if NAMELESS.fullmatch(name) else name for name in names], pa.string())
        turned[self.headers] = headers.dictionary_encode().take(pa.array(columns, mask=has_no_cells[rows]))
        turned[self.cells] = pc.take(cells, pa.array(columns * len(table) + rows))
        if faulty.any():
            turned[FAULT] = _fault_of_cells(turned, [name for name in [*row_columns, self.cells] if name != FAULT])
        return pa.table(turned)


def columns_of(source: AnySource, spec: Spec, columns: Columns) -> Columns:
    """Columns required of a source, according to its layout."""
    if source.wide is None:
        return columns
    demand_columns = spec.demand.columns
    headers, header_kind = (
        (demand_columns.depot_id, "depot") if source.wide == "depots" else (demand_columns.day, "day")
    )
    return WideColumns(
        columns.required,
        columns.optional,
        headers=headers,
        cells=demand_columns.demand,
        what=header_kind,
        ignored=source.ignore,
    )


def turned(pieces: Pieces, columns: Columns) -> Pieces:
    """Pieces of a source with one row per reading, whatever its layout."""
    return map_tables(pieces, columns.readings) if isinstance(columns, WideColumns) else pieces


def _one_type(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Values of all columns, one after another: numbers if all are numeric, else text."""
    columns = [for_pandas(values) for values in columns]
    if all(pa.types.is_int64(values.type) for values in columns):
        kind = pa.int64()
    elif all(pa.types.is_integer(values.type) or pa.types.is_floating(values.type) for values in columns):
        kind = pa.float64()
    else:
        kind = pa.string()
    chunks = [chunk for values in columns for chunk in pc.cast(values, kind).chunks]
    return pa.chunked_array(chunks, kind).combine_chunks()


def _filled(cells: pa.Array) -> NDArray[np.bool_]:
    """Mark cells with a value."""
    filled = pc.is_valid(cells)
    if is_text(cells.type):
        filled = pc.and_kleene(filled, pc.not_equal(pc.utf8_trim_whitespace(cells), ""))
    elif pa.types.is_floating(cells.type):
        filled = pc.and_kleene(filled, pc.invert(pc.is_nan(cells)))
    # kleene: false and null is false
    mask: NDArray[np.bool_] = filled.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def _are_faulty(table: pa.Table) -> NDArray[np.bool_]:
    if FAULT not in table.column_names:
        return np.zeros(len(table), np.bool_)
    mask: NDArray[np.bool_] = pc.not_equal(table[FAULT], "").to_numpy().astype(np.bool_)
    return mask


def _fault_of_cells(readings: dict[str, pa.Array], names: Sequence[str]) -> pa.Array:
    """Fault of each reading; undecodable bytes count only if a value of the reading has one."""
    fault = readings[FAULT]
    is_odd = pc.invert(pc.starts_with(fault, NO_TEXT))
    for name in names:
        values = readings[name]
        if pa.types.is_dictionary(values.type):
            values = pc.cast(values, values.type.value_type)
        if is_text(values.type):
            is_odd = pc.or_(is_odd, pc.fill_null(pc.match_substring_regex(values, _ESCAPE), False))
    return pc.if_else(is_odd, fault, "")
