"""What each column of a table holds: days, numbers or words, and in which notation; guessed by name
and by content."""

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
_SOME_ROWS = 20  # tell whether each has a number of its own
_SURE = 10  # equal numbers that are expected by chance, where there is none
_OTHERS = 20  # columns that tell a decimal mark from one of thousands
_ORDERS = 50  # rows that tell whether each has a number of its own


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
        """The form of its days; a number counts as one only in a form such as 20240305."""
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
        """Thousands and decimal mark of its numbers, by its own values alone."""
        return (None, ".") if self.is_typed else notation.marks(self.distinct) or (None, ".")

    @property
    def is_typed(self) -> bool:
        """Are its values numbers by type, so that no notation matters?"""
        return bool(pd.api.types.is_numeric_dtype(self.values))

    @cached_property
    def is_empty(self) -> bool:
        given = self.values.dropna()
        first, rest = given.iloc[:_SOME_ROWS], given.iloc[_SOME_ROWS:]
        return not (_has_text(first) or _has_text(rest))

    @cached_property
    def is_flag(self) -> bool:
        """Two values at most, such as 0 and 1."""
        return len(self.distinct) <= 2

    def numbers(self, marks: tuple[str | None, str]) -> Any:
        """The values as numbers, NaN where there is none."""
        return parsing.numbers(self.values, Notation(*marks)).replace([np.inf, -np.inf], np.nan)


def of(table: FileTable) -> dict[str, Column]:
    """The columns that hold anything, by name."""
    columns = {name: Column(name, table.frame[name]) for name in table.frame}
    return {name: column for name, column in columns.items() if not column.is_empty}


def _has_text(values: Any) -> bool:
    return bool((values.astype("str").str.strip() != "").any())


def marks(column: Column, columns: Mapping[str, Column]) -> tuple[str | None, str]:
    """The thousands and decimal mark of a column of numbers, next to what the other columns
    show."""
    if column.is_typed:
        return None, "."
    others = [other.distinct for other in columns.values() if other is not column and not other.is_typed]
    return notation.marks(column.distinct, others[:_OTHERS]) or (None, ".")


def numbers(column: Column, columns: Mapping[str, Column]) -> Any:
    """Values of a column as numbers, in the notation that it and the others show."""
    return column.numbers(marks(column, columns))


def depot_of_area(area: Column, candidates: list[Column], days: Any) -> Column | None:
    """Column of depots, where another names areas of several depots each, such as regions."""
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
    """Does it rather count, as `store_visitors` does, than name a depot?"""
    return column_names.rank(column.name, "demand") < column_names.rank(column.name, "depot") and column.are_numbers


def varies_by_day(column: Column, days: Any) -> bool:
    """Has it a row a day and another number on many, as the counts of a site called Centre have,
    and no ids?"""
    if not column.are_numbers or days.nunique() < _NEARLY_UNIQUE * len(days):
        return False
    values = column.values.to_numpy()[np.argsort(days.to_numpy(), kind="stable")]
    return bool((values[1:] != values[:-1]).mean() > 0.2)


def repeats(column: Column, days: Any) -> float:
    """The share of rows that are not the first one of a value and day."""
    pairs = pd.DataFrame({"value": pd.factorize(column.values)[0], "day": pd.factorize(days)[0]})
    return float(pairs.duplicated().mean())


def _fills(column: Column, days: Any) -> bool:
    """Does each value have rows on a good part of all days, as a depot has and a count has not?"""
    return bool(len(days) >= 0.3 * column.values.nunique() * days.nunique())


def constant_a_depot(column: Column, depots: Any) -> bool:
    """Does each depot have at most one value?"""
    codes, _ = pd.factorize(column.values)
    pairs = pd.DataFrame({"depot": pd.factorize(depots)[0], "value": codes})[codes >= 0].drop_duplicates()
    return bool(pairs["depot"].is_unique)


def is_money(column: Column, columns: Mapping[str, Column], *, orders: bool) -> bool:
    """Is it an amount of money, by its name, or by decimals where each row is an order?"""
    if column_names.says(column.name, "money"):
        return True
    if not orders or not column.are_numbers:
        return False
    numbers = Column(column.name, column.distinct).numbers(marks(column, columns)).dropna()
    return bool((numbers % 1 != 0).mean() > 0.5)


def order_numbers(table: FileTable) -> list[str]:
    """The columns that number orders by their names and whose values each stand once, as text or
    whole numbers, but in rows that are the same in full."""
    names = [name for name in of(table) if column_names.is_order_number(name)]
    rows = table.frame.drop_duplicates() if names else table.frame
    return [name for name in names if _is_one_a_row(Column(name, rows[name]))]


def _is_one_a_row(column: Column) -> bool:
    words = parsing.words(column.values)
    if len(words) < _ORDERS or words.isna().any() or (words == "").any() or not words.is_unique:
        return False
    return column.dates is None and not pd.api.types.is_float_dtype(column.values)


def numbers_rows(column: Column, several: bool) -> bool:
    """True for numbers of rows, where a site has several a day: whole numbers, each once though counts
    as large would have some twice; or, where the name says who orders, of four digits and more, all
    equally long and few twice, as customers' numbers are."""
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
    """Whole numbers, none below 0, that are no running number."""
    numbers = column.numbers(notation.marks(column.distinct) or (None, ".")).dropna()
    runs = len(numbers) > 2 and bool((np.diff(numbers.to_numpy()) == 1).mean() > _NEARLY_UNIQUE)
    return bool(len(numbers) and (numbers >= 0).all() and (numbers % 1 == 0).mean() > 0.5 and not runs)


def listed(names: list[str], most: int = 3) -> str:
    """Names in quotes, the first few of them."""
    quoted = [f"'{name}'" for name in names[:most]]
    return ", ".join(quoted) + (f" and {len(names) - most} more" if len(names) > most else "")
