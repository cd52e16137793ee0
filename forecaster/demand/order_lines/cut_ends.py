"""Truncated last day of an export: its rows end hours earlier than those of all days before it."""

from __future__ import annotations

from datetime import time
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec, data_rules
from forecaster.core.language import N_
from forecaster.demand.half_hours.clock import HALF_HOURS, NO_TIME, half_hours
from forecaster.demand.order_lines.cut_windows import RULE
from forecaster.demand.parsing import Notation
from forecaster.demand.readings import day_words
from forecaster.demand.validation.quarantine import RowSentences, where

BEFORE, LEAST = 28, 14  # days before the last one that show when rows end; how many of them must have rows
LATER = 4  # half hours by which nearly all of them, and the same weekdays, must end later
NEARLY_ALL = 0.9
# share of a day's rows that arrive later, and their minimum number: fewer are missing by chance
SHORTFALL, ROWS = 0.1, 5


class DayEnds:
    """Half hours of the newest days of a feed, block after block."""

    def __init__(self, spec: Spec) -> None:
        self._first = spec.demand.first_half_hour
        self._rows: dict[int, NDArray[np.intp]] = {}  # day since 1970 → number of rows per half hour

    def look_at(
        self, day: pd.Series[pd.Timestamp], date_texts: pd.Series[str], zone: ZoneInfo, notation: Notation
    ) -> None:
        """Count the half hours of a block's rows; `day` and `date_texts` are of depots in one zone."""
        days = day.to_numpy("datetime64[D]").astype(np.int64)
        is_day = day.notna().to_numpy()
        newest = max([*self._rows, int(days[is_day].max(initial=0))])
        near = is_day & (days >= newest - BEFORE)
        half = half_hours(date_texts[near], zone, notation).astype(np.int64)
        days, half = days[near][half != NO_TIME], half[half != NO_TIME]
        for day_number in np.unique(days).tolist():
            of_day = np.bincount((half[days == day_number] - self._first) % HALF_HOURS, minlength=HALF_HOURS)
            self._rows[day_number] = self._rows.get(day_number, 0) + of_day

    def last_day(self) -> tuple[int, time] | None:
        """Last day, if it is truncated, and the half hour in which its rows end."""
        last = max(self._rows, default=0)
        before = {day: rows for day, rows in self._rows.items() if last - BEFORE <= day < last}
        if len(before) < LEAST:
            return None
        rows = np.stack(list(before.values()))
        end, ends = int(np.flatnonzero(self._rows[last])[-1]), HALF_HOURS - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)
        is_later = ends >= end + LATER
        same_weekdays = is_later[[(last - day) % 7 == 0 for day in before]]
        missing = float(np.median(rows[:, end + 1 :].sum(axis=1)))
        if is_later.mean() < NEARLY_ALL or not same_weekdays.all() or not len(same_weekdays):
            return None
        if missing < max(ROWS, SHORTFALL * float(np.median(rows.sum(axis=1)))):
            return None
        half = (end + self._first) % HALF_HOURS
        return last, time(half // 2, 30 * (half % 2))


def message(rows: pd.DataFrame, end: time) -> RowSentences:
    """One sentence for each reading of a truncated last day."""
    template = N_(
        "{place}: depot {depot} on {day}: found no row after the half hour of {time}, on the last day of the export, "
        "which seems to end within it; wanted {wanted}"
    )
    values = where(rows) | {"day": day_words(rows), "time": f"{end:%H:%M}"}
    return RowSentences.of(template, rows.index, **values, wanted=data_rules.requirement(RULE))
