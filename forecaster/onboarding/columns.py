"""What each column of a table holds: days, numbers or words, and in which notation; guessed by name
and by content."""

from __future__ import annotations

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

    @property
    def is_typed(self) -> bool:
        """Are its values numbers by type, so that no notation matters?"""
        return bool(pd.api.types.is_numeric_dtype(self.values))

    @property
    def is_empty(self) -> bool:
        return not len(self.distinct)

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


def marks(column: Column, columns: dict[str, Column]) -> tuple[str | None, str]:
    """The thousands and decimal mark of a column of numbers, next to what the other columns
    show."""
    if column.is_typed:
        return None, "."
    others = [other.distinct for other in columns.values() if other is not column and not other.is_typed]
    return notation.marks(column.distinct, others[:_OTHERS]) or (None, ".")


def date_column(columns: dict[str, Column]) -> Column | None:
    """The column of days: of those that hold days, the one that its name says best, else the
    first."""
    dated = [name for name, column in columns.items() if column.dates is not None]
    exact = [name for name in dated if not column_names.says(name, "recorded")] or dated
    names = column_names.best(exact, "date") or exact
    return columns[names[0]] if names else None


def depot_column(columns: dict[str, Column], days: Any, date_name: str) -> Column | None:
    """The column that names the depot: by its name, else the one of which each value has one row a
    day."""
    taken = [name for name in columns if name != date_name and columns[name].dates is None]
    taken = [name for name in taken if not pd.api.types.is_float_dtype(columns[name].values) or _whole(columns[name])]
    by_name = [
        name
        for name in column_names.best(taken, "depot")
        if not _counts(columns[name]) and not _varies_by_day(columns[name], days)
    ]
    if by_name:
        best = columns[min(by_name, key=lambda name: (repeats(columns[name], days) > 0.5, by_name.index(name)))]
        return _depot_of_area(best, [columns[name] for name in taken], days) or best
    return _depot_by_content(taken, columns, days)


def _depot_of_area(area: Column, candidates: list[Column], days: Any) -> Column | None:
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


def _whole(column: Column) -> bool:
    numbers = column.values.dropna()
    return bool((numbers % 1 == 0).all())


def _counts(column: Column) -> bool:
    """Does it rather count, as `store_visitors` does, than name a depot?"""
    return column_names.rank(column.name, "demand") < column_names.rank(column.name, "depot") and column.are_numbers


def _varies_by_day(column: Column, days: Any) -> bool:
    """Has it a row a day and another number on many, as the counts of a site called Centre have,
    and no ids?"""
    if not column.are_numbers or days.nunique() < _NEARLY_UNIQUE * len(days):
        return False
    values = column.values.to_numpy()[np.argsort(days.to_numpy(), kind="stable")]
    return bool((values[1:] != values[:-1]).mean() > 0.2)


def _depot_by_content(names: list[str], columns: dict[str, Column], days: Any) -> Column | None:
    rows = len(days)
    # a row a day: no column tells rows of one day apart
    if days.nunique() >= _NEARLY_UNIQUE * rows:
        return None
    excluded: tuple[column_names.Role, ...] = ("calendar", "other", "demand", "kind")
    words = [columns[name] for name in names if not any(column_names.says(name, role) for role in excluded)]
    words = [column for column in words if 2 <= column.values.nunique() <= max(rows / 5, 2)]
    complete = [column for column in words if repeats(column, days) < 1 - _NEARLY_UNIQUE]
    texts = [column for column in words if not column.are_numbers]
    candidates = [column for column in complete if _fills(column, days)] or texts
    return min(candidates, key=lambda column: (repeats(column, days), column.are_numbers), default=None)


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


def demand_column(
    columns: dict[str, Column], names: list[str], *, lines: bool = False, orders: bool = False
) -> tuple[Column | None, str]:
    """Of these columns of numbers the one that counts, and why it is that one. `lines` says that a
    depot has several rows a day: among those of single orders a number may be the order's own, or
    its customer's, or what it costs; `orders`, that each row is an order with a number of its
    own."""
    names = [name for name in names if not column_names.is_id(name)]
    if lines:
        names = [name for name in names if not _numbers_rows(columns[name], columns)]
    money = [name for name in names if is_money(columns[name], columns, orders=orders)]
    counts = [name for name in names if name not in money]
    column, why = _counting_column(columns, counts)
    if column is None and money and not lines:
        column, why = _counting_column(columns, money)
        why += "; it looks like money: rosters need a count of orders"
    return column, why


def is_money(column: Column, columns: dict[str, Column], *, orders: bool) -> bool:
    """Is it an amount of money, by its name, or by decimals where each row is an order?"""
    if column_names.says(column.name, "money"):
        return True
    numbers = column.numbers(marks(column, columns)).dropna()
    return orders and bool((numbers % 1 != 0).mean() > 0.5)


def order_numbers(table: FileTable) -> list[str]:
    """The columns that number orders by their names and whose values each stand once, as text or
    whole numbers, but in rows that are the same in full."""
    rows, by_name = table.frame.drop_duplicates(), of(table)
    candidates = [Column(name, rows[name]) for name in by_name if column_names.is_order_number(name)]
    return [column.name for column in candidates if _is_one_a_row(column)]


def _is_one_a_row(column: Column) -> bool:
    words = parsing.words(column.values)
    if len(words) < _ORDERS or words.isna().any() or (words == "").any() or not words.is_unique:
        return False
    return column.dates is None and not pd.api.types.is_float_dtype(column.values)


def _counting_column(columns: dict[str, Column], names: list[str]) -> tuple[Column | None, str]:
    best = column_names.best(names, "demand")
    named = [name for name in best if not columns[name].is_flag] or best
    if named:
        others = [name for name in names if name != named[0] and not columns[name].is_flag]
        beside = f"; {listed(others)} hold{'s' if len(others) == 1 else ''} numbers, too" if others else ""
        return columns[named[0]], f"by its name{beside}"
    likely = [
        name for name in names if not any(column_names.says(name, role) for role in ("calendar", "other", "total"))
    ]
    pool = [name for name in likely if not columns[name].is_flag] or likely
    if not pool:
        return None, ""
    counting = [name for name in pool if is_of_counts(columns[name])] or pool
    others = [name for name in counting if name != counting[0]]
    beside = f"; it may be {listed(others)} as well" if others else ""
    return columns[counting[0]], f"the column with numbers that differ from day to day{beside}"


def _numbers_rows(column: Column, columns: dict[str, Column]) -> bool:
    """Does it number rows? Whole numbers, each once though counts as large would have some twice;
    or, where the name says who orders, of four digits and more, all equally long and few twice, as
    customers' numbers are."""
    numbers = column.numbers(marks(column, columns)).dropna().to_numpy()
    if len(numbers) < _SOME_ROWS or (numbers % 1 != 0).any() or numbers.min() < 0:
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


def listed(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names[:3]]
    return ", ".join(quoted) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
