"""The seasonal-naive forecast calculated by hand: gaps, closed days, depots without a past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecaster.serving.fallback import seasonal_naive
from tests.panels import LEVELS, NAN, bare, panel

WEEK = [10, 20, 30, 40, 50, 60, 70]


def test_the_median_is_the_count_of_the_same_weekday_a_week_ago() -> None:
    predicted = seasonal_naive(bare([[1] * 7 + WEEK]), LEVELS)
    np.testing.assert_allclose(predicted.median, [WEEK], rtol=1e-6)
    assert predicted.levels == LEVELS
    assert predicted.quantiles.dtype == np.float32
    # Fewer than 21 weekly changes in the whole network give no spread.
    np.testing.assert_array_equal(predicted.quantiles[..., 0], predicted.quantiles[..., 2])


def test_the_horizon_continues_the_history() -> None:
    """The history ends on a Wednesday, so the first day ahead is a Thursday."""
    predicted = seasonal_naive(bare([[*WEEK, 1, 2, 3]], horizon=5), LEVELS)
    np.testing.assert_allclose(predicted.median, [[40, 50, 60, 70, 1]], rtol=1e-6)


def test_four_weeks_ahead_repeat_the_last_one_with_the_spread_of_changes_over_as_many_weeks() -> None:
    random, weeks = np.random.default_rng(0), 20
    moving = np.exp(np.cumsum(random.normal(0, 0.2, weeks)))  # a level that moves from week to week
    counts = np.round(1000 * np.repeat(moving, 7) * np.tile(WEEK, weeks))
    predicted = seasonal_naive(bare([counts], horizon=28), LEVELS)
    np.testing.assert_allclose(predicted.median, np.tile(counts[-7:], 4)[None], rtol=1e-6)
    log = np.log1p(predicted.quantiles[0])
    width = (log[:, 2] - log[:, 0])[::7]
    assert (np.diff(width) >= 0).all()
    assert width[3] > 1.3 * width[0]
    recent = np.log1p(counts[-98:])  # as many changes over two weeks as over one
    change = recent[14:] - recent[:-14]
    expected = np.quantile(change, LEVELS) - np.median(change)
    np.testing.assert_allclose(log[7] - log[7, 1], expected, atol=1e-5)


def test_unknown_and_closed_days_use_earlier_weeks() -> None:
    history = [*WEEK, *[2 * x for x in WEEK], *[3 * x for x in WEEK]]
    counts = np.array([history], float)
    counts[0, [14, 15, 8]] = NAN  # Monday of the last week, Tuesday of the last two
    predicted = seasonal_naive(bare(counts, closed=[(0, 16)]), LEVELS)  # Wednesday was closed
    np.testing.assert_allclose(predicted.median, [[20, 20, 60, 120, 150, 180, 210]], rtol=1e-6)


def test_a_weekday_unknown_for_eight_weeks_gets_the_depots_own_mean() -> None:
    counts = np.full((1, 70), NAN)
    counts[0, :14] = 1000  # Mondays to Sundays, nine and ten weeks ago
    counts[0, 63:] = [NAN, 4, 4, 4, 4, 4, 4]
    predicted = seasonal_naive(bare(counts), LEVELS)
    np.testing.assert_allclose(predicted.median, [[(14 * 1000 + 24) / 20, 4, 4, 4, 4, 4, 4]], rtol=1e-6)


def test_a_depot_without_history_gets_the_median_of_the_others_means() -> None:
    predicted = seasonal_naive(bare([[NAN] * 14, [10] * 14, [30] * 14, [100] * 14]), LEVELS)
    np.testing.assert_allclose(predicted.median[0], [30] * 7, rtol=1e-6)


def test_a_new_depot_gets_its_citys_week_at_its_own_level() -> None:
    """With 28 known days the first two need no guess; the third opened a week ago, at twice its
    city's level."""
    week = np.array(WEEK, float)
    old, new = np.tile(week, 5), np.full(35, NAN)
    new[28:34] = 2 * week[:6]
    flat = np.full(35, 5.0)
    history = replace(
        bare([old, old, new, np.full(35, NAN), flat, flat]), attributes={"city": ("U", "U", "U", "V", "V", "V")}
    )
    predicted = seasonal_naive(history, LEVELS)
    np.testing.assert_allclose(predicted.median[2], 2 * week, rtol=5e-3)  # its Sunday is not known yet
    assert len(set(predicted.median[3])) == 1  # its city is flat
    assert (
        5 < predicted.median[3, 0] < 6.5
    )  # two depots do not fully determine a city's level, and the others' mean is higher
    assert (predicted.quantiles[3] > 0).all()


