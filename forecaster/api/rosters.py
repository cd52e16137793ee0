"""Rosters as frames, and the staffing section from arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.api.caller_terms import as_python
from forecaster.api.frames import FrameKind
from forecaster.config import Staffing, spec_of
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.shift_values import ShiftRoster


def staffing_of(declared: Mapping[str, Any]) -> Staffing:
    """Section `staffing` of a pipeline file from arguments. Raises SpecError with a line for each
    mistake."""
    content = {"name": "roster", "demand": {"source": {"kind": "parquet", "path": "none"}}}
    arguments = {f"staffing.{name}": name for name in Staffing.model_fields}
    staffing = spec_of({**content, "staffing": as_python(declared)}, Path(), arguments).staffing
    if staffing is None:
        raise SpecError("staffing: found nothing, wanted at least orders_per_driver, cost_short and cost_idle")
    return staffing


def roster_columns(roster: Roster, forecast: Forecast, kind: FrameKind) -> dict[str, Any]:
    """One row per depot and day: drivers, also by shift if there are several, vans if they are
    counted, the chance that the day needs more, and the expected cost of missing and idle drivers."""
    depots, horizon = roster.drivers.shape
    days = np.asarray(forecast.target_dates, "datetime64[D]")
    columns: dict[str, Any] = {
        kind.names.depot_id: kind.ids([depot for depot in forecast.depot_ids for _ in range(horizon)]),
        kind.names.date: kind.days(np.tile(days, depots)),
        "drivers": roster.drivers.reshape(-1),
    }
    if isinstance(roster, ShiftRoster):
        for place, name in enumerate(roster.names):
            columns[f"drivers_{name}"] = roster.crews[place].reshape(-1)
    if roster.vans is not None:
        columns["vans"] = roster.vans.reshape(-1)
    columns["chance_short"] = roster.chance_short.reshape(-1)
    columns["expected_cost"] = roster.expected_cost.reshape(-1)
    return columns
