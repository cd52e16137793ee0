"""Forecast archive: the rows that a forecast leaves in the lake, every quantile of every day, append only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa

from forecaster.lake import TABLES
from forecaster.planning.overrides import Override
from forecaster.publishing.forecast import ForecastResult


def rows(result: ForecastResult, overrides: Mapping[tuple[int, int], Override], run_id: str, now: datetime) -> pa.Table:
    """The model's forecast, and beside it the numbers of planners."""
    forecast = result.forecast
    depots, horizon, levels = forecast.quantiles.shape
    count = depots * horizon
    schema = TABLES["forecasts"]
    offsets = pa.array(np.arange(0, count * levels + 1, levels, dtype=np.int32))
    columns = {
        "run_id": pa.repeat(run_id, count),
        "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
        "bundle": pa.repeat(pa.scalar(result.digest, pa.string()), count),
        "tier": pa.repeat(result.choice.tier, count),
        "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon)),
        "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
        "target_date": pa.array(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
        "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
        "levels": pa.ListArray.from_arrays(offsets, pa.array(np.tile(np.asarray(forecast.levels, np.float64), count))),
        "quantiles": pa.ListArray.from_arrays(offsets, pa.array(forecast.quantiles.ravel())),
        "override": pa.array(_override_orders(overrides, depots, horizon), pa.int64()),
    }
    return pa.table(columns).select(schema.names).cast(schema)


def _override_orders(overrides: Mapping[tuple[int, int], Override], depots: int, horizon: int) -> list[int | None]:
    orders: list[int | None] = [None] * (depots * horizon)
    for (row, step), override in overrides.items():
        orders[row * horizon + step] = override.orders
    return orders
