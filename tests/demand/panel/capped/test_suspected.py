"""Depots whose counts end at a wall are named, with the key to set; others are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.core.arrays import Floats
from forecaster.core.imputation.censoring import CappedCounts
from forecaster.demand.panel.capped.suspected import suspected_caps, suspects
from tests.demand.literal_knowledge import DEPOTS, spec_of
from tests.panels import bare

RANDOM = np.random.default_rng(1)


def suspected(counts: Floats) -> list[int]:
    return [suspect.row for suspect in suspects(counts, np.ones((len(counts), counts.shape[1] + 1), np.bool_))]


@pytest.mark.parametrize("mean", [6, 60, 6000])
def test_suspects_counts_that_end_at_a_cap_but_not_those_that_thin_out(mean: float) -> None:
    demand = RANDOM.poisson(mean * np.exp(0.2 * RANDOM.standard_normal((20, 300)))).astype(np.float32)
    caps = np.quantile(demand[::2], 0.7, axis=1, keepdims=True, method="nearest")
    counts = demand.copy()
    counts[::2] = np.minimum(counts[::2], caps)
    assert suspected(counts) == [*range(0, 20, 2)]


def test_suspects_a_cap_that_is_not_sharp() -> None:
    demand = (800 * np.exp(0.25 * RANDOM.standard_normal((4, 300)))).astype(np.float32)
    counts = np.minimum(demand, 900 + RANDOM.uniform(-8, 8, demand.shape)).astype(np.float32)
    assert suspected(counts) == [0, 1, 2, 3]


def test_rounded_constant_and_short_histories_are_not_suspected() -> None:
    demand = RANDOM.poisson(300, (3, 300)).astype(np.float32)
    demand[0] = np.round(demand[0], -1)
    demand[1] = 7
    demand[2, :260] = np.nan
    demand[2] = np.minimum(demand[2], 300)
    assert suspected(demand) == []


def test_finding_names_depots_limit_days_and_keys_until_declared(tmp_path: Path) -> None:
    demand = RANDOM.poisson(50, (3, 200)).astype(np.float32)
    demand[1] = np.minimum(demand[1], 52)
    panel, spec = bare(demand.tolist(), horizon=2), spec_of(tmp_path)
    [finding] = suspected_caps(panel, spec)
    days = int((demand[1] == 52).sum())
    assert (finding.rule, finding.severity, finding.count) == ("looks_capped", "warn", 1)
    assert finding.message == (
        f"the counts of 1 depot ({panel.depot_ids[1]}) look capped, as if a shop had sold out: depot "
        f"{panel.depot_ids[1]} has 52, its largest count, on {days} of 200 days; wanted demand, not the orders "
        f"served: name the column that marks counts as lower bounds (demand.columns.capped, sold_out_at or "
        f"capacity, depots.columns.capacity)"
    )
    assert {depot for depot, _ in finding.places} == {panel.depot_ids[1]}
    assert suspected_caps(panel.with_capped(CappedCounts(demand, demand == 52)), spec) == ()


def test_limit_equal_to_the_vans_capacity_needs_a_lower_wall(tmp_path: Path) -> None:
    values = np.repeat(np.arange(81, 91), 12).astype(np.float32)
    values = np.concatenate([values, np.full(12, 90, np.float32)])  # twice as often as any other
    counts = RANDOM.permutation(values)[None]
    counts[0, :40] *= 0.4
    panel = bare(counts.tolist(), horizon=1)
    staffing = "staffing: {orders_per_driver: 45, cost_short: 3, cost_idle: 1, vans: {total: 9, home: vans}}\n"
    spec = spec_of(tmp_path, depots=DEPOTS.replace("city, country", "city"), more=staffing)
    of_vans = replace(panel, attributes={"vans": ("2",)})
    [finding] = suspected_caps(of_vans, spec)
    assert "its largest count and what its vans deliver" in finding.message
