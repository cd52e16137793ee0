"""Moves of the level as indicated by the last week, calculated by hand."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.model.network import level_moves
from tests.panels import NAN

WEEKS = 30


def moves(log: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the distance of the last week of log counts (depots, days) from the next one's anchor,
    and the trusted share."""
    log = np.asarray(log, np.float32)
    plain = jnp.asarray(np.where(np.isfinite(log), log, 0), jnp.float32)
    moved, trust = level_moves.of_last_week(plain, jnp.asarray(np.isfinite(log), jnp.float32))
    return np.asarray(moved)[:, -1], np.asarray(trust)[:, -1]


def quiet(seed: int = 0) -> np.ndarray[Any, Any]:
    rhythm = np.tile([5.0, 5.1, 5.2, 5.3, 5.4, 4.5, 4.0], WEEKS)
    return rhythm + np.random.default_rng(seed).normal(0, 0.05, 7 * WEEKS)


@pytest.mark.parametrize("step", [np.log(3 / 4), np.log(4 / 3)])
def test_a_week_after_a_step_gives_the_missing_part_of_the_next_anchor(step: float) -> None:
    log = np.tile(quiet(), (3, 1))
    log[0, -7:] += step
    log[1, -14:] += step
    log[2, -28:] += step  # by now, all weeks of the anchor are after the move
    moved, trust = moves(log)
    np.testing.assert_allclose(moved, [0.75 * step, 0.5 * step, 0], atol=0.06)
    assert trust[0] > 0.6
    assert trust[2] == 0


def test_usual_inconsistent_and_mostly_unknown_weeks_are_not_followed() -> None:
    log = np.tile(quiet(1), (3, 1))
    log[1, -7:] += [1, -1, 1, -1, 1, -1, 0.5]
    log[2, -7:] -= 1
    log[2, -7:-3] = NAN
    moved, trust = moves(log)
    np.testing.assert_array_equal(trust, 0)
    assert moved[2] == pytest.approx(-level_moves.MOST_MOVED)  # of a week that fell to 37 %


def test_the_median_follows_unless_it_has_already_moved() -> None:
    anchor, moved = np.full((5, 8), 4.0, np.float32), np.float32([-0.2, -0.2, -0.2, -0.2, 0.2])
    gone = np.float32([0, -0.15, -0.3, 0.1, 0])
    open_ = np.ones((5, 8), np.float32)
    open_[:, 2] = 0
    trust = np.float32([1, 1, 1, 1, 0.5])
    center = anchor + gone[:, None]
    center[:, 2] = 9  # a closed day has no effect
    arrays = (jnp.asarray(x) for x in (center, anchor, open_, moved, trust))
    shifted = np.asarray(level_moves.followed(*arrays)) - center
    np.testing.assert_allclose(shifted[:, 0], [-0.2, -0.05, 0, -0.2, 0.1], atol=1e-6)
    np.testing.assert_allclose(shifted, np.repeat(shifted[:, :1], 8, axis=1), atol=1e-6)
