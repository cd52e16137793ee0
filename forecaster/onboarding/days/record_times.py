"""Recording times of rows: a column such as `updated_at` that may serve as
`demand.columns.recorded_at`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.onboarding import column_names
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable

_SOON = 14  # days after the end of its day within which a row is usually recorded
_NEARLY_ALL = 0.9  # share of the rows that must be recorded soon; otherwise backtests know too little
_FEW = 0.02  # maximum share of the rows recorded before the end of their day, which are rejected


@dataclass(frozen=True)
class RecordedAt:
    """Column and its reason; or the reason why the likeliest one is omitted."""

    column: str | None = None
    reason: str = ""
    note: str | None = None


def guess(table: FileTable, readings: Description, zone: ZoneInfo, now: datetime) -> RecordedAt:
    """Column with the instants at which rows were recorded; nothing if no column has such a name."""
    if readings.recorded_at is not None:
        return RecordedAt(readings.recorded_at, "timestamp of repeated reports: the last report counts")
    used = (readings.depot_column, readings.date_column, readings.demand_column)
    names = column_names.best([name for name in table.frame if name not in used], "recorded")
    names = [name for name in names if table.frame[name].notna().any()]
    if not names:
        return RecordedAt()
    if readings.layout != "long":
        way_out = "if it states when a row was recorded, name it in `demand.columns.recorded_at` instead of `ignore`"
        return RecordedAt(note=f"column '{names[0]}' is not read: {way_out}")
    reasons = {name: _why_not(table.frame[name], readings, zone, now) for name in names}
    fit = next((name for name in names if reasons[name] is None), None)
    if fit is not None:
        return RecordedAt(fit, "recording time of each row: of several rows per depot and day, the latest counts")
    note = f"column '{names[0]}' is not used as `demand.columns.recorded_at`: {reasons[names[0]]}"
    several = "; of several rows per depot and day, the last row in the file counts"
    return RecordedAt(note=note + several * (readings.aggregate == "none"))


def _why_not(column: Any, readings: Description, zone: ZoneInfo, now: datetime) -> str | None:
    """Reason why a column cannot be used; None if it can."""
    if readings.aggregate != "none":
        return "several rows add up to the count of a day, each with its own recording time"
    is_reading = (readings.rows["day"].notna() & readings.rows["demand"].notna()).to_numpy()
    values, days = column[is_reading], readings.rows["day"][is_reading]
    if pd.api.types.is_numeric_dtype(values):
        return "it contains numbers; wanted timestamps such as 2024-03-05T04:10:00-05:00"
    instants = parsing.instants(values, zone)
    if instants.isna().any():
        return f"{_first(values, instants.isna())} is not a timestamp such as 2024-03-05T04:10:00-05:00"
    if (instants > pd.Timestamp(now)).any():
        return f"{_first(values, instants > pd.Timestamp(now))} is in the future"
    local = parsing.wall_clock(instants, zone).to_numpy("datetime64[s]")
    # from the end of the day on
    delay = (local - days.to_numpy("datetime64[s]")) / np.timedelta64(1, "D") - 1
    if (delay < 0).mean() > _FEW:
        return f"{(delay < 0).mean():.0%} of the rows were recorded before the end of their day and would be rejected"
    if not (delay <= _SOON).mean() >= _NEARLY_ALL:
        late = (delay > _SOON).mean()
        return (
            f"{late:.0%} of the rows were recorded more than {_SOON} days after their day, as in a single export, so "
            "backtests would not see them before that"
        )
    return None


def _first(values: Any, where: Any) -> str:
    value = values[where.to_numpy()].iloc[0]
    return "an empty cell" if pd.isna(value) or not str(value).strip() else f"'{value}'"
