"""A frame of quantile forecasts, whoever made them, as a `Forecast`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from forecaster.api.frames import FrameKind, long_frame
from forecaster.core.arrays import Bools
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError

_QUANTILE = re.compile(r"(?:.*-q-|q)(?P<level>0?\.\d+)")


def forecast_of_frame(frame: Any) -> tuple[Forecast, FrameKind]:
    """The forecast that a long frame of quantiles says, and how the frame was given.

    Raises SpecError for a frame without the levels 0.1, 0.5 and 0.9, with a quantile that is negative, not a number or
    below one of a lower level, or where a depot has other days than the others.
    """
    readings = long_frame(frame, "forecasts", demand=False)
    table = readings.table
    columns = {float(match["level"]): name for name in table.column_names if (match := _QUANTILE.fullmatch(name))}
    levels = tuple(sorted(columns))
    if missing := {0.1, 0.5, 0.9} - set(levels):
        found = ", ".join(columns.values()) or "none"
        raise SpecError(f"forecasts: found the quantiles {found}; wanted {sorted(missing)} among them, as in q0.5")
    ids, days = np.asarray(table["depot_id"].to_pylist(), object), _days(table)
    depots, target = np.unique(ids.astype(str)), np.unique(days)
    order = np.lexsort((days, ids.astype(str)))
    _refuse_gaps(ids[order].astype(str), days[order], depots, target)
    quantiles = np.stack([table[columns[level]].to_numpy()[order] for level in levels], axis=-1).astype(np.float32)
    shaped = quantiles.reshape(len(depots), len(target), len(levels))
    _refuse_impossible(shaped, depots, target, levels)
    cutoff = (target[0] - np.timedelta64(1, "D")).astype(object)
    dates = tuple(target.astype(object))
    is_open: Bools = np.asarray((shaped > 0).any(axis=-1))
    return Forecast(tuple(depots.tolist()), cutoff, dates, levels, shaped, is_open), readings.kind


def _days(table: pa.Table) -> Any:
    try:
        return np.asarray(table["date"].to_numpy(), "datetime64[D]")
    except (ValueError, TypeError) as error:
        raise SpecError(f"forecasts: the days cannot be read: {error}; wanted dates") from error


def _refuse_gaps(ids: Any, days: Any, depots: Any, target: Any) -> None:
    counts = dict(zip(*np.unique(ids, return_counts=True), strict=True))
    for depot in depots:
        of_depot = days[ids == depot]
        if counts[depot] != len(target) or (of_depot != target).any():
            raise SpecError(
                f"forecasts: depot {str(depot)!r} has {counts[depot]} rows; wanted one for each of the {len(target)} "
                f"days from {target[0]} to {target[-1]}"
            )
    if (wrong := np.diff(target.astype(np.int64)) != 1).any():
        raise SpecError(f"forecasts: found no row of the day after {target[:-1][wrong][0]}; wanted days without a gap")


def _refuse_impossible(quantiles: Any, depots: Any, target: Any, levels: Sequence[float]) -> None:
    falls = np.diff(quantiles, axis=-1, prepend=0.0) < 0
    if (wrong := falls | ~np.isfinite(quantiles)).any():
        row, step, place = np.argwhere(wrong)[0]
        raise SpecError(
            f"forecasts: depot {str(depots[row])!r} on {target[step]}: the quantile {levels[place]:g} is "
            f"{quantiles[row, step, place]:g}; wanted a number of at least 0 that is not below a lower level's"
        )
