"""Store backtest results as rows of the lake: forecasts and actuals, from which any metric can be
computed later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forecaster.core.forecast import Scores
from forecaster.evaluation.backtest import first_scored
from forecaster.lake import TABLES, Lake


def append_scores(scores: Mapping[str, Scores], lake: Lake, *, run_id: str, now: datetime) -> int:
    """Append every fold's forecasts and actuals to the lake in one commit, so that any metric can
    be computed later.

    Days before the held-out ones, on which a model may have been trained, are left out, because
    readers score all rows.
    """
    tables = [_rows(of_model, run_id, now) for of_model in scores.values()]
    return lake.append("scores", pa.concat_tables(tables))


def _rows(scores: Scores, run_id: str, now: datetime) -> pa.Table:
    parts = []
    for fold in scores.folds:
        forecast, first = fold.forecast, first_scored(fold)
        quantiles, actuals = forecast.quantiles[:, first:], fold.actuals[:, first:]
        depots, horizon, levels = quantiles.shape
        count = depots * horizon
        days = np.asarray(forecast.target_dates[first:], "datetime64[D]")
        columns = {
            "run_id": pa.repeat(run_id, count),
            "recorded_at": pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), count),
            "model": pa.repeat(scores.model, count),
            "cutoff": pa.repeat(pa.scalar(forecast.cutoff, pa.date32()), count),
            "depot_id": pa.array(np.repeat(np.asarray(forecast.depot_ids, object), horizon)),
            "target_date": pa.array(np.tile(days, depots)),
            "horizon": pa.array(np.tile(np.arange(1, horizon + 1, dtype=np.int32) + first, depots)),
            "levels": lists(np.tile(np.asarray(forecast.levels, np.float64), (count, 1))),
            "quantiles": lists(quantiles.reshape(count, levels)),
            "actual": pa.array(actuals.reshape(count), from_pandas=True),
        }
        parts.append(pa.table(columns).select(TABLES["scores"].names).cast(TABLES["scores"]))
    return pa.concat_tables(parts)


def lists(rows: NDArray[Any]) -> pa.Array:
    """Convert a (rows, levels) array to a column of lists."""
    offsets = pa.array(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(rows.ravel()))
