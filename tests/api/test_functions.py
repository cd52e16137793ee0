"""Rosters from quantile forecasts of any source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import forecaster
from forecaster.config import Staffing
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError
from forecaster.staffing import newsvendor

COSTS = {"orders_per_driver": 20, "cost_short": 100, "cost_idle": 40}


def forecasts(**changes: Any) -> pd.DataFrame:
    days = pd.to_datetime(["2026-01-03", "2026-01-04"])
    columns = {
        "unique_id": ["b", "a", "b", "a"],
        "ds": [days[0], days[0], days[1], days[1]],
        "GRU-q-0.1": [10.0, 80, 0, 90],
        "GRU-q-0.5": [20.0, 100, 0, 100],
        "GRU-q-0.9": [30.0, 130, 0, 120],
    }
    return pd.DataFrame({**columns, **changes})


def test_roster_is_the_cheapest_for_the_quantiles_and_empty_on_closed_days() -> None:
    roster = forecaster.roster(forecasts(), **COSTS)
    assert roster["unique_id"].tolist() == ["a", "a", "b", "b"]
    quantiles = forecasts().sort_values(["unique_id", "ds"]).iloc[:, 2:].to_numpy("float32").reshape(2, 2, 3)
    dates = tuple(day.date() for day in pd.to_datetime(["2026-01-03", "2026-01-04"]))
    of_arrays = Forecast(("a", "b"), dates[0], dates, (0.1, 0.5, 0.9), quantiles, quantiles.any(axis=-1))
    expected = newsvendor.roster(of_arrays, Staffing(**COSTS))
    assert roster["drivers"].tolist() == expected.drivers.reshape(-1).tolist()
    assert roster["drivers"].tolist()[3] == 0
    assert roster["expected_cost"].tolist() == pytest.approx(expected.expected_cost.reshape(-1).tolist())


def test_shifts_have_their_own_columns_that_sum_to_the_day() -> None:
    shifts = [
        {"name": "early", "start": "06:00", "end": "14:00", "share": 0.6},
        {"name": "late", "start": "14:00", "end": "22:00", "share": 0.4},
    ]
    roster = forecaster.roster(forecasts(), **COSTS, shifts=shifts)
    assert (roster["drivers_early"] + roster["drivers_late"]).tolist() == roster["drivers"].tolist()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"GRU-q-0.5": [40.0, 100, 0, 100]}, r"depot 'b' on 2026-01-03: the quantile 0.9 is 30; wanted a number of"),
        ({"GRU-q-0.1": [10.0, None, 0, 90]}, r"depot 'a' on 2026-01-03: the quantile 0.1 is nan"),
        ({"unique_id": ["b", "a", "b", "c"]}, r"depot 'a' has 1 rows; wanted one for each of the 2 days"),
        ({"ds": pd.to_datetime(["2026-01-03", "2026-01-03", "2026-01-05", "2026-01-05"])}, "no row of the day after"),
        ({"ds": [20260103, 20260103, 20260104, 20260104]}, "column 'ds' has the type int64, wanted dates"),
        ({"ds": [None, *pd.to_datetime(["2026-01-03", "2026-01-04", "2026-01-04"])]}, "a row without 'ds'"),
        ({"unique_id": ["b", None, "b", "a"]}, "a row without 'unique_id'"),
        ({"GRU-q-0.1": ["ten", "80", "0", "90"]}, r"column 'GRU-q-0.1': .*'ten'; wanted numbers"),
        ({"GRU-q-0.0": [0.0, 0, 0, 0]}, r"found the quantile GRU-q-0.0; wanted levels above 0"),
        ({"ETS-q-0.5": [20.0, 100, 0, 100]}, "'GRU-q-0.5' and 'ETS-q-0.5', both of the level 0.5; wanted .* one model"),
    ],
)
def test_rejects_impossible_forecasts(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        forecaster.roster(forecasts(**changes), **COSTS)


def test_rejects_a_frame_without_rows() -> None:
    with pytest.raises(SpecError, match=r"^forecasts: found no row"):
        forecaster.roster(forecasts().iloc[:0], **COSTS)


def test_timestamp_with_a_zone_is_its_own_local_day() -> None:
    local = pl.from_pandas(forecasts())
    zoned = local.with_columns(pl.col("ds").dt.replace_time_zone("Europe/Berlin"))
    assert forecaster.roster(zoned, **COSTS).equals(forecaster.roster(local, **COSTS))


def test_accepts_numpy_numbers_as_costs() -> None:
    of_numpy = {name: np.float64(value) for name, value in COSTS.items()}
    pd.testing.assert_frame_equal(forecaster.roster(forecasts(), **of_numpy), forecaster.roster(forecasts(), **COSTS))


def test_error_for_an_invalid_section_names_the_key() -> None:
    with pytest.raises(SpecError, match=r"cost_idle"):
        forecaster.roster(forecasts(), orders_per_driver=20, cost_short=100)
    with pytest.raises(SpecError, match=r"forecasts: found the quantiles GRU-q-0.1, GRU-q-0.5; wanted"):
        forecaster.roster(forecasts().drop(columns="GRU-q-0.9"), **COSTS)
