"""Typed readings in few bytes, so that 55 million of them fit: one row a reading.

Columns: `depot_id` (categorical), `day` (int32, days since 1970), `demand` (float64, NaN = not known), `open` (int8:
1, 0, or -1 where the source does not say), `recorded_at` (int64, µs since 1970 UTC), `row` (int64), `source`
(categorical), one column for each covariate (float64, or categorical for words), and `rows` (int32), how many rows of
the source the reading was made of, where they are aggregated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

OWN = ("depot_id", "day", "demand", "open", "recorded_at", "row", "source", "rows")
GROWTH = 1.2  # by which a column grows when it is full
Column = Any  # a pandas Series


def from_typed(typed: pd.DataFrame, covariates: Sequence[str]) -> pd.DataFrame:
    """Readings from the contract's typed rows, of which every one has a depot, a date and an instant."""
    opened = typed["open"].fillna(-1).astype("int8")
    return pd.DataFrame(
        {
            "depot_id": typed["depot_id"],
            "day": _days(typed["date"]),
            "demand": typed["demand"].astype("float64"),
            "open": opened,
            "recorded_at": typed["recorded_at"].to_numpy("datetime64[us]").astype("int64"),
            "row": typed["row"].astype("int64"),
            "source": typed["source"].astype("category"),
            **{name: _covariate(typed[name]) for name in covariates},
        }
    )


def from_table(table: Any) -> pd.DataFrame:
    """Readings from an Arrow table of the lake's `demand`; the table gives its columns up one by one."""
    found: dict[str, Any] = {}
    for name in table.column_names:
        column, table = table[name], table.drop_columns([name])
        if name == "date":
            found["day"] = column.cast("int32").to_numpy()
        elif name == "open":
            found[name] = column.cast("int8").fill_null(-1).to_numpy()
        elif name == "recorded_at":
            found[name] = column.cast("int64").to_numpy()
        elif name == "depot_id":
            found[name] = column.to_pandas().astype("category")
        else:
            found[name] = column.to_numpy() if name in OWN else _covariate(column.to_pandas())
    return pd.DataFrame(found)


def together(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """All parts, one below the other, with the words of each categorical column in common."""
    pile, first, count = _Pile(), pd.DataFrame(), 0
    for count, part in enumerate(parts, 1):
        if count == 1:
            first = part
        else:
            if len(first.columns):
                pile.add(first)
                first = pd.DataFrame()
            pile.add(part)
    return first if count < 2 else pile.frame()


class _Pile:
    """Columns that grow in place: no column is ever there twice."""

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        self.words: dict[str, pd.Index[Any]] = {}
        self.rows = 0

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
        found: dict[str, Any] = {}
        for name, column in self.columns.items():
            column.resize(self.rows, refcheck=False)
            words = self.words.get(name)
            found[name] = column if words is None else pd.Categorical.from_codes(column, words, validate=False)
        return pd.DataFrame(found, copy=False)

    def _begin(self, name: str, column: Column) -> None:
        """A column of which the rows so far know nothing."""
        words = not pd.api.types.is_numeric_dtype(column)
        if words:
            self.words[name] = pd.Index([], dtype="str")
        kind = np.int32 if words else column.dtype
        self.columns[name] = np.full(self.rows, -1 if words or self.rows == 0 else np.nan, kind)

    def _grow(self, name: str, rows: int) -> None:
        if len(self.columns[name]) < rows:
            self.columns[name].resize(max(rows, int(len(self.columns[name]) * GROWTH)), refcheck=False)

    def _codes(self, name: str, column: Column) -> NDArray[np.int32]:
        """The places of a column's words among all words so far."""
        told = column.astype("category").cat
        words = told.categories.astype("str")
        place = self.words[name].get_indexer(words)
        if (fresh := place < 0).any():
            self.words[name] = self.words[name].append(words[fresh])
            place = self.words[name].get_indexer(words)
        found: NDArray[np.int32] = np.append(place, -1).astype(np.int32)[told.codes]
        return found


def dates(readings: pd.DataFrame) -> Column:
    """The days of readings as dates."""
    day = readings["day"].to_numpy().astype("datetime64[D]").astype("datetime64[s]")
    return pd.Series(day, index=readings.index)


def covariates(readings: pd.DataFrame) -> list[str]:
    return [name for name in readings.columns if name not in OWN]


def _covariate(column: Column) -> Column:
    return column.astype("float64") if pd.api.types.is_numeric_dtype(column) else column.astype("category")


def _days(date: Column) -> Any:
    return date.to_numpy("datetime64[D]").astype("int64").astype("int32")
