"""Business days that begin after midnight (`demand.day_starts`): rows after midnight belong to the
day before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.half_hours.clock import MIDNIGHT, NO_TIME
from forecaster.demand.half_hours.profiles import no_time_finding
from forecaster.demand.sources import FILE, ROW

Column = Any  # a pandas Series


class BusinessDays:
    """Business days of a feed, block after block, and its rows without a time of day."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._rows, self._timeless, self._first = 0, 0, ""
        self._has_times = False
        self.first_day: int | None = None
        """First calendar day of the feed, in days since 1970: the day before has no evening."""

    def of(self, date: Column, half: NDArray[np.int8], block: pd.DataFrame) -> Column:
        """Business day of each row, from its calendar day and half hour."""
        is_dated = date.notna().to_numpy()
        if not is_dated.any():
            return date
        is_timeless = is_dated & (half == NO_TIME)
        self._rows, self._timeless = self._rows + int(is_dated.sum()), self._timeless + int(is_timeless.sum())
        self._has_times |= bool(((half != MIDNIGHT) & (half != NO_TIME)).any())
        if not self._first:
            row = block[is_timeless if is_timeless.any() else is_dated].iloc[0]
            self._first = f"{row[FILE]}:{row[ROW]}"
        first = int(date.min().to_datetime64().astype("datetime64[D]").astype(int))
        self.first_day = first if self.first_day is None else min(first, self.first_day)
        is_before = (half >= 0) & (half % MIDNIGHT < self._spec.demand.first_half_hour)
        return date - pd.to_timedelta(is_before.astype(int), unit="D")

    def findings(self) -> list[Finding]:
        """Finding about rows without a time of day; if they are few, it only warns."""
        timeless = self._timeless if self._has_times else self._rows
        if not timeless:
            return []
        requirement = sentence(N_("a time of day in each row, or no demand.day_starts"))
        finding = no_time_finding(
            timeless, self._first, self._spec, all_midnight=not self._has_times, wanted=requirement
        )
        is_few = timeless <= self._spec.demand.rules.unreadable_share * self._rows
        return [replace(finding, severity="warn") if is_few and finding.severity == "stop" else finding]
