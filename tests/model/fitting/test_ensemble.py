"""Members are weighted, and drawn to the seasonal anchor, as far as days outside the training
support it."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.model.fitting.ensemble import ROUNDS, START, blend, pinball

LEVELS = (0.1, 0.5, 0.9)
BAND = np.array([-0.2, 0.0, 0.2], np.float32)


def members(*centers: float, days: int = 200) -> np.ndarray:
    """Return members (members, days, 1, levels) with constant predictions."""
    return np.stack([np.broadcast_to(np.float32(center) + BAND, (days, 1, 3)) for center in centers])


def actuals(seed: int = 0, days: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).normal(5.0, 0.15, (days, 1)).astype(np.float32)


OBSERVED = np.ones((200, 1), bool)


def test_a_better_member_counts_for_more_but_never_alone() -> None:
    weights = blend(members(5.0, 6.0), np.full((200, 1), 5.0, np.float32), actuals(), OBSERVED, LEVELS)
    assert weights.members.tolist() == pytest.approx(
        [(START + ROUNDS) / (2 * START + ROUNDS), START / (2 * START + ROUNDS)]
    )
    assert weights.members.dtype == np.float32


def test_members_whose_mean_is_best_keep_equal_weights() -> None:
    weights = blend(
        members(4.8, 5.2), np.full((200, 1), 9.0, np.float32), np.full((200, 1), 5.0, np.float32), OBSERVED, LEVELS
    )
    assert weights.members.tolist() == [0.5, 0.5]
    assert weights.anchor == 0


def test_the_anchor_gets_weight_if_it_is_nearer() -> None:
    weights = blend(members(6.0), np.full((200, 1), 4.0, np.float32), actuals(), OBSERVED, LEVELS)
    assert weights.anchor == pytest.approx(0.5)


def test_without_a_known_day_weights_are_equal() -> None:
    weights = blend(members(5.0, 6.0), actuals(), actuals(), ~OBSERVED, LEVELS)
    assert (weights.members.tolist(), weights.anchor) == ([0.5, 0.5], 0.0)


def test_pinball_by_hand() -> None:
    """0.1 of 2 below at the lowest level, half of 1 at the median, 0.1 of 1 above at the highest."""
    loss = pinball(np.array([[1.0, 2.0, 4.0]]), np.array([3.0]), LEVELS)
    assert loss == pytest.approx((0.1 * 2 + 0.5 * 1 + 0.1 * 1) / 3)
