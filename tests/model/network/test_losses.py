"""The loss against its definition, and what it leaves out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from forecaster.model.network.losses import DELTA, huber_quantile

LEVELS = jnp.asarray([0.1, 0.5, 0.9])


def test_the_loss_is_the_huber_pinball_mean() -> None:
    random = np.random.default_rng(0)
    said, came = random.normal(size=(4, 5, 3)).astype(np.float32), random.normal(size=(4, 5)).astype(np.float32)
    said[0, 0] = came[0, 0] + np.array([-0.01, 0.0, 0.005])  # inside the quadratic part
    known = random.random((4, 5)) < 0.7
    e, tau = (came[..., None] - said)[known], np.asarray(LEVELS)
    wanted = np.mean(
        np.abs(tau - (e < 0)) * np.where(abs(e) <= DELTA, e * e / (2 * DELTA), abs(e) - DELTA / 2)  # one line
    )
    found = huber_quantile(jnp.asarray(said), jnp.asarray(came), jnp.asarray(known), LEVELS)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_too_low_costs_more_at_a_high_level() -> None:
    """Actual 1 above a forecast: 0.9 · (1 − δ/2) at level 0.9 and 0.1 · (1 − δ/2) at level 0.1; below, the reverse."""
    levels, yes, beyond = jnp.asarray([0.1, 0.9]), jnp.asarray([True]), 1 - DELTA / 2
    for said, wanted in (([0.0, 1.0], 0.1), ([1.0, 0.0], 0.9)):
        found = huber_quantile(jnp.asarray([said]), jnp.asarray([1.0]), yes, levels)
        np.testing.assert_allclose(found, wanted * beyond / 2, rtol=1e-6)
    found = huber_quantile(jnp.asarray([[2.0, 1.0]]), jnp.asarray([1.0]), yes, levels)
    np.testing.assert_allclose(found, 0.9 * beyond / 2, rtol=1e-6)


def test_unknown_actuals_change_neither_loss_nor_gradient() -> None:
    said = jnp.asarray(np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32))
    known = jnp.asarray([True, False, True])
    results = [
        jax.value_and_grad(huber_quantile)(said, jnp.asarray([0.3, unknown, -0.2]), known, LEVELS)
        for unknown in (0.0, 1e9, np.nan)
    ]
    for loss, gradient in results:
        np.testing.assert_array_equal(loss, results[0][0])
        np.testing.assert_array_equal(gradient, results[0][1])
        assert not gradient[1].any()
    alone = huber_quantile(said[jnp.asarray([0, 2])], jnp.asarray([0.3, -0.2]), jnp.asarray([True, True]), LEVELS)
    np.testing.assert_allclose(results[0][0], alone, rtol=1e-6)


def test_with_nothing_known_the_loss_is_zero() -> None:
    said = jnp.ones((2, 3))
    loss, gradient = jax.value_and_grad(huber_quantile)(said, jnp.full(2, jnp.nan), jnp.zeros(2, bool), LEVELS)
    assert float(loss) == 0
    assert not gradient.any()
