"""What is seen in readings next to their columns: how far they reach, whether they are an archive,
closed weekdays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.onboarding import column_names, columns
from forecaster.onboarding.layout import Readings
from forecaster.onboarding.tables import FileTable

ARCHIVE = timedelta(days=14)  # since the last reading: no feed that still comes is as old
_WEEKS = 6  # of readings tell a closed weekday
_FEW = 0.05  # of the rows may differ from the rule
_FEWEST_PARTS = 3  # of which one may be a total
_MOST_KINDS = 60  # values of an attribute of depots
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Facts:
    depots: int
    days: int
    first: date
    last: date
    readings: int
    is_archive: bool
    closed: tuple[str, ...]  # weekdays without a reading of any depot
    spacing: int  # days from one day with readings to the next, as a rule


def of(readings: Readings, today: date) -> Facts | None:
    """None where no reading has both a day up to now and a count."""
    rows = readings.rows
    rows = rows[rows["day"].notna() & rows["demand"].notna() & (rows["day"] <= pd.Timestamp(today))]
    if not len(rows):
        return None
    days = np.unique(rows["day"].to_numpy().astype("datetime64[D]"))
    first, last = days[0].item(), days[-1].item()
    gaps = np.diff(days).astype(int)
    counts = np.bincount((days.astype(int) + 3) % 7, minlength=7)
    weeks = (last - first).days / 7
    closed = tuple(name for name, count in zip(_WEEKDAYS, counts, strict=True) if not count and weeks >= _WEEKS)
    spacing = int(np.median(gaps)) if len(gaps) else 1
    return Facts(
        depots=int(rows["depot"].nunique()),
        days=len(days),
        first=first,
        last=last,
        readings=len(rows),
        is_archive=today - last > ARCHIVE,
        closed=closed if spacing == 1 else (),
        spacing=spacing,
    )


def statics(table: FileTable, readings: Readings) -> tuple[str, ...]:
    """Columns next to the readings that are one value a depot, and tell depots apart."""
    if readings.layout != "long" or readings.depot_column is None:
        return ()
    depots = table.frame[readings.depot_column]
    return tuple(
        name for name in _others(table, readings) if _is_attribute(columns.Column(name, table.frame[name]), depots)
    )


def _is_attribute(column: columns.Column, depots: Any) -> bool:
    if column.is_empty or column.dates is not None or column_names.says(column.name, "calendar"):
        return False
    kinds = len(column.distinct)
    is_place = column_names.normalized(column.name) in ("city", "country", "subdivision")
    tells_apart = 2 <= kinds <= min(_MOST_KINDS, max(depots.nunique() // 2, 1)) and not column.are_numbers
    return (is_place or tells_apart) and columns.constant_a_depot(column, depots)


def known_future(table: FileTable, readings: Readings, static: tuple[str, ...]) -> tuple[str, ...]:
    """Columns that differ from day to day and may be known ahead; what was observed (`obs_…`) is
    not."""
    if readings.layout != "long" or readings.depot_column is None or readings.aggregate != "none":
        return ()
    depots = table.frame[readings.depot_column]
    names = [
        name
        for name in _others(table, readings)
        if name not in static
        and not name.startswith("obs_")
        and not any(column_names.says(name, role) for role in ("demand", "calendar", "recorded", "total"))
    ]
    varying = (columns.Column(name, table.frame[name]) for name in names)
    return tuple(
        column.name
        for column in varying
        if not column.is_empty
        and len(column.distinct) > 1
        and column.dates is None
        and not columns.constant_a_depot(column, depots)
    )


def other_days(table: FileTable, readings: Readings) -> tuple[str, ...]:
    """Further columns of days that rows might be counted by, such as the day of delivery next to
    that of the order."""
    if readings.layout != "long":
        return ()
    dated = (columns.Column(name, table.frame[name]) for name in _others(table, readings))
    return tuple(
        column.name
        for column in dated
        if not column.is_empty and not column_names.says(column.name, "recorded") and column.dates is not None
    )


@dataclass(frozen=True)
class DayParts:
    """A column that tells apart the rows of a depot and day, such as hours or channels, and its
    values."""

    column: str
    values: tuple[str, ...]
    total: str | None  # the value whose rows are the sum of the others'


def day_parts(table: FileTable, readings: Readings) -> DayParts | None:
    """Column over which rows of a depot and day are summed; None where no column says it."""
    if readings.layout != "long" or readings.demand_column is None or readings.aggregate != "sum":
        return None
    rows = readings.rows
    for name in _others(table, readings):
        column = columns.Column(name, table.frame[name])
        if column.dates is not None or not 2 <= len(column.distinct) <= _MOST_KINDS:
            continue
        keyed = rows.assign(part=parsing.words(column.values))
        if not keyed.duplicated(["depot", "day", "part"]).mean() > _FEW:
            values = tuple(keyed["part"].dropna().unique())
            return DayParts(name, values, _total(keyed, values))
    return None


def _total(rows: Any, values: tuple[str, ...]) -> str | None:
    """Of three parts or more the one that is the sum of the others nearly everywhere."""
    if len(values) < _FEWEST_PARTS:
        return None
    table = rows.pivot_table(index=["depot", "day"], columns="part", values="demand", aggfunc="sum", observed=True)
    for value in values:
        others = table.drop(columns=value).sum(axis="columns", min_count=2)
        known = table[value].notna() & others.notna()
        if known.any() and np.isclose(table[value][known], others[known], atol=0.5).mean() > 1 - _FEW:
            return value
    return None


def _others(table: FileTable, readings: Readings) -> list[str]:
    used = {readings.depot_column, readings.date_column, readings.demand_column}
    return [name for name in table.frame if name not in used]
