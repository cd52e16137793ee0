"""Student's t compared with scipy."""

from __future__ import annotations

import pytest

from forecaster.evaluation.student import below, quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 8, 29, 30, 63, 499])
@pytest.mark.parametrize("probability", [0.5, 0.95, 0.975, 0.99375, 0.9996])
def test_a_quantile_matches_scipy(freedom: int, probability: float) -> None:
    from scipy import stats  # takes seconds to import, in each worker

    assert quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9, abs=1e-9)
    assert below(quantile(probability, freedom), freedom) == pytest.approx(probability)


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (float("nan"), 3), (0.9, 0)])
def test_invalid_arguments_are_rejected(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="wanted a probability from"):
        quantile(probability, freedom)
