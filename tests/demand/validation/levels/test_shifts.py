"""Counts at another level that are demand nevertheless: seasons, and lasting levels."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.core.arrays import Floats
from forecaster.demand.validation.levels import shifts
from forecaster.demand.validation.levels.shifts import are_demand
from forecaster.demand.validation.outliers import suspects

FIRST = 70


def counts_of(days: int, *levels: float) -> Floats:
    """Counts with 10 % noise at depots of these levels."""
    random = np.random.default_rng(4)
    noise = random.normal(1, 0.1, (len(levels), days))
    return np.round(np.array(levels)[:, None] * noise).astype(np.float32)


def quarantined(counts: Floats) -> list[tuple[int, int]]:
    """First depots and days of units that do not count."""
    cells = suspects(counts, np.isfinite(counts))["unit_change"]
    left = cells.where(~are_demand(cells, counts))
    return list(zip(left.depot.tolist(), left.day.tolist(), strict=True))


def test_three_days_of_one_depot_in_another_unit_are_quarantined() -> None:
    counts = counts_of(FIRST + 3, 200, 300)
    counts[0, FIRST:] *= 10
    assert quarantined(counts) == [(0, FIRST), (0, FIRST + 1), (0, FIRST + 2)]


@pytest.mark.parametrize("times", [10, 0.1, 1000])
def test_level_that_lasted_a_week_counts(times: float) -> None:
    counts = counts_of(FIRST + 7, 200, 300)
    counts[0, FIRST:] *= times
    assert quarantined(counts) == []
    assert len(quarantined(counts[:, :-1])) == 6


def test_finished_stretch_in_another_unit_is_quarantined_however_long() -> None:
    counts = counts_of(FIRST + 30, 200, 300)
    counts[0, FIRST : FIRST + 14] *= 100
    assert [day for _, day in quarantined(counts)] == list(range(FIRST, FIRST + 14))


def test_season_shared_with_neighbors_by_other_factors_counts_from_its_first_day() -> None:
    counts = counts_of(FIRST + 4, 66, 34)
    counts[0, FIRST:] *= 7.6
    counts[1, FIRST:] *= 9.4
    assert quarantined(counts) == []


def test_whole_small_feed_in_another_unit_is_quarantined() -> None:
    counts = counts_of(FIRST + 4, 660, 340, 210)
    counts[:, FIRST:] *= 1000
    assert len(quarantined(counts)) == 12


def test_demand_that_ramps_over_days_counts() -> None:
    counts = counts_of(FIRST + 5, 200, 300)
    counts[0, FIRST - 3 :] *= np.array([2.5, 4, 6, 9, 10, 10, 10, 10])
    assert quarantined(counts) == []


def test_demand_that_occurred_a_year_before_counts() -> None:
    counts = counts_of(364 + 120, 200, 300)
    counts[0, 90:130] *= 9
    counts[0, 90 + 364 + 8 : 90 + 364 + 12] *= 9
    assert quarantined(counts[:, : 90 + 364 + 12]) == []
    counts[0, 90:130] /= 9
    assert len(quarantined(counts[:, : 90 + 364 + 12])) == 4


def test_counts_after_a_week_without_accepted_ones_count() -> None:
    counts = counts_of(FIRST + 10, 200, 300)
    counts[0, FIRST : FIRST + 9] = np.nan
    counts[0, FIRST + 9] *= 10
    cells = suspects(counts, np.isfinite(counts))["spike"]
    assert are_demand(cells, counts).tolist() == [True]


def test_result_does_not_depend_on_the_portion_size(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counts_of(FIRST + 4, 66, 34)
    counts[0, FIRST:] *= 7.6
    counts[1, FIRST:] *= 9.4
    monkeypatch.setattr(shifts, "PORTION", 1)
    assert quarantined(counts) == []