def test_a_new_depot_that_is_closed_ahead_is_zero() -> None:
    history = bare([[10] * 28, [10] * 28, [NAN] * 28], closed=[(2, day) for day in (*range(28), 30)])
    predicted = seasonal_naive(history, LEVELS)
    assert not predicted.quantiles[2, 2].any()
    np.testing.assert_allclose(predicted.median[2, [0, 1, 3, 4, 5, 6]], 10, rtol=1e-6)


def test_the_band_matches_numpys_quantiles_for_each_depot() -> None:
    random = np.random.default_rng(1)
    counts = np.where(random.random((5, 91)) < 0.2, NAN, random.poisson(30, (5, 91)))
    levels = (0.05, 0.1, 0.5, 0.9)
    predicted = seasonal_naive(bare(counts), levels)
    log = np.log1p(counts)
    band = np.nanquantile(log[:, 7:] - log[:, :-7], levels, axis=1).T
    spread = np.log1p(predicted.quantiles) - np.log1p(predicted.median)[..., None]
    np.testing.assert_allclose(spread, np.broadcast_to((band - band[:, [2]])[:, None], spread.shape), atol=1e-5)


def test_without_any_known_count_the_forecast_is_zero() -> None:
    predicted = seasonal_naive(bare([[NAN] * 14]), LEVELS)
    assert not predicted.quantiles.any()


def test_closed_days_are_zero() -> None:
    predicted = seasonal_naive(bare([[10] * 14], closed=[(0, 14 + 3)]), LEVELS)
    assert predicted.open.tolist() == [[True, True, True, False, True, True, True]]
    assert not predicted.quantiles[0, 3].any()
    assert (predicted.quantiles[0, [0, 1, 2, 4, 5, 6]] > 0).all()


def test_the_band_is_that_of_the_depots_own_weekly_changes() -> None:
    """Log counts change by −0.2, 0 or +0.2 from week to week, equally often; a depot without
    changes has its own, empty, band."""
    steps = np.tile([-0.2, 0.0, 0.2], 40)
    levels = np.cumsum(steps)  # one change per week, the same on every weekday
    lively = np.expm1(4 + np.repeat(levels, 7))[: 13 * 7]
    calm = np.full(13 * 7, 10.0)
    predicted = seasonal_naive(bare([lively, calm]), (0.1, 0.5, 0.9))
    spread = np.log1p(predicted.quantiles[0]) - np.log1p(predicted.median[0])[:, None]
    np.testing.assert_allclose(spread, np.tile([-0.2, 0, 0.2], (7, 1)), atol=1e-5)
    np.testing.assert_allclose(predicted.quantiles[1], 10, rtol=1e-6)


def test_a_depot_with_few_weekly_changes_takes_the_band_of_all() -> None:
    random = np.random.default_rng(0)
    old = np.round(random.lognormal(4, 0.3, 91))
    new = np.full(91, NAN)
    new[-7:] = 50
    predicted = seasonal_naive(bare([old, new]), LEVELS)
    ratio = (predicted.quantiles + 1) / (predicted.median + 1)[..., None]
    np.testing.assert_allclose(ratio[1], ratio[0], rtol=1e-5)
    assert ratio[1, 0, 2] > 1.2


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_rise_and_are_finite_and_never_negative(seed: int) -> None:
    random = np.random.default_rng(seed)
    counts = np.where(random.random((6, 100)) < 0.4, NAN, random.poisson(1, (6, 100)))
    counts[0] = NAN
    predicted = seasonal_naive(bare(counts), (0.05, 0.1, 0.5, 0.7, 0.9)).quantiles
    assert np.isfinite(predicted).all()
    assert (predicted >= 0).all()
    assert (np.diff(predicted, axis=-1) >= 0).all()


def test_a_short_horizon_and_a_short_history_are_enough() -> None:
    assert seasonal_naive(bare([[5, 6, 7]], horizon=2), LEVELS).median.tolist() == [[6, 6]]
    assert seasonal_naive(panel(2, 8), LEVELS).quantiles.shape == (2, 3, 3)
