"""Columnar schema of typed readings, compact enough for 55 million of them: one row per reading.

Columns: `depot_id` (categorical), `day` (int32, days since 1970), `demand` (float64, NaN =
unknown), `open` (int8: 1, 0, or -1 if the source does not state it), `recorded_at` (int64, µs since
1970 UTC), `row` (int64), `source` (categorical), one column per covariate (float64, or categorical
for words), and `rows` (int32), the number of source rows that were aggregated. Before the
aggregation: `HALF_HOUR` (int8) of each row, if shares of shifts are learned, and the hashes
`CONTENT` and, if orders have an id, `ORDER` (int64).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forecaster.demand.parsing import Kind, day_numbers, each_value

# no column of a source starts with a colon
HALF_HOUR, CONTENT, ORDER = ":half_hour", ":content", ":order"
FIXED_COLUMNS = ("depot_id", "day", "demand", "open", "recorded_at", "row", "source", "rows", HALF_HOUR, CONTENT, ORDER)
SEQUENCES = 4  # remembered sequences of ids: the batch's, those of the days before it
# words of an average run, not counting a few short runs; with shorter runs every word is searched
# for
LONG_RUN, SHORT_RUNS = 5_000, 4
COMPARED = 32_768  # words compared at a time
GROWTH = 1.2  # factor by which a full column grows
CHUNK = 1_000_000  # rows prepared for the lake at a time
Column = Any  # a pandas Series


def from_typed(typed: pd.DataFrame, covariates: Sequence[str]) -> pd.DataFrame:
    """Readings from the contract's typed rows; each has a depot, a date and an instant."""
    open_flags = typed["open"].to_numpy("float64")
    open_codes = np.where(np.isnan(open_flags), -1, open_flags).astype("int8")
    return pd.DataFrame(
        {
            "depot_id": typed["depot_id"],
            "day": _days(typed["date"]),
            "demand": typed["demand"].astype("float64"),
            "open": open_codes,
            "recorded_at": typed["recorded_at"].to_numpy("datetime64[us]").astype("int64"),
            "row": typed["row"].astype("int64"),
            "source": typed["source"].astype("category"),
            **{name: typed[name].to_numpy() for name in (HALF_HOUR, CONTENT, ORDER) if name in typed},
            **{name: _covariate(typed[name]) for name in covariates},
        },
        copy=False,
    )


def from_table(table: Any, depots: DepotCategories | None = None) -> pd.DataFrame:
    """Readings from an Arrow table of the lake's `demand`; columns leave the table one by one to
    save memory.

    A dictionary-encoded `depot_id` has the categories of `depots`, which grow by the table's new
    ids.
    """
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column, table = table[name], table.drop_columns([name])
        if name == "date":
            columns["day"] = column.cast("int32").to_numpy()
        elif name == "open":
            columns[name] = column.cast("int8").fill_null(-1).to_numpy()
        elif name == "recorded_at":
            columns[name] = column.cast("int64").to_numpy()
        elif name == "depot_id":
            is_coded = pa.types.is_dictionary(column.type)
            columns[name] = (depots or DepotCategories()).of(column) if is_coded else _covariate(column.to_pandas())
        else:
            columns[name] = column.to_numpy() if name in FIXED_COLUMNS else _covariate(column.to_pandas())
    return pd.DataFrame(columns)


class DepotCategories:
    """Depot ids as growing categories: an id has the same code in all pieces of the lake.

    A search among a million words takes a quarter of a second, however few are searched for.
    Consecutive pieces mostly have the same words in long runs of the same order; these are compared
    instead.
    """

    def __init__(self, depots: pd.Index[Any] | None = None) -> None:
        """`depots` are the first categories."""
        self._index = pd.Index([], dtype="str") if depots is None else depots
        self._words = arrow_words(self._index)
        self._sequences = [(self._words, np.arange(len(self._words), dtype=np.int32))]

    def of(self, column: pa.ChunkedArray) -> pd.Categorical:
        """Convert a dictionary-encoded column of ids; nulls get no category."""
        last, codes, parts = None, np.zeros(0, np.int32), [np.zeros(0, np.int32)]
        for piece in filter(len, column.chunks):
            if last is None or not piece.dictionary.equals(last):
                last = piece.dictionary
                codes = np.append(self._codes_of(last), np.int32(-1))
            parts.append(codes[piece.indices.fill_null(-1).to_numpy()])
        return pd.Categorical.from_codes(np.concatenate(parts), self._index, validate=False)

    def _codes_of(self, dictionary: pa.Array) -> NDArray[np.int32]:
        """Code of each word of a dictionary."""
        for sequence, codes in self._sequences:
            if (places := _places_by_runs(dictionary, sequence)) is not None:
                of_words: NDArray[np.int32] = codes[places]
                return of_words
        places = pc.index_in(dictionary, value_set=self._words)
        if places.null_count:
            self._words = pa.concat_arrays([self._words, dictionary.filter(places.is_null()).unique()])
            self._index = pd.Index(self._words.to_pandas(), dtype="str")
            places = pc.index_in(dictionary, value_set=self._words)
        of_words = places.to_numpy()
        # keep the longest sequences; the others are parts of them
        longest = sorted([*self._sequences, (dictionary, of_words)], key=lambda sequence: -len(sequence[0]))
        self._sequences = longest[:SEQUENCES]
        return of_words


