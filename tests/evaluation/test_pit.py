"""Normal scores of counts under quantiles."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from forecaster.evaluation.pit import FARTHEST, pit_scores

LEVELS = (0.1, 0.5, 0.9)


def score(actual: float, *quantiles: float, levels: tuple[float, ...] = LEVELS) -> float:
    return float(pit_scores(np.array([actual]), np.array([quantiles]), levels)[0])


def test_counts_on_the_quantiles_score_their_normal_quantiles() -> None:
    assert score(1000, 800, 1000, 1200) == pytest.approx(0, abs=1e-3)
    assert score(1200, 800, 1000, 1200) == pytest.approx(NormalDist().inv_cdf(0.9), abs=0.01)
    assert score(800, 800, 1000, 1200) == pytest.approx(NormalDist().inv_cdf(0.1), abs=0.01)


def test_beyond_the_range_the_score_is_extrapolated_up_to_three() -> None:
    assert score(1400, 800, 1000, 1200) == pytest.approx(2 * NormalDist().inv_cdf(0.9), abs=0.01)
    assert score(9000, 800, 1000, 1200) == pytest.approx(FARTHEST)
    assert score(0, 800, 1000, 1200) == pytest.approx(-FARTHEST)


def test_a_zero_is_unremarkable_if_six_days_in_ten_are_zero() -> None:
    """F(½) is about 0.58: the middle of the jump is 0.29."""
    assert score(0, 0, 0, 2, levels=(0.2, 0.5, 0.8)) == pytest.approx(-0.52, abs=0.2)
    assert score(0, 0, 0, 0) == pytest.approx(0, abs=0.01)


def test_unknown_values_have_no_score() -> None:
    scores = pit_scores(np.array([np.nan, 5.0]), np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]), LEVELS)
    assert np.isnan(scores).all()
    assert pit_scores(np.zeros(0), np.zeros((0, 3)), LEVELS).shape == (0,)


def test_scores_of_poisson_counts_under_their_own_quantiles_have_mean_zero_at_every_rate() -> None:
    random, levels = np.random.default_rng(0), (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
    for rate in (0.5, 3.0, 40.0, 900.0):
        counts = random.poisson(rate, 20_000).astype(float)
        quantiles = np.quantile(random.poisson(rate, 100_000), levels)
        scores = pit_scores(counts, np.tile(quantiles, (len(counts), 1)), levels)
        assert abs(scores.mean()) < 0.12, rate
        assert scores.std() < 1.1, rate


@pytest.mark.parametrize("levels", [(0.1, 0.9), (0.1, 0.4, 0.9), (0.9, 0.5, 0.1)])
def test_levels_without_a_median_or_out_of_order_are_rejected(levels: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"wanted three or more that rise, with 0\.5"):
        pit_scores(np.zeros(1), np.zeros((1, len(levels))), levels)
