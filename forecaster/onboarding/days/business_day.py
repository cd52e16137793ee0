"""Business day of orders that continue past midnight: it begins at the hour without activity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.onboarding.days.zone import WITH_OFFSET
from forecaster.onboarding.description.readings import Description

_CLOCK = r"[T ](?P<hour>[0-9]{1,2}):[0-9]{2}(?::[0-9.]+)?(?: ?(?P<half>[APap])[Mm])?"
_FEWEST = 100  # rows with a time of day
_QUIET = 3  # hours without a row
_NIGHT = 0.02  # minimum share of the rows between midnight and the quiet hours
_LATE = 0.01  # minimum share of the rows in the last hour of the day


def of(description: Description) -> tuple[Description, tuple[str, str] | None]:
    """Readings on business days, and the value of `demand.day_starts` with its evidence; unchanged,
    and None, if nothing continues past midnight."""
    rows = description.rows
    if description.aggregate == "none" or description.layout not in ("long", "single"):
        return description, None
    moments = rows["moment"].astype("str")
    if moments.str.contains(WITH_OFFSET).any():  # these hours are not local time of the site
        return description, None
    hours = _hours(moments)
    start = _quiet_hour(hours[~np.isnan(hours)])
    if start is None:
        return description, None
    shift = np.where(hours < start, 1, 0)
    days = rows["day"] - pd.to_timedelta(shift, unit="D")
    share = float((hours < start).sum() / len(hours))
    evidence = f"{share:.0%} of the rows are between midnight and {start:02d}:00, followed by hours without rows"
    return replace(description, rows=rows.assign(day=days)), (f"{start:02d}:00", evidence)


def _hours(moments: Any) -> Any:
    """Hour of each time of day; NaN if there is none."""
    clock = pc.extract_regex(pa.array(moments, pa.string()), _CLOCK)  # several times as fast as pandas
    hours = pd.to_numeric(pc.struct_field(clock, "hour").to_pandas(), errors="coerce").to_numpy(float)
    half = pc.struct_field(clock, "half").to_pandas().str.lower()
    is_afternoon, is_morning = half.eq("p").to_numpy(bool), half.eq("a").to_numpy(bool)
    return np.where(is_morning, hours % 12, np.where(is_afternoon, hours % 12 + 12, hours))


def _quiet_hour(hours: Any) -> int | None:
    """First hour of the quiet part of the night, after rows past midnight; None if there is none."""
    if len(hours) < _FEWEST:
        return None
    counts = np.bincount(hours.astype(int) % 24, minlength=24) / len(hours)
    if counts[23] < _LATE or counts[0] == 0:
        return None
    for start in range(1, 9):
        if not counts[start : start + _QUIET].any():
            return start if counts[:start].sum() >= _NIGHT else None
    return None