def _places_by_runs(values: pa.Array, sequence: pa.Array) -> NDArray[np.int64] | None:
    """Position of each word in a sequence that contains the words in long runs; None if it does
    not."""
    if values.type != sequence.type or not 0 < len(values) <= len(sequence):
        return None
    places, runs = [np.zeros(0, np.int64)], 0
    begin = 0
    while begin < len(values):
        start = pc.index(sequence, values[begin]).as_py()
        runs += 1
        if start < 0 or begin < LONG_RUN * (runs - SHORT_RUNS):
            return None
        length = _common_length(values.slice(begin), sequence.slice(start))
        places.append(np.arange(start, start + length))
        begin += length
    return np.concatenate(places)


def _common_length(values: pa.Array, other_values: pa.Array) -> int:
    """Number of leading words in common."""
    most, length = min(len(values), len(other_values)), 0
    while length < most:
        step = min(COMPARED, most - length)
        part, other = values.slice(length, step), other_values.slice(length, step)
        if not part.equals(other):
            return length + int(pc.index(pc.equal(part, other), pa.scalar(False)).as_py())
        length += step
    return length


def arrow_words(values: Any) -> pa.Array:
    """Words as one Arrow array; pandas may return several chunks, which Arrow would convert to
    Python objects and back."""
    array = pa.array(values, pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def are_among(values: pd.Index[Any], other_values: pd.Index[Any] | pa.Array) -> NDArray[np.bool_]:
    """Mark words that are among others; compares a million without creating Python objects."""
    is_other = pc.is_in(arrow_words(values), value_set=arrow_words(other_values))
    answer: NDArray[np.bool_] = is_other.to_numpy(zero_copy_only=False)
    return answer


def release_memory() -> None:
    """Return free memory to the system: Arrow's and, with glibc, the heap's. The heap otherwise
    keeps the gaps left by arrays of some megabytes, in which larger arrays do not fit."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def concatenate(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the parts; the parts of a categorical column share their categories."""
    pile, first, count = _GrowingTable(), pd.DataFrame(), 0
    for count, part in enumerate(parts, 1):
        if count == 1:
            first = part
        else:
            if len(first.columns):
                pile.add(first)
                first = pd.DataFrame()
            pile.add(part)
    return first if count < 2 else pile.frame()


class _GrowingTable:
    """Columns that grow in place: no column is ever held twice."""

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        self.words: dict[str, pd.Index[Any]] = {}
        self.rows = 0
        # words of the last part and their positions
        self._last: dict[str, tuple[pd.Index[Any], NDArray[np.int32]]] = {}

    def add(self, part: pd.DataFrame) -> None:
        for name in dict.fromkeys([*self.columns, *part.columns]):
            column = part[name] if name in part else pd.Series(np.nan, part.index)
            if name not in self.columns:
                self._begin(name, column)
            values = self._codes(name, column) if name in self.words else column.to_numpy(self.columns[name].dtype)
            self._grow(name, self.rows + len(part))
            self.columns[name][self.rows : self.rows + len(part)] = values
        self.rows += len(part)

    def frame(self) -> pd.DataFrame:
        columns: dict[str, Any] = {}
        for name, column in self.columns.items():
            column.resize(self.rows, refcheck=False)
            categories = self.words.get(name)
            columns[name] = (
                column if categories is None else pd.Categorical.from_codes(column, categories, validate=False)
            )
        return pd.DataFrame(columns, copy=False)

    def _begin(self, name: str, column: Column) -> None:
        """Begin a column that the rows so far do not have."""
        is_text = not pd.api.types.is_numeric_dtype(column)
        if is_text:
            self.words[name] = pd.Index([], dtype="str")
        kind = np.int32 if is_text else column.dtype
        self.columns[name] = np.full(self.rows, -1 if is_text or self.rows == 0 else np.nan, kind)

    def _grow(self, name: str, rows: int) -> None:
        if len(self.columns[name]) < rows:
            self.columns[name].resize(max(rows, int(len(self.columns[name]) * GROWTH)), refcheck=False)

    def _codes(self, name: str, column: Column) -> NDArray[np.int32]:
        """Positions of a column's words among all words so far."""
        categorical = column.astype("category").cat
        last = self._last.get(name)
        if last is None or last[0] is not categorical.categories:
            last = self._last[name] = categorical.categories, self._places(name, categorical.categories.astype("str"))
        codes: NDArray[np.int32] = last[1][categorical.codes.to_numpy()]
        return codes

    def _places(self, name: str, categories: pd.Index[Any]) -> NDArray[np.int32]:
        """Position of each word among all words of a column so far; the final -1 stands for missing
        values."""
        if (is_new := self.words[name].get_indexer(categories) < 0).any():
            self.words[name] = self.words[name].append(categories[is_new])
        return np.append(self.words[name].get_indexer(categories), -1).astype(np.int32)


class Days:
    """Index of rows by day; every row has a day."""

    def __init__(self, day: NDArray[np.int32]) -> None:
        in_order = bool((day[1:] >= day[:-1]).all())
        self.order = None if in_order else np.argsort(day, kind="stable")
        self._day = day if self.order is None else day[self.order]

    def between(self, first: int, last: int) -> slice | NDArray[np.intp]:
        """Rows from the first day to the last; a slice if they are contiguous."""
        begin, end = np.searchsorted(self._day, np.array([first, last + 1], self._day.dtype))
        return slice(begin, end) if self.order is None else self.order[begin:end]


def dates(readings: pd.DataFrame) -> Column:
    """The days of readings as dates."""
    day = readings["day"].to_numpy().astype("datetime64[D]").astype("datetime64[s]")
    return pd.Series(day, index=readings.index)


def day_words(readings: pd.DataFrame, form: str = "%Y-%m-%d") -> Column:
    """The days of readings as text, each distinct day written once."""
    return each_value(dates(readings), lambda distinct: distinct.dt.strftime(form).astype("str"), "")


def depot_ids(readings: pd.DataFrame) -> pd.Index[Any]:
    """Depots with at least one reading, in the order of the categories."""
    depots = readings["depot_id"].cat
    has_reading = np.zeros(len(depots.categories), np.bool_)
    has_reading[depots.codes.to_numpy()] = True
    ids: pd.Index[Any] = depots.categories[has_reading]
    return ids


def covariates(readings: pd.DataFrame) -> list[str]:
    return [name for name in readings.columns if name not in FIXED_COLUMNS]


def _covariate(column: Column) -> Column:
    return column.astype("float64") if pd.api.types.is_numeric_dtype(column) else column.astype("category")


def _days(date: Column) -> Any:
    return day_numbers(date.to_numpy()).astype("int32")


def demand_table(accepted: pd.DataFrame, *, batch: str) -> Iterator[pa.Table]:
    """Readings as rows of the lake's `demand`, sorted by day, so that the rows of a day lie
    together."""
    order, names = Days(accepted["day"].to_numpy()).order, covariates(accepted)
    dictionaries = {name: arrow_words(accepted[name].cat.categories) for name in ("depot_id", "source")}
    for start in range(0, len(accepted), CHUNK):
        chunk = slice(start, start + CHUNK)
        part = accepted.iloc[chunk if order is None else order[chunk]]
        open_codes = part["open"].to_numpy()
        columns = {
            "depot_id": _dictionary_array(part["depot_id"].cat.codes.to_numpy(), dictionaries["depot_id"]),
            "date": pa.array(part["day"].to_numpy()).cast(pa.date32()),
            "demand": pa.array(part["demand"].to_numpy(), from_pandas=True),
            "open": pa.array(open_codes == 1, mask=open_codes == -1),
            "source": _dictionary_array(part["source"].cat.codes.to_numpy(), dictionaries["source"]),
            "batch": _dictionary_array(np.zeros(len(part), np.int32), pa.array([batch])),
            "row": pa.array(part["row"].to_numpy()),
            "recorded_at": pa.array(part["recorded_at"].to_numpy()).cast(pa.timestamp("us", tz="UTC")),
            **{name: pa.array(part[name].array, from_pandas=True) for name in names},
        }
        yield pa.table({name: column for name, column in columns.items() if len(part)})


def _dictionary_array(codes: NDArray[np.integer[Any]], dictionary: pa.Array) -> pa.DictionaryArray:
    """Dictionary array, which the lake writes fastest: each word once, and one code per row."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32, copy=False)), dictionary)


def covariate_kind(kind: pa.DataType) -> Kind:
    """Kind of a covariate's column in the lake."""
    return "string" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "double"
