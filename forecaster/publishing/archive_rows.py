"""Forecast archive: rows of a forecast in the lake, with every quantile of every day; append-only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from forecaster.core.forecast import Forecast
from forecaster.lake import TABLES
from forecaster.planning.overrides import Override
from forecaster.publishing.forecast import Beside, ForecastResult

CHAMPION, CANARY = "champion", "canary"  # roles


def rows(result: ForecastResult, overrides: Mapping[tuple[int, int], Override], run_id: str, now: datetime) -> pa.Table:
    """Return the rows of the shown forecast, with the bundle that made it, and planners' numbers in
    a separate column."""
    depots, horizon, _ = result.forecast.quantiles.shape
    bundles = [result.digest] * depots
    if result.beside is not None:
        cohort, digest = result.beside.cohort, result.beside.canary.digest
        bundles = [digest if depot in cohort else result.digest for depot in result.forecast.depot_ids]
    columns = _columns(result.forecast, run_id, now) | {
        "bundle": pa.array(np.repeat(np.asarray(bundles, object), horizon), pa.string()),
        "tier": pa.repeat(result.choice.tier, depots * horizon),
        "override": pa.array(_override_orders(overrides, depots, horizon), pa.int64()),
    }
    return _table("forecasts", columns)


def canary_rows(digest: str | None, comparison: Beside, run_id: str, now: datetime) -> pa.Table:
    """Return the rows of champion and canary for all depots; `digest` is the champion's."""
    parts = []
    for role, forecast, bundle in (
        (CHAMPION, comparison.champion, digest),
        (CANARY, comparison.canary.forecast, comparison.canary.digest),
    ):
        count = forecast.quantiles.shape[0] * forecast.quantiles.shape[1]
        role_columns = {"role": pa.repeat(role, count), "bundle": pa.repeat(pa.scalar(bundle, pa.string()), count)}
        parts.append(_table("canary_forecasts", _columns(forecast, run_id, now) | role_columns))
    return pa.concat_tables(parts)


def _columns(forecast: Forecast, run_id: str, now: datetime) -> dict[str, Any]:
    depots, horizon, levels = forecast.quantiles.shape
    count = depots * horizon
    offsets = pa.array(np.arange(0, count * levels + 1, levels, dtype=np.int32))
    return {
        "run_id": pa.repeat(run_id, count),
        "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
        "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon)),
        "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
        "target_date": pa.array(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
        "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
        "levels": pa.ListArray.from_arrays(offsets, pa.array(np.tile(np.asarray(forecast.levels, np.float64), count))),
        "quantiles": pa.ListArray.from_arrays(offsets, pa.array(forecast.quantiles.ravel())),
    }


def _table(name: str, columns: Mapping[str, Any]) -> pa.Table:
    schema = TABLES[name]
    return pa.table(dict(columns)).select(schema.names).cast(schema)


def _override_orders(overrides: Mapping[tuple[int, int], Override], depots: int, horizon: int) -> list[int | None]:
    orders: list[int | None] = [None] * (depots * horizon)
    for (row, step), override in overrides.items():
        orders[row * horizon + step] = override.orders
    return orders
