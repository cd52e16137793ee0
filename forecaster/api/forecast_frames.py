"""Conversion of a frame of quantile forecasts from any source to a `Forecast`."""

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
    """Convert a long frame of quantiles to a forecast; also return the kind of the frame.

    Raises SpecError for a frame without rows, without the quantile levels 0.1, 0.5 and 0.9 or with
    two columns of one level, with a quantile that is negative, not a number or below that of a
    lower level, or if a depot has other days than the others.
    """
    readings = long_frame(frame, "forecasts", demand=False)
    table = readings.table
    if len(table) == 0:
        raise SpecError("forecasts: found no row, wanted one for each depot and day")
    columns = _quantile_columns(table.column_names)
    levels = tuple(sorted(columns))
    ids, days = _depots(table, readings.kind), _days(table, readings.kind)
    depots, target = np.unique(ids), np.unique(days)
    order = np.lexsort((days, ids))
    _refuse_gaps(ids[order], days[order], depots, target)
    quantiles = np.stack([_numbers(table, columns[level])[order] for level in levels], axis=-1).astype(np.float32)
    shaped = quantiles.reshape(len(depots), len(target), len(levels))
    _refuse_impossible(shaped, depots, target, levels)
    cutoff = (target[0] - np.timedelta64(1, "D")).astype(object)
    dates = tuple(target.astype(object))
    is_open: Bools = np.asarray((shaped > 0).any(axis=-1))
    return Forecast(tuple(depots.tolist()), cutoff, dates, levels, shaped, is_open), readings.kind


def _quantile_columns(names: Sequence[str]) -> dict[float, str]:
    """Column of each quantile level."""
    columns: dict[float, str] = {}
    for name in names:
        if match := _QUANTILE.fullmatch(name):
            level = float(match["level"])
            if level in columns:
                raise SpecError(
                    f"forecasts: found '{columns[level]}' and '{name}', both of the level {level:g}; wanted the "
                    "quantiles of one model"
                )
            columns[level] = name
    if 0.0 in columns:
        raise SpecError(f"forecasts: found the quantile {columns[0.0]}; wanted levels above 0 and below 1")
    if missing := {0.1, 0.5, 0.9} - set(columns):
        name_list = ", ".join(columns.values()) or f"none among the columns {', '.join(names)}"
        raise SpecError(f"forecasts: found the quantiles {name_list}; wanted {sorted(missing)} among them, as in q0.5")
    return columns


def _depots(table: pa.Table, kind: FrameKind) -> Any:
    if table["depot_id"].null_count:
        raise SpecError(f"forecasts: found a row without '{kind.names.depot_id}', wanted a depot in each")
    return np.asarray(table["depot_id"].to_pylist(), str)


def _days(table: pa.Table, kind: FrameKind) -> Any:
    """Days; a timestamp with a zone counts as the day of its own local time."""
    column = table["date"]
    if not (pa.types.is_temporal(column.type) or column.type in (pa.string(), pa.large_string(), pa.string_view())):
        raise SpecError(f"forecasts: column '{kind.names.date}' has the type {column.type}, wanted dates")
    if column.null_count:
        raise SpecError(f"forecasts: found a row without '{kind.names.date}', wanted a day in each")
    try:
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            return column.to_pandas().dt.tz_localize(None).to_numpy().astype("datetime64[D]")
        return np.asarray(column.to_numpy(), "datetime64[D]")
    except (ValueError, TypeError) as error:
        raise SpecError(f"forecasts: the days cannot be read: {error}; wanted dates") from error


def _numbers(table: pa.Table, name: str) -> Any:
    try:
        return np.asarray(table[name].to_numpy(), np.float64)
    except (ValueError, TypeError) as error:
        raise SpecError(f"forecasts: column '{name}': {error}; wanted numbers") from error


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
