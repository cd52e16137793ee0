"""Demand of capped days: no lower than the count, close to the truth in the mean, and the count on
other days."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from forecaster.core.arrays import Bools, Floats
from forecaster.core.imputation.censoring import CappedCounts, demand_of
from tests.panels import bare

DAYS = np.arange("2024-01-01", "2025-01-01", dtype="datetime64[D]")


def true_demand(depots: int, spread: float = 0.15) -> Floats:
    """Generate counts with levels of 50 to 500, weekdays, a season, days that all depots share, and
    noise."""
    random = np.random.default_rng(3)
    level = np.geomspace(50, 500, depots)[:, None]
    week = np.array([0.0, 0.05, 0.0, 0.1, 0.3, -0.3, -0.6])[np.arange(len(DAYS)) % 7]
    season = 0.2 * np.sin(2 * np.pi * np.arange(len(DAYS)) / 365)
    shared = 0.1 * random.standard_normal(len(DAYS))
    noise = spread * random.standard_normal((depots, len(DAYS)))
    return np.round(level * np.exp(week + season + shared + noise)).astype(np.float32)


def capped(truth: Floats, rows: slice, quantile: float = 0.7) -> tuple[CappedCounts, Bools]:
    limit = np.full((len(truth), 1), np.inf)
    limit[rows] = np.quantile(truth[rows], quantile, axis=1, keepdims=True)
    is_capped = truth >= limit
    return CappedCounts(np.minimum(truth, limit).astype(np.float32), is_capped), is_capped


def ids(depots: int) -> list[str]:
    return [f"D{number}" for number in range(depots)]


@pytest.mark.parametrize(("depots", "rows"), [(12, slice(0, 12, 3)), (12, slice(None)), (1, slice(None))])
def test_demand_of_capped_days_has_the_mean_and_spread_of_the_truth(depots: int, rows: slice) -> None:
    truth = true_demand(depots)
    counts, is_capped = capped(truth, rows)
    demand = demand_of(counts, np.ones(truth.shape, np.bool_), ids(depots), DAYS)
    assert (demand >= counts.served).all()
    assert np.array_equal(demand[~is_capped], truth[~is_capped])
    lost = truth[is_capped].sum() - counts.served[is_capped].sum()
    missed = truth[is_capped].sum() - demand[is_capped].sum()
    assert abs(missed) < 0.35 * lost
    highest = [np.quantile(np.log(x[rows] / x[rows].mean(axis=1, keepdims=True)), 0.95) for x in (truth, demand)]
    assert highest[1] == pytest.approx(highest[0], abs=0.12)


def test_an_always_capped_weekday_is_estimated_from_other_depots() -> None:
    truth = true_demand(9, spread=0.05)
    friday = np.arange(len(DAYS)) % 7 == 4
    is_capped = np.zeros(truth.shape, np.bool_)
    is_capped[0] = friday
    served = truth.copy()
    served[0, friday] *= 0.8
    demand = demand_of(CappedCounts(served, is_capped), np.ones(truth.shape, np.bool_), ids(9), DAYS)
    assert demand[0, friday].mean() == pytest.approx(truth[0, friday].mean(), rel=0.1)


def test_closed_unknown_and_uncapped_days_are_unchanged() -> None:
    truth = true_demand(3)
    truth[0, 5] = np.nan
    is_open = np.ones(truth.shape, np.bool_)
    is_open[1, 6] = False
    nothing = np.zeros(truth.shape, np.bool_)
    assert demand_of(CappedCounts(truth, nothing), is_open, ids(3), DAYS).tobytes() == truth.tobytes()
    odd = nothing.copy()
    odd[0, 5], odd[1, 6] = True, True
    assert demand_of(CappedCounts(truth, odd), is_open, ids(3), DAYS).tobytes() == truth.tobytes()


def test_expected_demand_replaces_the_count_if_it_is_higher() -> None:
    truth, nan = true_demand(2), np.nan
    is_capped, expected = np.zeros(truth.shape, np.bool_), np.full(truth.shape, nan, np.float32)
    is_capped[0, [3, 4]], expected[0, 3], expected[0, 4] = True, 1000, 1
    demand = demand_of(CappedCounts(truth, is_capped, expected), np.ones(truth.shape, np.bool_), ids(2), DAYS)
    assert demand[0, 3] == 1000
    assert demand[0, 4] == truth[0, 4]


def test_a_panel_estimates_demand_from_the_knowledge_at_its_cutoff() -> None:
    random = np.random.default_rng(0)
    whole = bare(random.poisson(40, (6, 200)).tolist(), horizon=7)
    is_capped = whole.demand >= 44
    served = np.minimum(whole.demand, 44).astype(np.float32)
    panel = whole.with_capped(CappedCounts(served, is_capped))
    assert np.array_equal(panel.served, served)
    assert (panel.demand[is_capped] >= 44).all()
    cutoff = panel.cutoff - timedelta(days=50)
    before = panel.at(cutoff)
    changed = served.copy()
    changed[:, -50:] *= 9  # later counts must not affect earlier knowledge
    other = whole.with_capped(CappedCounts(changed, is_capped)).at(cutoff)
    assert before.demand.tobytes() == other.demand.tobytes()
    assert before.is_capped.shape == before.demand.shape
    assert before.last(20).is_capped.shape == (6, 20)
    assert panel.among(["gone", panel.depot_ids[2]]).served[1].tolist() == served[2].tolist()
    assert replace(panel, capped=None).is_capped.sum() == 0
    assert panel.at(panel.cutoff).cutoff == date(2024, 1, 1) + timedelta(days=199)
