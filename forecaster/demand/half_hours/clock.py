"""Half hour of local time of each source row that has a time of day.

Days begin where `parsing.days` begins them. Both passes of autumn's repeated hour count toward the
same half hours; spring's missing half hours have no rows.
"""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config.sources import COUNTED_DAYS
from forecaster.demand.long_dates import plain_dates
from forecaster.demand.parsing import PLAIN, Notation, each_value, instants, wall_clock, within_the_day

HALF_HOURS = 48  # per day
NO_TIME = -1  # a day without a time, or unreadable
MIDNIGHT = 48  # exactly 00:00:00: a time of day, unless all rows have it
_SECONDS = 1800
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Column = Any  # a pandas Series


def half_hours(column: Column, zone: ZoneInfo, notation: Notation = PLAIN) -> NDArray[np.int8]:
    """The half hour of each row, 0 to 47, MIDNIGHT or NO_TIME (rows,)."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return _of_stamps(wall_clock(column, zone) if column.dt.tz is not None else column)
    is_float = pd.api.types.is_float_dtype(column)

    def parse(values: Column) -> Column:
        text = within_the_day(values)
        text = text.str.removesuffix(".0") if is_float else text
        return pd.Series(_of_text(text, zone, notation), index=values.index)

    halves: NDArray[np.int8] = each_value(column, parse, NO_TIME).to_numpy("int8")
    return halves


def _of_text(text: Column, zone: ZoneInfo, notation: Notation) -> NDArray[np.int8]:
    form, unit = notation.date_format, {"unix": 1, "unix_ms": 1000}
    halves = _of_seconds(text, zone, unit[form]) if form in unit else _of_format(text, zone, form or "")
    if form is None or notation.of_sheet or form in COUNTED_DAYS:
        halves = _where_none(halves, _of_iso(text, zone))
    if form == "excel" or notation.of_sheet:
        halves = _where_none(halves, _of_sheet(text))
    return halves


def _of_format(text: Column, zone: ZoneInfo, form: str) -> NDArray[np.int8]:
    if not re.search("%[HI]", form):
        return np.full(len(text), NO_TIME, np.int8)
    is_aware = bool(re.search("%[zZ]", form))
    text = plain_dates(text, form) if "%b" in form.lower() else text
    stamps = pd.to_datetime(text.where(text != "", None), format=form, errors="coerce", utc=is_aware)
    return _of_stamps(wall_clock(stamps, zone) if is_aware else stamps)


def _where_none(halves: NDArray[np.int8], fallback: NDArray[np.int8]) -> NDArray[np.int8]:
    first: NDArray[np.int8] = np.where(halves == NO_TIME, fallback, halves)
    return first


def _of_iso(text: Column, zone: ZoneInfo) -> NDArray[np.int8]:
    has_time = ~text.str.fullmatch(_DAY).astype(bool)
    halves = np.full(len(text), NO_TIME, np.int8)
    if has_time.any():
        halves[has_time.to_numpy()] = _of_stamps(wall_clock(instants(text[has_time], zone), zone))
    return halves


def _of_seconds(text: Column, zone: ZoneInfo, parts: int) -> NDArray[np.int8]:
    """Half hours from seconds or milliseconds since 1970."""
    number = text.str.extract(r"^([0-9]{1,14})(?:\.[0-9]*)?$")[0].astype("float64") // parts
    stamps = pd.to_datetime(number.where(number < 4_102_444_800), unit="s", utc=True)
    return _of_stamps(wall_clock(stamps, zone))


def _of_sheet(text: Column) -> NDArray[np.int8]:
    """Half hours from a spreadsheet's serial numbers, whose fraction is the time of day; rounded to
    seconds, as sheets show them."""
    fraction = text.str.extract(r"^[1-9][0-9]{4}(\.[0-9]+)$")[0].astype("float64").to_numpy()
    seconds = np.round(np.nan_to_num(fraction) * 86_400).astype(np.int64) % 86_400
    halves = np.where(seconds == 0, MIDNIGHT, seconds // _SECONDS)
    of_sheet: NDArray[np.int8] = np.where(np.isnan(fraction), NO_TIME, halves).astype(np.int8)
    return of_sheet


def _of_stamps(local: Column) -> NDArray[np.int8]:
    """Half hours from local timestamps."""
    stamps = local.to_numpy("datetime64[us]")
    has_stamp = ~np.isnat(stamps)
    parts = np.where(has_stamp, stamps.view(np.int64), 0) % 86_400_000_000
    halves = np.where(parts == 0, MIDNIGHT, parts // (_SECONDS * 1_000_000))
    of_stamps: NDArray[np.int8] = np.where(has_stamp, halves, NO_TIME).astype(np.int8)
    return of_stamps
