"""Streaming feed of any source: blocks of rows with their positions, then a content digest and a
watermark.

A kind is a generator of pieces, which are Arrow tables of any size, that returns its ending. Here
the pieces become frames of a suitable size, with the types that the rest of the package reads.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forecaster.config import credentials
from forecaster.core.language.near_words import plain
from forecaster.errors import ForecasterError, SourceError

ROW, FAULT, FILE = "row", ":fault", ":file"  # source columns with such a name are rejected
NAMELESS = re.compile(r"\(column \d+\)")  # name given to a column without a header
BLOCK = 2_000_000  # maximum rows of a block
_ENOUGH = BLOCK  # rows that fill a block; smaller pieces wait for the next ones
# characters kept of a cell: no table holds a cell of 100 MB, and nobody reads it
LONGEST_CELL = 100_000
_PARTS_OF_DAYS = ({"year", "month"}, {"jahr", "monat"}, {"annee", "mois"}, {"ano", "mes"}, {"anno", "mese"})
_DAYS = {"day", "date", "tag", "datum", "jour", "fecha", "dia", "giorno", "data"}
_A_WEEK = 7  # minimum number of columns for numbered days
_MOST_LISTED = 15  # column names in a message
EXACT = 2**53  # largest integer up to which a double holds all
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970
_NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
_PARTS_OF_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class FurtherSheets(NamedTuple):
    """Unread sheets of a workbook that have the same columns as the one being read."""

    file: str
    read: str  # name of the sheet
    days: Mapping[str, NDArray[np.int64]]  # sheet → the days in it, since 1970


@dataclass(frozen=True)
class Ending:
    """Facts about a source once it has been read."""

    digest: str
    watermark: str | None = None
    further_sheets: tuple[FurtherSheets, ...] = ()  # one per workbook that has some


Pieces = Generator[tuple[str, pa.Table], None, Ending]
"""A file's name and rows of it, per piece: the columns, `row` and, if a row may be malformed,
`:fault`."""


def map_tables(pieces: Pieces, change: Callable[[pa.Table], Iterable[pa.Table]]) -> Pieces:
    """Pieces of a source with each table replaced by others; the ending stays."""
    while True:
        try:
            name, table = next(pieces)
        except StopIteration as end:
            ending: Ending = end.value
            return ending
        for part in change(table):
            yield name, part


class Feed:
    """Rows of a source, readable once.

    `blocks` are frames of at most BLOCK rows: the columns, `row`, `:fault` ("" if the row is
    well-formed) and `:file` (a Categorical). Text of few distinct values may be a Categorical, too.
    There is at least one block, possibly without rows. An optional column is in the blocks of the
    files that have it.
    """

    def __init__(self, name: str, pieces: Pieces) -> None:
        self.name = name
        self._ending: Ending | None = None
        self.blocks: Iterator[pd.DataFrame] = self._blocks(pieces)

    @property
    def digest(self) -> str:
        """Twelve hex digits, the same for the same content; known after the last block."""
        return self._require_ending().digest

    @property
    def watermark(self) -> str | None:
        """Start of the next feed; None if no watermark is declared. Known after the last block."""
        return self._require_ending().watermark

    @property
    def further_sheets(self) -> tuple[FurtherSheets, ...]:
        """Unread sheets; known after the last block."""
        return self._require_ending().further_sheets

    def _require_ending(self) -> Ending:
        assert self._ending is not None, "a feed has its digest and watermark after the last block was taken"
        return self._ending

    def _blocks(self, pieces: Pieces) -> Iterator[pd.DataFrame]:
        with _translated_errors(self.name):
            yield from _gather_blocks(self._until_the_end(pieces))

    def _until_the_end(self, pieces: Pieces) -> Iterator[tuple[str, pa.Table]]:
        self._ending = yield from pieces


@dataclass(frozen=True)
class Columns:
    """Columns to read from a source."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    others: bool = False  # read further columns as well

    def of(self, place: str, available: Sequence[str]) -> list[str]:
        """Columns to read of those available. Raises SourceError, prefixed with `place`, if a
        required column is missing or occurs twice, or an optional one has another spelling and
        would be silently omitted."""
        columns = list(dict.fromkeys([*self.required, *(column for column in self.optional if column in available)]))
        for column in columns:
            if column == ROW or column.startswith(":"):
                raise SourceError(
                    f"{place}: column '{column}' has a name that is reserved for the position of a row; rename it"
                )
            if missing := [name for name in columns if name not in available]:
                names = f"columns {_listed(available)}" if any(available) else "no columns, as in an empty file"
                quoted = ", ".join(f"'{name}'" for name in missing)
                raise SourceError(f"{place}: found {names}; wanted {quoted}{_hint(missing, available)}")
            if list(available).count(column) > 1:
                raise SourceError(f"{place}: found column '{column}' twice; wanted each name once")
        for column in set(self.optional) - set(columns):
            spellings = [name for name in available if plain(name) == plain(column) and name not in columns]
            if spellings and plain(column):
                raise SourceError(
                    f"{place}: found column '{spellings[0]}', which is not read; wanted '{column}', or its name in the "
                    "pipeline file: case and punctuation matter"
                )
        free = [name for name in available if self.others and name != ROW and name[:1] not in ("", ":")]
        return [*columns, *(name for name in free if name not in columns and free.count(name) == 1)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_LISTED]) + (f", … ({len(names)} in all)" if len(names) > _MOST_LISTED else "")


