"""Frames at the interface: three libraries, two sets of names, and clear errors for anything else."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from forecaster.api.frames import OURS, FrameKind, forecast_columns, long_frame
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError

COLUMNS: dict[str, Any] = {"unique_id": [7, 7, 8], "ds": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01"])}
FORECAST = Forecast(
    ("7", "8"),
    date(2026, 1, 2),
    (date(2026, 1, 3), date(2026, 1, 4)),
    (0.1, 0.5, 0.9),
    np.arange(12, dtype=np.float32).reshape(2, 2, 3),
    np.ones((2, 2), bool),
)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_results_are_of_the_same_kind_as_the_given_frame(make: Any) -> None:
    frame = make({**COLUMNS, "y": [1.0, None, 3.0]})
    readings = long_frame(frame, "df")
    assert readings.table.column_names == list(OURS)
    assert readings.table["depot_id"].to_pylist() == ["7", "7", "8"]
    assert readings.table["demand"].null_count == 1
    forecasts = readings.kind.frame(forecast_columns(FORECAST, readings.kind))
    assert type(forecasts) is type(frame)
    rows = forecasts if isinstance(forecasts, pa.Table) else pa.table(forecasts)
    assert rows["unique_id"].to_pylist() == [7, 7, 8, 8]
    assert rows["Forecaster"].to_pylist() == rows["Forecaster-q-0.5"].to_pylist() == [1, 4, 7, 10]
    assert rows["Forecaster-lo-80"].to_pylist() == [0, 3, 6, 9]
    assert [str(day)[:10] for day in rows["ds"].to_pylist()] == ["2026-01-03", "2026-01-04"] * 2


@pytest.mark.parametrize(
    "days",
    [
        pl.Series([date(2026, 1, 1)]),
        pl.Series([date(2026, 1, 1)]).cast(pl.Datetime("us")),
        pl.Series([date(2026, 1, 1)]).cast(pl.Datetime("ms")),
    ],
    ids=["date", "microseconds", "milliseconds"],
)
def test_days_keep_their_type_so_that_frames_can_be_joined(days: pl.Series) -> None:
    kind = long_frame(pl.DataFrame({"depot_id": ["7"], "date": days, "demand": [1]}), "df").kind
    assert kind.frame(forecast_columns(FORECAST, kind))["date"].dtype == days.dtype


def test_own_column_names_give_plain_columns() -> None:
    columns = forecast_columns(FORECAST, FrameKind(None, OURS, pa.string()))
    assert list(columns) == ["depot_id", "date", "forecast", "q0.1", "q0.5", "q0.9", "mean"]
    np.testing.assert_allclose(columns["mean"], FORECAST.mean.reshape(-1))


def test_index_of_pandas_is_not_a_column() -> None:
    frame = pd.DataFrame({**COLUMNS, "y": [1, 2, 3]}, index=[5, 5, 9])
    assert long_frame(frame, "df").table.column_names == list(OURS)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"store": [1], "ds": [date(2026, 1, 1)], "y": [1]}, r"found the columns store, ds, y; wanted depot_id, date"),
        ({"unique_id": [1], "ds": [1], "y": [1], "demand": [1]}, "found 'demand' beside unique_id, ds, y"),
        ({"depot_id": [1.5], "date": [date(2026, 1, 1)], "demand": [1]}, "'depot_id' has the type double, wanted text"),
    ],
)
def test_error_for_unknown_columns_names_them(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        long_frame(pd.DataFrame(columns), "df")


def test_rejects_anything_but_a_frame_in_memory() -> None:
    with pytest.raises(SpecError, match="df: found list, wanted a data frame"):
        long_frame([1, 2], "df")
    with pytest.raises(SpecError, match="df: found LazyFrame, wanted a data frame in memory"):
        long_frame(pl.LazyFrame({"depot_id": ["a"]}), "df")


def test_error_points_at_required_names_in_the_pandas_index() -> None:
    frame = pd.DataFrame({**COLUMNS, "y": [1, 2, 3]}).set_index(["unique_id", "ds"])
    with pytest.raises(SpecError, match=r"df: found the columns y; .*; the index has unique_id, ds: reset_index\(\)"):
        long_frame(frame, "df")


def test_rejects_duplicate_columns() -> None:
    frame = pd.DataFrame({**COLUMNS, "y": [1, 2, 3]})
    for twice in (pd.concat([frame, frame[["y"]]], axis=1), pa.table([[1], [2], [3]], ["unique_id", "y", "y"])):
        with pytest.raises(SpecError, match="df: found the columns 'y' more than once, wanted each column once"):
            long_frame(twice, "df")


def test_rejects_days_given_as_periods() -> None:
    frame = pd.DataFrame({**COLUMNS, "y": [1, 2, 3]})
    frame["ds"] = pd.to_datetime(frame["ds"]).dt.to_period("D")
    with pytest.raises(SpecError, match=r"df: column 'ds' holds periods of pandas, wanted dates: dt.to_timestamp\(\)"):
        long_frame(frame, "df")
