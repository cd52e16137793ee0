"""Panels as the long frames of mlforecast and neuralforecast: one row per depot and day, with
calendar numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from forecaster.core.arrays import Doubles
from forecaster.core.panel import Panel
from forecaster.evaluation.baselines.statsforecast import fill_gaps


def rows(panel: Panel, days: range) -> pd.DataFrame:
    """Return a row per day and depot from its first known count on; a gap is filled and has weight
    0."""
    counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
    series: Doubles = np.log1p(fill_gaps(counts))
    is_known = np.isfinite(counts)
    begun = np.where(is_known.any(axis=1), is_known.argmax(axis=1), panel.history)
    frame = known_ahead(panel, days, np.arange(len(panel.depot_ids)))
    frame["y"] = series[:, days.start : days.stop].reshape(-1)
    frame["weight"] = is_known[:, days.start : days.stop].reshape(-1).astype(float)
    frame = frame.assign(**statics(panel, len(days)))
    return frame[(np.asarray(days)[None] >= begun[:, None]).reshape(-1)].reset_index(drop=True)


def known_ahead(panel: Panel, days: range, depots: Any) -> pd.DataFrame:
    """Return the features of days that are known in advance: calendar numbers, holidays,
    covariates, and open depots."""
    rows, span = np.asarray(depots, int), slice(days.start, days.stop)
    dates = panel.days[span]
    month = dates.astype("datetime64[M]")
    by_day = {
        "weekday": (dates.astype(np.int64) + 3) % 7,
        "month": month.astype(np.int64) % 12,
        "day": (dates - month.astype(dates.dtype)).astype(np.int64),
        "day_of_year": (dates - dates.astype("datetime64[Y]").astype(dates.dtype)).astype(np.int64),
    }
    columns: dict[str, Any] = {
        "unique_id": np.repeat(rows, len(dates)),
        "ds": np.tile(dates.astype("datetime64[ns]"), len(rows)),
        **{name: np.tile(values, len(rows)) for name, values in by_day.items()},
        "open": panel.open[rows, span].reshape(-1).astype(float),
    }
    for place, name in enumerate(panel.calendar_names):
        if "holiday" in name:
            columns[name] = panel.calendar[panel.calendar_group[rows], span, place].reshape(-1)
    for place in range(len(panel.encoding.covariates)):
        columns[f"covariate_{place}"] = panel.covariates[rows, span, place].reshape(-1)
    return pd.DataFrame(columns)


def statics(panel: Panel, days: int) -> dict[str, Any]:
    return {f"static_{place}": np.repeat(panel.statics[:, place], days) for place in range(len(panel.encoding.statics))}
