"""Outliers in real counts: real events pass, and planted outliers are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.demand.sample.simulate import simulate
from forecaster.demand.validation.outliers import suspects

KEPT_FOR_MODELS = 56  # last days of each real set, kept for model evaluation
REAL = {  # set → maximum number of known cells that may be quarantined in a first load
    "rossmann": 0,
    "favorita_transactions": 0,
    "chicago_l_stations": 0,  # includes holidays, games and strikes
    "bayarea_bikeshare14": 0,
    "muenster_bike_counters": 0,  # includes snow, lockdowns and Christmas
    "melbourne_pedestrians": 8,  # three festival days, and some days of a sensor at a tenth of its level
    "recruit_restaurants": 61,  # parties or typing errors: 409 guests instead of the usual 18
    "nyc_taxi_apps_geo": 64,  # months with another way of reporting
}


def real(folder: Path, name: str) -> tuple[Floats, Bools]:
    """Counts and closed days of a real set, without the days kept for model evaluation."""
    rows = pd.read_parquet(folder / f"{name}.parquet")
    rows["date"] = pd.to_datetime(rows["date"])
    rows = rows[rows["date"] <= rows["date"].max() - pd.Timedelta(days=KEPT_FOR_MODELS)]
    days = pd.date_range(rows["date"].min(), rows["date"].max())
    counts = rows.pivot(index="depot_id", columns="date", values="demand").reindex(columns=days).to_numpy(np.float32)
    closed = np.zeros(counts.shape, bool)
    if name == "rossmann":
        open_ = rows.pivot(index="depot_id", columns="date", values="open").reindex(columns=days)
        closed = (open_ == 0).fillna(False).to_numpy(bool)
    return counts, closed


def share_found(counts: Floats, closed: Bools, planted: Bools) -> float:
    is_suspect: Doubles = np.zeros(counts.shape)
    for cells in suspects(counts, np.isfinite(counts), closed).values():
        is_suspect[cells.depot, cells.day] = 1
    return float(is_suspect[planted].mean())


@pytest.mark.parametrize("name", REAL)
def test_real_counts_pass_except_for_known_outliers(datasets: Path, name: str) -> None:
    counts, closed = real(datasets, name)
    by_rule = suspects(counts, np.isfinite(counts), closed)
    assert sum(len(cells) for cells in by_rule.values()) <= REAL[name]


@pytest.mark.parametrize(
    ("name", "tenfold", "hundredfold"),
    [
        ("rossmann", 0.96, 0.97),
        ("favorita_transactions", 0.93, 0.97),
        ("chicago_l_stations", 0.80, 0.97),
        ("melbourne_pedestrians", 0.80, 0.97),
        ("recruit_restaurants", 0.60, 0.94),
    ],
)
def test_finds_typing_errors_in_real_counts(datasets: Path, name: str, tenfold: float, hundredfold: float) -> None:
    counts, closed = real(datasets, name)
    judged = (counts > 0) & ~closed
    judged &= np.cumsum(judged, axis=1) > 50
    for times, least in ((10, tenfold), (100, hundredfold)):
        planted = judged & (np.random.default_rng(times).random(counts.shape) < 0.002)
        slipped = np.where(planted, counts * np.float32(times), counts)
        assert share_found(slipped, closed, planted) >= least


def test_sample_fleet_is_clean_and_a_unit_change_in_it_is_found() -> None:
    rows = simulate(flaws=False).demand
    counts = rows.pivot(index="depot", columns="day", values="orders").to_numpy(np.float32)
    fresh = np.isfinite(counts)
    assert all(len(cells) == 0 for cells in suspects(counts, fresh).values())
    planted = np.zeros(counts.shape, bool)
    planted[::5, 300:314] = fresh[::5, 300:314] & (counts[::5, 300:314] > 0)
    for times in (10, 0.1, 1000, 0.001):
        changed = np.where(planted, counts * np.float32(times), counts)
        assert share_found(changed, np.zeros(counts.shape, bool), planted) > 0.95
