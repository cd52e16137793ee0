"""Half-hourly profiles that the lake holds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from forecaster.core.arrays import Floats
from forecaster.demand.half_hours.clock import HALF_HOURS
from forecaster.lake import Lake

TABLE = "half_hours"
KEY = ["depot_id", "day"]


def latest_profiles(
    lake: Lake, *, first: int, as_of: datetime | None = None, version: int | None = None
) -> tuple[pd.DataFrame, Floats]:
    """Latest profiles from a day on (since 1970), as known at an instant: their depots and days,
    and their orders (rows, half hours). Raises LakeError when the lake cannot be read."""
    where = ds.field("date") >= pa.scalar(first, pa.int32()).cast(pa.date32())
    if as_of is not None:
        where &= ds.field("recorded_at") <= pa.scalar(as_of, pa.timestamp("us", tz="UTC"))
    rows = lake.read(TABLE, where=where, version=version).combine_chunks()
    days = pd.DataFrame(
        {
            "depot_id": rows["depot_id"].to_pandas().astype("str"),
            "day": rows["date"].cast(pa.int32()).to_numpy(),
            "recorded_at": rows["recorded_at"].cast(pa.int64()).to_numpy(),
        }
    )
    orders = _flat(rows["orders"]).reshape(-1, HALF_HOURS)
    last = days.sort_values("recorded_at", kind="stable").drop_duplicates(KEY, keep="last").sort_index()
    return last[KEY].reset_index(drop=True), orders[last.index.to_numpy()]


def _flat(column: Any) -> NDArray[np.float32]:
    flat: NDArray[np.float32] = column.combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    return flat