def _hint(missing: Sequence[str], available: Sequence[str]) -> str:
    spellings = {plain(name): name for name in reversed(available) if plain(name)}
    alike = {name: spellings[plain(name)] for name in missing if plain(name) in spellings}
    if alike:
        likely_names = ", ".join(
            f"'{other}'" if len(missing) == 1 else f"'{other}' for '{name}'" for name, other in alike.items()
        )
        return f"; did you mean {likely_names}? Case, spaces and punctuation matter"
    if numbered := numbered_days(available):
        return numbered
    if len(missing) > 1:
        return ""
    [column] = missing
    if close := difflib.get_close_matches(column, available, n=1):
        return f"; did you mean '{close[0]}'?"
    parts = next((parts for parts in _PARTS_OF_DAYS if parts <= spellings.keys()), None)
    if parts and plain(column) in _DAYS:
        part_names = " and ".join(f"'{spellings[part]}'" for part in sorted(parts, reverse=True))
        return f"; columns {part_names} are not combined: wanted dates such as 2024-03-05 in one column"
    return ""


def numbered_days(names: Sequence[str]) -> str:
    """End of a sentence about columns d_1, d_2 and so on; empty if most have other names."""
    stems = [(match[1], int(match[2])) for name in names if (match := re.fullmatch(r"(\w*?[^\W\d]_?)([0-9]+)", name))]
    stem = max({stem for stem, _ in stems}, key=lambda stem: sum(stem == other for other, _ in stems), default="")
    numbers = sorted(number for other, number in stems if other == stem)
    if len(numbers) < max(_A_WEEK, len(names) / 2) or numbers != [*range(numbers[0], numbers[0] + len(numbers))]:
        return ""
    return (
        f"; columns {stem}{numbers[0]} to {stem}{numbers[-1]} seem to be numbered days: rename each to its date, as in "
        "2024-03-05 for the first, and set demand.source.wide: days"
    )


def header_names(fields: Iterable[str]) -> list[str]:
    """Column names of a header; nameless ones are named by position if any column has a name."""
    names = [field.strip() for field in fields]
    return [name or f"(column {place})" for place, name in enumerate(names, start=1)] if any(names) else names


def numbered(table: pa.Table, first: int) -> pa.Table:
    """The table with `row` counting from `first`."""
    return table.append_column(ROW, pa.array(np.arange(first, first + len(table), dtype=np.int64)))


