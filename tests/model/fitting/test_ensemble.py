"""Members are weighted, and drawn to the seasonal anchor, as far as days that they did not learn from say so."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.model.fitting.ensemble import ROUNDS, START, blend, pinball

LEVELS = (0.1, 0.5, 0.9)
BAND = np.array([-0.2, 0.0, 0.2], np.float32)


def said(*centers: float, days: int = 200) -> np.ndarray:
    """Members (members, days, 1, levels) that always say the same."""
    return np.stack([np.broadcast_to(np.float32(center) + BAND, (days, 1, 3)) for center in centers])


def came(seed: int = 0, days: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).normal(5.0, 0.15, (days, 1)).astype(np.float32)


KNOWN = np.ones((200, 1), bool)


def test_a_better_member_counts_for_more_but_never_alone() -> None:
    found = blend(said(5.0, 6.0), np.full((200, 1), 5.0, np.float32), came(), KNOWN, LEVELS)
    assert found.members.tolist() == pytest.approx(
        [(START + ROUNDS) / (2 * START + ROUNDS), START / (2 * START + ROUNDS)]
    )
    assert found.members.dtype == np.float32


def test_members_whose_mean_is_best_stay_alike() -> None:
    found = blend(said(4.8, 5.2), np.full((200, 1), 9.0, np.float32), np.full((200, 1), 5.0, np.float32), KNOWN, LEVELS)
    assert found.members.tolist() == [0.5, 0.5]
    assert found.anchor == 0


def test_the_anchor_is_leaned_on_where_it_is_nearer() -> None:
    found = blend(said(6.0), np.full((200, 1), 4.0, np.float32), came(), KNOWN, LEVELS)
    assert found.anchor == pytest.approx(0.5)


def test_without_a_known_day_all_count_alike() -> None:
    found = blend(said(5.0, 6.0), came(), came(), ~KNOWN, LEVELS)
    assert (found.members.tolist(), found.anchor) == ([0.5, 0.5], 0.0)


def test_pinball_by_hand() -> None:
    """0.1 of 2 below at the lowest level, half of 1 at the median, 0.1 of 1 above at the highest."""
    found = pinball(np.array([[1.0, 2.0, 4.0]]), np.array([3.0]), LEVELS)
    assert found == pytest.approx((0.1 * 2 + 0.5 * 1 + 0.1 * 1) / 3)
