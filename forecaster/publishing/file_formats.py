"""Serialization of a published forecast: one row a depot and day, as CSV, Parquet or one JSON
array."""

from __future__ import annotations

import io
import json
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from forecaster.publishing.outcome import PublishedForecast

Format = Literal["csv", "parquet", "json"]


def to_table(published: PublishedForecast) -> pa.Table:
    """depot_id, target_date, horizon, open, one column a quantile level (q0.5 is the point
    forecast), and where it all comes from: cutoff, tier, bundle."""
    forecast = published.forecast
    depots, horizon, _ = forecast.quantiles.shape
    count = depots * horizon
    return pa.table(
        {
            "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon), pa.string()),
            "target_date": pa.array(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
            "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32), depots)),
            "open": pa.array(forecast.open.ravel()),
            **{f"q{level:g}": forecast.quantiles[:, :, i].ravel() for i, level in enumerate(forecast.levels)},
            "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
            "tier": pa.repeat(published.tier, count),
            "bundle": pa.repeat(pa.scalar(published.bundle_digest, pa.string()), count),
        }
    )


def serialize(published: PublishedForecast, format_: Format) -> bytes:
    """The bytes of the file in one of the formats."""
    rows, out = to_table(published), io.BytesIO()
    if format_ == "csv":
        pyarrow.csv.write_csv(rows, out)
    elif format_ == "parquet":
        pq.write_table(rows, out)
    else:
        out.write((json.dumps(rows.to_pylist(), default=str, indent=1) + "\n").encode())
    return out.getvalue()
