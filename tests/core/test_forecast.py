"""The mean of a forecast, compared with its median."""

from __future__ import annotations

import numpy as np
import pytest

from tests.panels import fold

LEVELS = (0.1, 0.3, 0.5, 0.9)


def test_the_mean_of_skewed_counts_is_above_their_median() -> None:
    """Counts whose logs are normal with σ 0.2 below and 0.8 above the median, and a closed day."""
    z = np.array([-1.2816, -0.5244, 0.0, 1.2816])
    log = np.log(51) + z * np.where(z < 0, 0.2, 0.8)
    forecast = fold(np.stack([np.expm1(log), np.zeros(4)])[None], np.zeros((1, 2)), levels=LEVELS).forecast
    drawn = np.random.default_rng(0).normal(size=400_000)
    counts = np.expm1(np.log(51) + drawn * np.where(drawn < 0, 0.2, 0.8))
    assert counts.mean() > 1.2 * np.median(counts)
    assert forecast.mean[0].tolist() == pytest.approx([counts.mean(), 0], rel=0.01)
