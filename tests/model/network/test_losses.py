"""The loss compared with its definition, and the days that it ignores."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from forecaster.model.network.losses import DELTA, huber_quantile

LEVELS = jnp.asarray([0.1, 0.5, 0.9])


def test_the_loss_is_the_huber_pinball_mean() -> None:
    random = np.random.default_rng(0)
    predicted, actual = random.normal(size=(4, 5, 3)).astype(np.float32), random.normal(size=(4, 5)).astype(np.float32)
    predicted[0, 0] = actual[0, 0] + np.array([-0.01, 0.0, 0.005])  # inside the quadratic part
    observed = random.random((4, 5)) < 0.7
    e, tau = (actual[..., None] - predicted)[observed], np.asarray(LEVELS)
    expected = np.mean(
        np.abs(tau - (e < 0)) * np.where(abs(e) <= DELTA, e * e / (2 * DELTA), abs(e) - DELTA / 2)  # one line
    )
    loss = huber_quantile(jnp.asarray(predicted), jnp.asarray(actual), jnp.asarray(observed), LEVELS)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_a_low_forecast_costs_more_at_a_high_level() -> None:
    """Actual 1 above a forecast: 0.9 · (1 − δ/2) at level 0.9 and 0.1 · (1 − δ/2) at level 0.1;
    below, the reverse."""
    levels, yes, beyond = jnp.asarray([0.1, 0.9]), jnp.asarray([True]), 1 - DELTA / 2
    for predicted, weight in (([0.0, 1.0], 0.1), ([1.0, 0.0], 0.9)):
        loss = huber_quantile(jnp.asarray([predicted]), jnp.asarray([1.0]), yes, levels)
        np.testing.assert_allclose(loss, weight * beyond / 2, rtol=1e-6)
    loss = huber_quantile(jnp.asarray([[2.0, 1.0]]), jnp.asarray([1.0]), yes, levels)
    np.testing.assert_allclose(loss, 0.9 * beyond / 2, rtol=1e-6)


def test_unknown_actuals_change_neither_loss_nor_gradient() -> None:
    predicted = jnp.asarray(np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32))
    observed = jnp.asarray([True, False, True])
    results = [
        jax.value_and_grad(huber_quantile)(predicted, jnp.asarray([0.3, unknown, -0.2]), observed, LEVELS)
        for unknown in (0.0, 1e9, np.nan)
    ]
    for loss, gradient in results:
        np.testing.assert_array_equal(loss, results[0][0])
        np.testing.assert_array_equal(gradient, results[0][1])
        assert not gradient[1].any()
    alone = huber_quantile(predicted[jnp.asarray([0, 2])], jnp.asarray([0.3, -0.2]), jnp.asarray([True, True]), LEVELS)
    np.testing.assert_allclose(results[0][0], alone, rtol=1e-6)


def test_with_nothing_known_the_loss_is_zero() -> None:
    predicted = jnp.ones((2, 3))
    loss, gradient = jax.value_and_grad(huber_quantile)(predicted, jnp.full(2, jnp.nan), jnp.zeros(2, bool), LEVELS)
    assert float(loss) == 0
    assert not gradient.any()
