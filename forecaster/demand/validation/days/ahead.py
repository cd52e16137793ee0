"""Zero counts on days that are not over, in rows with values known ahead: the counts are set aside,
and the rest of the row is accepted."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.core.arrays import Bools
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.sources import FILE, ROW

RULE = "day_not_over"
_PLACES = 50


class ZerosAhead:
    """Zeros of a feed on days that were not over when recorded, block after block."""

    def __init__(self, spec: Spec) -> None:
        self._spec, self._rows, self._first = spec, 0, ""
        self._places: list[tuple[str, str]] = []

    def of(self, typed: pd.DataFrame, is_ahead: Bools, covariates: Collection[str], block: pd.DataFrame) -> Bools:
        """Mark the counts that are set aside: zeros of rows with a covariate or an open flag."""
        demand = self._spec.demand
        if demand.aggregate != "none" or RULE in demand.rules.severity or not is_ahead.any():
            return np.zeros(len(typed), np.bool_)
        is_known = typed[[*covariates, "open"]].notna().any(axis=1).to_numpy()
        is_zero: Bools = is_ahead & is_known & (typed["demand"] == 0).to_numpy()
        if is_zero.any():
            self._note(typed[is_zero], block[is_zero])
        return is_zero

    def _note(self, typed: pd.DataFrame, block: pd.DataFrame) -> None:
        days = typed["date"].dt.strftime("%Y-%m-%d")
        depots = block[self._spec.demand.columns.depot_id].astype("str")
        if not self._rows:
            template = N_(
                "{place}: depot {depot} on {day}: found 0, which is set aside, while the covariates count; wanted no "
                "count of a day that is not over"
            )
            place = f"{block[FILE].iloc[0]}:{block[ROW].iloc[0]}"
            self._first = sentence(template, place=place, depot=depots.iloc[0], day=typed["date"].iloc[0].date())
        self._rows += len(typed)
        self._places += zip(depots.head(_PLACES), days.head(_PLACES), strict=True)

    def findings(self) -> list[Finding]:
        """Finding if a count was set aside."""
        return [Finding(RULE, "warn", self._rows, self._first, tuple(self._places[:_PLACES]))] if self._rows else []
