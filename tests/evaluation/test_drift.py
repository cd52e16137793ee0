"""Drift is detected, and stable depots are not reported."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.core.arrays import Doubles
from forecaster.evaluation import drift, pit

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
WIDTH = 0.15  # half of the 80 % range
SIGMA = WIDTH / 1.2816


def judged(counts: Doubles, median: float = 400.0, sigma: float = SIGMA, **options: bool) -> drift.Drifts:
    """Judge counts (depots, days) whose forecast is the same each day."""
    quantiles = median * np.exp(sigma * np.array([-1.2816, -0.6745, 0.0, 0.6745, 1.2816]))
    flat = pit.pit_scores(counts.ravel(), np.tile(quantiles, (counts.size, 1)), LEVELS)
    return drift.judge(flat.reshape(counts.shape), counts, np.where(np.isfinite(counts), median, np.nan), **options)


def quiet(seed: int, depots: int = 60, days: int = drift.DAYS, alike: float = 0.0) -> Doubles:
    """Counts about 400; `alike` is the autocorrelation of the forecast errors."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(depots, days + 30))
    for day in range(1, days + 30):
        noise[:, day] = alike * noise[:, day - 1] + np.sqrt(1 - alike**2) * noise[:, day]
    return np.rint(400 * np.exp(SIGMA * noise[:, 30:]))


@pytest.mark.parametrize("alike", [0.0, 0.5])
def test_fewer_than_one_in_a_hundred_stable_depots_is_reported(alike: float) -> None:
    """Also with autocorrelated forecast errors, which widen the null."""
    found = [judged(quiet(seed, alike=alike)) for seed in range(60)]
    assert np.mean([row.level != 0 for row in found]) < 0.01
    assert np.mean([row.spread != 0 for row in found]) < 0.01


def test_the_rate_holds_for_a_single_depot() -> None:
    found = [judged(quiet(seed, depots=1), relative=False) for seed in range(400)]
    assert np.mean([row.level != 0 for row in found]) < 0.04  # for a single hypothesis the rate is that of a test, 2 %


@pytest.mark.parametrize(("factor", "direction"), [(1.25, 1.0), (0.75, -1.0)])
def test_a_change_of_a_quarter_is_detected_within_fourteen_days_at_no_other_depot(
    factor: float, direction: float
) -> None:
    found, others = [], []
    for seed in range(20):
        counts = quiet(seed)
        counts[:3, -14:] = np.rint(counts[:3, -14:] * factor)
        result = judged(counts)
        found += (result.level[:3] == direction).tolist()
        others += (result.level[3:] != 0).tolist()
    assert np.mean(found) > 0.95
    assert np.mean(others) < 0.01


def test_the_onset_and_size_of_drift_are_estimated() -> None:
    counts = quiet(3)
    counts[0, -12:] = np.rint(counts[0, -12:] * 1.3)
    result = judged(counts)
    assert result.level[0] == 1
    assert abs(result.first[0] - (drift.DAYS - 12)) <= 2
    assert result.ratio[0] == pytest.approx(1.3, abs=0.08)


def test_a_shock_common_to_all_depots_is_not_drift_of_a_depot() -> None:
    """Nor is a week with a common shock."""
    for days in (1, 7):
        counts = quiet(1)
        counts[:, -days - 2 : -2] = np.rint(counts[:, -days - 2 : -2] * 0.5)
        result = judged(counts)
        assert not result.level.any()
        assert not result.spread.any()


def test_a_change_common_to_all_depots_is_drift_of_the_network() -> None:
    counts = quiet(5)
    counts[:, -14:] = np.rint(counts[:, -14:] * 1.2)
    quantiles = 400 * np.exp(SIGMA * np.array([-1.2816, -0.6745, 0.0, 0.6745, 1.2816]))
    scores = pit.pit_scores(counts.ravel(), np.tile(quantiles, (counts.size, 1)), LEVELS).reshape(counts.shape)
    means = drift.group_means(scores, [np.ones(len(counts), bool)])
    together = drift.judge(means, counts.sum(axis=0)[None], np.full((1, drift.DAYS), 24_000.0), relative=False)
    assert together.level.tolist() == [1.0]
    assert together.ratio[0] == pytest.approx(1.2, abs=0.03)


def test_a_long_standing_bias_is_not_drift() -> None:
    counts = quiet(2)
    counts[0] = np.rint(counts[0] * 1.25)
    assert not judged(counts).level.any()


def test_a_depot_with_mostly_zeros_is_not_reported() -> None:
    random, told = np.random.default_rng(4), []
    for _ in range(30):
        counts = quiet(int(random.integers(1 << 30)), depots=40)
        rare = random.poisson(0.5, (1, drift.DAYS)).astype(float)
        quantiles = np.quantile(random.poisson(0.5, 10_000), LEVELS)
        scores = pit.pit_scores(rare.ravel(), np.tile(quantiles, (rare.size, 1)), LEVELS)[None]
        usual = 400 * np.exp(SIGMA * np.array([-1.2816, -0.6745, 0.0, 0.6745, 1.2816]))
        others = pit.pit_scores(counts.ravel(), np.tile(usual, (counts.size, 1)), LEVELS).reshape(counts.shape)
        median = np.vstack([np.full((1, drift.DAYS), 0.0), np.full(counts.shape, 400.0)])
        result = drift.judge(np.vstack([scores, others]), np.vstack([rare, counts]), median)
        told.append(bool(result.level[0] or result.spread[0]))
    assert sum(told) <= 1


def test_ranges_that_became_too_narrow_are_reported_as_such() -> None:
    found = []
    for seed in range(20):
        counts = quiet(seed)
        counts[0, -28:] = np.rint(400 * (counts[0, -28:] / 400) ** 3)
        result = judged(counts)
        found.append(result.spread[0] == 1 and result.width[0] > 1.5)
        assert result.level[0] == 0
    assert np.mean(found) > 0.8


def test_a_depot_with_too_few_known_days_is_not_tested() -> None:
    counts = quiet(7)
    counts[0, : -drift.LEAST_PAST] = np.nan  # opened lately
    counts[1, -28::2] = np.nan
    counts[2, -20:] = np.nan  # closed, or silent
    result = judged(counts)
    assert result.testable[:3].tolist() == [False, True, False]
    assert result.level[[0, 2]].tolist() == [0, 0]
    assert not judged(np.full((4, drift.DAYS), np.nan)).testable.any()
    assert not judged(np.full((0, drift.DAYS), np.nan)).testable.any()


@pytest.mark.parametrize("days", [1, 20, 40])
def test_the_first_weeks_of_an_archive_are_not_tested(days: int) -> None:
    assert not judged(quiet(8, days=days)).testable.any()


def test_discoveries_match_benjamini_hochberg_by_hand() -> None:
    p = np.array([0.001, np.nan, 0.03, 0.012, 0.5])
    assert drift.discoveries(p, 0.05).tolist() == [True, False, True, True, False]
    assert drift.discoveries(p, 0.01).tolist() == [True, False, False, False, False]
    assert drift.discoveries(np.array([np.nan]), 0.05).tolist() == [False]
