"""Facts about readings apart from their columns: their time span, whether they are an archive, and
closed weekdays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.onboarding import column_names, columns
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable

ARCHIVE = timedelta(days=14)  # since the last reading; an active feed is never this old
_WEEKS = 6  # weeks of readings needed to find a closed weekday
_MOST_KINDS = 60  # maximum number of values of a depot attribute
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
    spacing: int  # usual number of days between days with readings


def of(readings: Description, today: date) -> Facts | None:
    """Facts about readings; None if no reading has both a day up to now and a count."""
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


def is_open_column(column: columns.Column) -> bool:
    """True for a column that states, by name and values, whether a site is open."""
    is_yes_or_no = all(column_names.is_word(value.removesuffix(".0"), "yes_or_no") for value in column.distinct[:5])
    return column_names.is_word(column.name, "open") and is_yes_or_no


def limit_columns(table_columns: Mapping[str, columns.Column]) -> dict[str, str]:
    """Columns that state, by name and values, on which days a count is a lower bound of demand, by
    key of `demand.columns`."""
    limits: dict[str, str] = {}
    for name, column in table_columns.items():
        filled = [value for value in column.distinct if value][:5]
        if not filled or not column_names.is_word(name, "capped"):
            continue
        if all(column_names.is_word(value.removesuffix(".0"), "yes_or_no") for value in filled):
            limits.setdefault("capped", name)
        elif np.isfinite(parsing.times_of_day(pd.Series(filled, dtype="str"))).all():
            limits.setdefault("sold_out_at", name)
    return limits


def statics(table: FileTable, readings: Description) -> tuple[str, ...]:
    """Columns of the readings with one value per depot that differs between depots."""
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


def known_future(table: FileTable, readings: Description, static: tuple[str, ...]) -> tuple[str, ...]:
    """Columns that vary from day to day and may be known ahead, without observed values (`obs_…`)."""
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
        and not is_open_column(column)
        and not column_names.is_word(column.name, "capped")
        and len(column.distinct) > 1
        and column.dates is None
        and not columns.constant_a_depot(column, depots)
    )


def _others(table: FileTable, readings: Description) -> list[str]:
    used = {readings.depot_column, readings.demand_column, readings.part, readings.recorded_at, *readings.day.names}
    return [name for name in table.frame if name not in used and name not in readings.where]
