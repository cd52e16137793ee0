"""Content of each column of a table (days, numbers or words) and its notation, guessed by name and
values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.demand.parsing import Notation
from forecaster.onboarding import column_names, notation
from forecaster.onboarding.notation import DateForm
from forecaster.onboarding.tables import FileTable

_NEARLY_UNIQUE = 0.95
_SOME_ROWS = 20  # minimum number of rows to judge whether each has its own number
_SURE = 10  # expected number of equal values by chance, above which having none is significant
_OTHERS = 20  # columns used to distinguish a decimal mark from one of thousands
_ORDERS = 50  # minimum number of rows to judge whether each has its own number


@dataclass(frozen=True)
class Column:
    """A column by name, with its values."""

    name: str
    values: Any  # a pandas Series

    @cached_property
    def distinct(self) -> Any:
        return notation.distinct(self.values)

    @cached_property
    def dates(self) -> DateForm | None:
        """Form of the column's days; numbers count as days only in a form such as 20240305."""
        if pd.api.types.is_datetime64_any_dtype(self.values):
            return DateForm(None, 1.0)
        if pd.api.types.is_bool_dtype(self.values) or pd.api.types.is_float_dtype(self.values):
            return None
        return notation.date_form(self.distinct)

    @cached_property
    def are_numbers(self) -> bool:
        if pd.api.types.is_datetime64_any_dtype(self.values) or pd.api.types.is_bool_dtype(self.values):
            return False
        return pd.api.types.is_numeric_dtype(self.values) or notation.marks(self.distinct) is not None

    @cached_property
    def marks(self) -> tuple[str | None, str]:
        """Thousands and decimal mark of the column's numbers, from its own values alone."""
        return (None, ".") if self.is_typed else notation.marks(self.distinct) or (None, ".")

    @property
    def is_typed(self) -> bool:
        """True if the values are numeric by type, so that no notation matters."""
        return bool(pd.api.types.is_numeric_dtype(self.values))

    @cached_property
    def is_empty(self) -> bool:
        values = self.values.dropna()
        first, rest = values.iloc[:_SOME_ROWS], values.iloc[_SOME_ROWS:]
        return not (_has_text(first) or _has_text(rest))

    @cached_property
    def is_flag(self) -> bool:
        """True for at most two values, such as 0 and 1."""
        return len(self.distinct) <= 2

    def numbers(self, marks: tuple[str | None, str]) -> Any:
        """Values as numbers; NaN if missing or not numeric."""
        return parsing.numbers(self.values, Notation(*marks)).replace([np.inf, -np.inf], np.nan)


def of(table: FileTable) -> dict[str, Column]:
    """Columns with any content, by name."""
    columns = {name: Column(name, table.frame[name]) for name in table.frame}
    return {name: column for name, column in columns.items() if not column.is_empty}


def _has_text(values: Any) -> bool:
    return bool((values.astype("str").str.strip() != "").any())


def marks(column: Column, columns: Mapping[str, Column]) -> tuple[str | None, str]:
    """Thousands and decimal mark of a column of numbers, also considering the other columns."""
    if column.is_typed:
        return None, "."
    other_texts = [other.distinct for other in columns.values() if other is not column and not other.is_typed]
    return notation.marks(column.distinct, other_texts[:_OTHERS]) or (None, ".")


def numbers(column: Column, columns: Mapping[str, Column]) -> Any:
    """Values of a column as numbers, in the notation found in it and the other columns."""
    return column.numbers(marks(column, columns))


def depot_of_area(area: Column, candidates: list[Column], days: Any) -> Column | None:
    """Column of depots, if another column names areas of several depots each, such as regions."""
    if not column_names.says(area.name, "area") or repeats(area, days) < 1 - _NEARLY_UNIQUE:
        return None
    within = [
        column
        for column in candidates
        if column.values.nunique() > area.values.nunique()
        and not any(column_names.says(column.name, role) for role in ("calendar", "actor"))
        and (column_names.is_id(column.name) or not column_names.says(column.name, "demand"))
        and constant_a_depot(area, column.values)
        and _fills(column, days)
    ]
    complete = [column for column in within if repeats(column, days) < 1 - _NEARLY_UNIQUE]
    likely = complete or [column for column in within if column_names.says(column.name, "depot")]
    return min(
        likely, key=lambda column: (repeats(column, days), column_names.rank(column.name, "depot")), default=None
    )


