"""Sums and shifts along days, compared with slow implementations."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.model.network import day_sums


@pytest.mark.parametrize("length", [1, 2, 3, 7, 28, 364])
def test_a_trailing_sum_is_the_sum_over_the_last_days(length: int) -> None:
    x = np.random.default_rng(0).integers(0, 9, (2, 40)).astype(np.float32)
    expected = [[row[max(0, day - length + 1) : day + 1].sum() for day in range(40)] for row in x]
    np.testing.assert_array_equal(day_sums.trailing_sum(jnp.asarray(x), length), expected)


def test_a_trailing_sum_of_three_days_by_hand() -> None:
    sums = day_sums.trailing_sum(jnp.asarray([[1.0, 2.0, 4.0, 8.0, 16.0]]), 3)
    np.testing.assert_array_equal(sums, [[1, 3, 7, 14, 28]])


def test_a_shift_moves_days_later_and_fills_with_zeros() -> None:
    x = jnp.asarray([[1.0, 2.0, 3.0]])
    for days, expected in ((0, [1, 2, 3]), (1, [0, 1, 2]), (3, [0, 0, 0]), (9, [0, 0, 0])):
        np.testing.assert_array_equal(day_sums.shift(x, days), [expected])
    np.testing.assert_array_equal(day_sums.shift(x[..., None], 2), [[[0], [0], [1]]])


@pytest.mark.parametrize("every", [1, 7])
def test_a_spaced_trailing_sum_matches_the_slow_sum(every: int) -> None:
    x = np.random.default_rng(3).normal(size=(2, 100)).astype(np.float32)
    for length in (1, 4, 12, 28):
        days = [range(day, max(day - length * every, -1), -every) for day in range(100)]
        slow = np.stack([x[:, list(back)].sum(axis=1) for back in days], axis=1)
        np.testing.assert_allclose(day_sums.trailing_sum(jnp.asarray(x), length, every), slow, rtol=1e-4, atol=1e-5)