def joined(blocks: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """All blocks in one frame; Categoricals stay Categoricals."""
    if len(blocks) == 1:
        return blocks[0]
    frame = pd.concat(blocks, ignore_index=True)
    for column in frame.columns:
        parts = [block[column] for block in blocks if column in block]
        if len(parts) == len(blocks) and all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            frame[column] = pd.api.types.union_categoricals(parts)
    return frame


@contextmanager
def _translated_errors(name: str) -> Iterator[None]:
    """Hide credentials in errors and drop their cause, which a traceback would show."""
    try:
        yield
    except ForecasterError as error:
        raise type(error)(credentials.hide(str(error))) from None
    except pa.ArrowException as error:
        raise SourceError(credentials.hide(f"{name}: found values that cannot be represented ({error})")) from None


def _gather_blocks(pieces: Iterable[tuple[str, pa.Table]]) -> Iterator[pd.DataFrame]:
    """Blocks of a suitable size: large pieces are cut, small ones wait for the next, unless the
    columns change."""
    pending: list[tuple[str, pa.Table]] = []
    empty, any_yielded = None, False
    for name, table in pieces:
        empty = empty or (name, table.slice(0, 0))
        for start in range(0, len(table), BLOCK):
            part = table.slice(start, BLOCK)
            if pending and (_rows(pending) + len(part) > BLOCK or not _alike(pending[0][1], part)):
                yield _frame(pending)
                pending, any_yielded = [], True
            pending.append((name, part))
            if _rows(pending) >= _ENOUGH:
                yield _frame(pending)
                pending, any_yielded = [], True
    if pending:
        yield _frame(pending)
    elif not any_yielded and empty:
        yield _frame([empty])


def _rows(pieces: Iterable[tuple[str, pa.Table]]) -> int:
    return sum(len(table) for _, table in pieces)


def _alike(first: pa.Table, second: pa.Table) -> bool:
    """True if both have the same source columns; a column of faults is ignored."""
    plain, of_other = (_without_faults(table.schema) for table in (first, second))
    return bool(plain.equals(of_other))


def _without_faults(schema: pa.Schema) -> pa.Schema:
    return schema.remove(schema.get_field_index(FAULT)) if FAULT in schema.names else schema


def _with_faults(table: pa.Table) -> pa.Table:
    """Table with a fault for each row, empty by default."""
    if FAULT in table.column_names:
        return table
    return table.append_column(FAULT, pa.repeat(pa.scalar("", pa.large_string()), len(table)))


def _frame(pieces: Sequence[tuple[str, pa.Table]]) -> pd.DataFrame:
    """Combine the pieces into one block."""
    names = list(dict.fromkeys(name for name, _ in pieces))
    # drop the schema metadata of other programs, which pandas would read
    tables = [piece for _, piece in pieces]
    if any(FAULT in piece.column_names for piece in tables):
        tables = [_with_faults(piece) for piece in tables]
    table = pa.concat_tables(tables).replace_schema_metadata()
    for place, column in enumerate(table.column_names):
        table = table.set_column(place, column, _cut(for_pandas(table[column])))
    table = _with_faults(table)
    frame: pd.DataFrame = table.unify_dictionaries().to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper={pa.bool_(): pd.BooleanDtype()}.get
    )
    for column in table.column_names:
        if _too_wide(table[column]):
            frame[column] = table[column].to_pandas(types_mapper=_NULLABLE.get)
    places = {name: place for place, name in enumerate(names)}
    codes: NDArray[np.int64] = np.repeat([places[name] for name, _ in pieces], [len(piece) for _, piece in pieces])
    frame[FILE] = pd.Categorical.from_codes(codes, pd.Index(names))
    return frame


