"""How a table is laid out: a row a reading, a column a depot, a column a day, or one series without
a depot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.errors import SpecError
from forecaster.onboarding import column_names, columns, notation, wide_columns
from forecaster.onboarding.columns import Column
from forecaster.onboarding.tables import FileTable

_FEW_DAYS = 4  # headers that are days, and make a table a wide one
_PARTS = 0.1  # of the depot days have several rows
_LISTED = 12  # columns that a message names

Layout = Literal["long", "depots", "days", "single"]


@dataclass(frozen=True)
class Readings:
    """A table's readings in long form, and how they were found. Columns are named as in the
    file."""

    layout: Layout
    depot_column: str | None
    date_column: str | None
    demand_column: str | None
    why_demand: str
    marks: tuple[str | None, str]
    date_form: str | None
    rival_form: str | None
    ignored: tuple[str, ...]  # of a wide table
    rows: Any  # depot, day, demand (NaN where empty), moment (text of the date cell)
    # of a wide table's columns: why each is none
    no_depots: Mapping[str, str] = field(default_factory=dict)
    # columns that are taken for depots, though their names say something else
    doubtful: tuple[str, ...] = ()

    @cached_property
    def aggregate(self) -> Literal["none", "sum", "count"]:
        """Aggregation of the rows of a depot and day."""
        if self.demand_column is None and self.layout == "long":
            return "count"
        known = self.rows[self.rows["demand"].notna()]
        depot_day = pd.DataFrame({name: pd.factorize(known[name])[0] for name in ("depot", "day")})
        several = depot_day.duplicated(keep=False).to_numpy()
        parts = known[several].groupby(["depot", "day"], observed=True)
        differing = (
            int(((parts["demand"].nunique() > 1) | (parts["moment"].nunique() > 1)).sum()) if several.any() else 0
        )
        return "sum" if differing > _PARTS * len(depot_day.drop_duplicates()) else "none"


def recognize(table: FileTable) -> Readings:
    """Raises SpecError where there are no days, or nothing to count: it says what was looked at and
    what is wanted."""
    by_name = columns.of(table)
    headers = [name for name in table.columns if notation.date_form(pd.Series([name])) is not None]
    if len(headers) >= _FEW_DAYS and len(headers) >= len(table.columns) / 2:
        return _wide_days(table, by_name, headers)
    date = columns.date_column(by_name)
    if date is None or date.dates is None:
        raise SpecError(f"{table.path}: found no column of days; {_looked_at(table)}; wanted one with days such as "
                        "2024-03-05 or 05.03.2024")  # fmt: skip
    if table.cells.kind == "parquet" and date.dates.form is not None:
        raise SpecError(
            f"{table.path}: column '{date.name}' has days as text, such as '{date.distinct.iloc[0]}'; wanted dates or "
            "2024-03-05 in a Parquet file, whose text has no notation of its own: write the column as a date"
        )
    days = notation.days(date.values, date.dates.form)
    depot = columns.depot_column(by_name, days, date.name)
    if depot is None:
        return _without_depot(table, by_name, date, days)
    return _long(table, by_name, date, days, depot)


def _long(table: FileTable, by_name: dict[str, Column], date: Column, days: Any, depot: Column) -> Readings:
    dates = date.dates
    assert dates is not None
    names = [name for name in _numeric(by_name, {date.name, depot.name}) if by_name[name].dates is None]
    daily = [name for name in names if not columns.constant_a_depot(by_name[name], depot.values)]
    several = columns.repeats(depot, days) > _PARTS
    orders = several and bool(columns.order_numbers(table))
    demand, why = columns.demand_column(by_name, daily or names, lines=several, orders=orders)
    if demand is None and not several:
        raise SpecError(f"{table.path}: found no column of counts; {_looked_at(table)}; wanted one with numbers a day")
    marks = columns.marks(demand, by_name) if demand else (None, ".")
    counts = demand.numbers(marks) if demand else np.ones(len(days))
    rows = _rows(depot.values, days, counts, date.values)
    if demand is None:
        money = [name for name in daily or names if columns.is_money(by_name[name], by_name, orders=orders)]
        others = [name for name in daily or names if name not in money]
        numbers = f", and {columns.listed(others)} no counts" if others else ""
        amounts = f"; {columns.listed(money)} {'is' if len(money) == 1 else 'are'} money" if money else ""
        why = f"each row is one order: there is no column of counts{numbers}{amounts}"
    name = demand.name if demand else None
    return Readings("long", depot.name, date.name, name, why, marks, dates.form, dates.rival, (), rows)


def _without_depot(table: FileTable, by_name: dict[str, Column], date: Column, days: Any) -> Readings:
    """A column a depot, or one series, where no column names depots."""
    dates = date.dates
    assert dates is not None
    names = [name for name in _numeric(by_name, {date.name}) if by_name[name].dates is None]
    depots, reasons = wide_columns.depots_among(names, by_name, days)
    counting = column_names.best(depots, "demand")
    if not depots and not names:
        raise SpecError(f"{table.path}: found no column of counts; {_looked_at(table)}; wanted one with numbers a day")
    single = len(depots) < 2 or (counting and not _one_a_depot(counting, depots))
    if single:
        demand, why = columns.demand_column(by_name, depots or names)
        demand = demand or by_name[names[0]]
        chosen, why = [demand.name], f"{why or 'the only column of numbers'}; no column names a depot"
    else:
        chosen, why = depots, "a column a depot"
    marks = columns.marks(by_name[chosen[0]], by_name)
    rows = pd.concat(
        [_rows(name, days, by_name[name].numbers(marks), date.values) for name in chosen], ignore_index=True
    )
    ignored = tuple(name for name in table.columns if name not in chosen and name != date.name)
    layout: Layout = "single" if single else "depots"
    reasons = {} if single else {name: reasons.get(name, "no counts") for name in ignored if name in by_name}
    doubtful = () if single else tuple(name for name in chosen if wide_columns.is_doubtful(name))
    return Readings(
        layout, None, date.name, None, why, marks, dates.form, dates.rival, ignored, rows, reasons, doubtful
    )


def _one_a_depot(counting: list[str], depots: list[str]) -> bool:
    """Do all columns count the same of different depots, as `orders Berlin` and `orders Hamburg`
    do?"""
    words = Counter(word for name in depots for word in {*column_names.normalized(name).split("_")})
    return len(counting) == len(depots) and any(count == len(depots) for count in words.values())


def _wide_days(table: FileTable, by_name: dict[str, Column], headers: list[str]) -> Readings:
    form = notation.date_form(pd.Series(headers))
    if form is None:
        raise SpecError(f"{table.path}: found days of different forms as names of columns; wanted one form")
    others = [name for name in by_name if name not in headers]
    words = [name for name in others if not column_names.says(name, "total")]
    depots = column_names.best(words, "depot") or words
    if not depots:
        raise SpecError(f"{table.path}: found a column a day, and none that names the depot; {_looked_at(table)}")
    depot = by_name[depots[0]]
    filled = [name for name in headers if name in by_name and by_name[name].are_numbers]
    if not filled:
        raise SpecError(f"{table.path}: found a column a day, and no counts in them; wanted numbers")
    marks = columns.marks(by_name[filled[0]], by_name)
    days = notation.days(pd.Series(filled), form.form)
    rows = pd.concat(
        [_rows(depot.values, day, by_name[name].numbers(marks), name) for name, day in zip(filled, days, strict=True)],
        ignore_index=True,
    )
    ignored = tuple(name for name in table.columns if name not in headers and name != depot.name)
    return Readings("days", depot.name, None, None, "a column a day", marks, form.form, form.rival, ignored, rows)


def _numeric(by_name: dict[str, Column], taken: set[str]) -> list[str]:
    return [name for name, column in by_name.items() if name not in taken and column.are_numbers]


def _rows(depots: Any, days: Any, counts: Any, moments: Any) -> Any:
    rows = pd.DataFrame({"demand": counts})
    is_series = isinstance(moments, pd.Series)
    return rows.assign(
        depot=depots if isinstance(depots, str) else parsing.words(depots),
        day=days,
        moment=moments.astype("str") if is_series else moments,
    )[["depot", "day", "demand", "moment"]]


def _looked_at(table: FileTable) -> str:
    names = ", ".join(f"'{name}'" for name in table.columns[:_LISTED])
    more = f" and {len(table.columns) - _LISTED} more" if len(table.columns) > _LISTED else ""
    line = f" in line {table.header_row}" if table.header_row > 1 else ""
    return f"looked at the columns{line} {names}{more}"