def counts_by_name(column: Column) -> bool:
    """True if a name such as `store_visitors` rather denotes a count than a depot."""
    return column_names.rank(column.name, "demand") < column_names.rank(column.name, "depot") and column.are_numbers


def varies_by_day(column: Column, days: Any) -> bool:
    """True for one row per day with values that often change, such as the counts of a site called
    Centre; ids do not."""
    if not column.are_numbers or days.nunique() < _NEARLY_UNIQUE * len(days):
        return False
    values = column.values.to_numpy()[np.argsort(days.to_numpy(), kind="stable")]
    return bool((values[1:] != values[:-1]).mean() > 0.2)


def repeats(column: Column, days: Any) -> float:
    """Share of rows that are not the first one of their value and day."""
    pairs = pd.DataFrame({"value": pd.factorize(column.values)[0], "day": pd.factorize(days)[0]})
    return float(pairs.duplicated().mean())


def _fills(column: Column, days: Any) -> bool:
    """True if each value has rows on a good part of all days, as a depot does and a count does not."""
    return bool(len(days) >= 0.3 * column.values.nunique() * days.nunique())


def constant_a_depot(column: Column, depots: Any) -> bool:
    """True if each depot has at most one value."""
    codes, _ = pd.factorize(column.values)
    pairs = pd.DataFrame({"depot": pd.factorize(depots)[0], "value": codes})[codes >= 0].drop_duplicates()
    return bool(pairs["depot"].is_unique)


def is_money(column: Column, columns: Mapping[str, Column], *, orders: bool) -> bool:
    """True for amounts of money, recognized by name, or by decimals if each row is an order."""
    if column_names.says(column.name, "money"):
        return True
    if not orders or not column.are_numbers:
        return False
    numbers = Column(column.name, column.distinct).numbers(marks(column, columns)).dropna()
    return bool((numbers % 1 != 0).mean() > 0.5)


def order_numbers(table: FileTable) -> list[str]:
    """Columns that number orders by their names and have unique values, as text or integers; rows
    that are identical in full may repeat."""
    names = [name for name in of(table) if column_names.is_order_number(name)]
    rows = table.frame.drop_duplicates() if names else table.frame
    return [name for name in names if _is_one_a_row(Column(name, rows[name]))]


def _is_one_a_row(column: Column) -> bool:
    texts = parsing.words(column.values)
    if len(texts) < _ORDERS or texts.isna().any() or (texts == "").any() or not texts.is_unique:
        return False
    return column.dates is None and not pd.api.types.is_float_dtype(column.values)


def numbers_rows(column: Column, several: bool) -> bool:
    """True for numbers of rows, if a site has several per day: integers, each once although counts
    of that size would repeat; or, if the name denotes a person who orders, integers of at least
    four digits, equal length and few repetitions, such as customer numbers."""
    numbers = column.numbers(column.marks).dropna().to_numpy()
    if not several or len(numbers) < _SOME_ROWS or (numbers % 1 != 0).any() or numbers.min() < 0:
        return False
    distinct, low, high = len(np.unique(numbers)), int(numbers.min()), int(numbers.max())
    twice_by_chance = len(numbers) ** 2 / (2 * (high - low + 1))
    if distinct == len(numbers) and twice_by_chance > _SURE:
        return True
    of_one_length = low >= 1_000 and len(str(low)) == len(str(high))
    return of_one_length and distinct > 0.5 * len(numbers) and column_names.holds_word(column.name, "actor")


def is_of_counts(column: Column) -> bool:
    """True for integers, none below 0, that are no running number."""
    numbers = column.numbers(notation.marks(column.distinct) or (None, ".")).dropna()
    runs = len(numbers) > 2 and bool((np.diff(numbers.to_numpy()) == 1).mean() > _NEARLY_UNIQUE)
    return bool(len(numbers) and (numbers >= 0).all() and (numbers % 1 == 0).mean() > 0.5 and not runs)


def listed(names: list[str], most: int = 3) -> str:
    """Quoted list of the first few names."""
    quoted = [f"'{name}'" for name in names[:most]]
    return ", ".join(quoted) + (f" and {len(names) - most} more" if len(names) > most else "")