def for_pandas(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a type that pandas holds well: decimals as doubles, or as text if doubles would
    change them, as with long ids; bytes, lists and the like as text."""
    kind = values.type
    if pa.types.is_decimal(kind):
        doubles = pc.cast(values, pa.float64())
        return _plain_decimals(values) if _beyond_exact(doubles) else doubles
    # Arrow has few functions for these types
    if pa.types.is_null(kind) or pa.types.is_string_view(kind):
        return pc.cast(values, pa.string())
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        return for_pandas(pc.cast(values, kind.value_type))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # pandas may not know the zone; and nanoseconds end in 2262
        values = pc.cast(values, pa.timestamp("us" if kind.unit == "ns" else kind.unit, "UTC"), safe=False)
    if pa.types.is_temporal(kind) and _leaves_calendar(values):
        return _far_moments(values)
    return values if _is_held_by_pandas(kind) else escaped(values)


def _cut(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values with text beyond LONGEST_CELL cut off."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, _cut(pa.chunked_array([chunk.dictionary])).combine_chunks())
            if _too_long(chunk.dictionary)
            else chunk
            for chunk in values.chunks
        ]
        return pa.chunked_array(chunks, kind)
    if not is_text(kind) or not _too_long(values):
        return values
    return pc.if_else(pc.greater(pc.binary_length(values), LONGEST_CELL), _shorter(values), values)


def _too_long(values: pa.Array | pa.ChunkedArray) -> bool:
    return is_text(values.type) and (pc.max(pc.binary_length(values)).as_py() or 0) > LONGEST_CELL


def _shorter(values: pa.ChunkedArray) -> pa.ChunkedArray:
    text = pc.utf8_slice_codeunits(values, 0, LONGEST_CELL)
    return pc.binary_join_element_wise(text, pa.scalar("…", values.type), pa.scalar("", values.type))


def _is_held_by_pandas(kind: pa.DataType) -> bool:
    """True for numbers, booleans, text, days and instants; values of other types are shown as text."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    moment = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return bool(number or moment or is_text(kind) or pa.types.is_dictionary(kind))


def _leaves_calendar(values: pa.ChunkedArray) -> bool:
    """True if any day or instant is outside the years 1 to 9999, which few tools can even print."""
    if pa.types.is_timestamp(values.type):
        a_day, integer_type = 86_400 * _PARTS_OF_SECOND[values.type.unit], pa.int64()
    elif pa.types.is_date(values.type):
        a_day, integer_type = (1, pa.int32()) if pa.types.is_date32(values.type) else (86_400_000, pa.int64())
    else:
        return False
    ends = pc.min_max(pc.cast(values, integer_type)).as_py()
    return ends["min"] is not None and bool(ends["min"] < _FIRST_DAY * a_day or ends["max"] >= (_LAST_DAY + 1) * a_day)


def _far_moments(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days and instants as text; those outside the calendar then fail to parse as dates."""
    if not pa.types.is_timestamp(values.type):
        return pc.cast(values, pa.string())
    zone = "Z" if values.type.tz else ""
    return pc.binary_join_element_wise(pc.cast(pc.cast(values, pa.timestamp(values.type.unit)), pa.string()), zone, "")


def escaped(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes decoded, with escapes if needed; other values as Python prints them."""
    return pa.chunked_array([pa.array([_words(value) for value in values], pa.string())])


def _words(scalar: pa.Scalar) -> str | None:
    if not scalar.is_valid:
        return None
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError, TypeError, NotImplementedError, KeyError):  # out of the range of Python's type
        return f"a value of type {scalar.type}"
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _too_wide(values: pa.ChunkedArray) -> bool:
    """True for integers with gaps that pandas would convert to inexact doubles."""
    return values.type in _NULLABLE and values.null_count > 0 and _beyond_exact(values)


def _beyond_exact(values: pa.ChunkedArray) -> bool:
    """True if any value exceeds the range in which doubles hold every integer."""
    ends = pc.min_max(values).as_py()
    return ends["max"] is not None and max(-ends["min"], ends["max"]) > EXACT


def _plain_decimals(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as text, without trailing zeros of a fraction."""
    texts = [None if value is None else f"{value:f}" for value in values.to_pylist()]
    plain = [text if text is None or "." not in text else text.rstrip("0").rstrip(".") for text in texts]
    return pa.chunked_array([pa.array(plain, pa.string())])
