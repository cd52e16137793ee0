"""The fast recurrence says what the plain cell says, in values and in gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array, lax

from forecaster.model import gru

sizes = st.integers(1, 5)
few = settings(max_examples=4, deadline=None)


def weights(features: int, hidden: int, seed: int = 0, dtype: Any = np.float32) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    shapes = ((features, 3 * hidden), (3 * hidden,), (hidden, 3 * hidden))
    kernel_i, bias, kernel_h = (jnp.asarray(random.normal(0, 0.6, shape).astype(dtype)) for shape in shapes)
    return kernel_i, bias, kernel_h


def inputs(days: int, depots: int, features: int, seed: int = 1, dtype: Any = np.float32) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=(days, depots, features)).astype(dtype))


def unrolled(kernel_i: Array, bias: Array, kernel_h: Array, x: Array) -> Array:
    """The states of `flax.nnx.GRUCell` after each day, one call a day."""
    cell = nnx.GRUCell(x.shape[2], kernel_h.shape[0], rngs=nnx.Rngs(0))
    cell.dense_i.kernel, cell.dense_i.bias = nnx.Param(kernel_i), nnx.Param(bias)
    cell.dense_h.kernel = nnx.Param(kernel_h)
    carry, states = jnp.zeros((x.shape[1], kernel_h.shape[0]), x.dtype), []
    with jax.numpy_rank_promotion("allow"):  # flax adds a bias to a matrix
        for day in x:
            carry, state = cell(carry, day)
            states.append(state)
    return jnp.stack(states)


def weighed(states: Array) -> Array:
    """A number that depends on every state differently, so that no gradient cancels."""
    return (states * jnp.cos(jnp.arange(states.size, dtype=states.dtype)).reshape(states.shape)).sum()


def both(layer: Callable[..., Array]) -> Callable[..., tuple[Array, ...]]:
    """A layer's states, and the gradients of `weighed` by each of its inputs."""

    def values(*given_: Array) -> tuple[Array, ...]:
        states, back = jax.vjp(layer, *given_)
        return states, *back(jax.grad(weighed)(states))

    return jax.jit(values)


@few
@given(days=st.integers(1, 9), depots=sizes, features=sizes, hidden=sizes, seed=st.integers(0, 99))
def test_the_layer_is_the_cell_of_flax_unrolled(days: int, depots: int, features: int, hidden: int, seed: int) -> None:
    given_ = (*weights(features, hidden, seed), inputs(days, depots, features, seed))
    (fast, *fast_gradients), (slow, *slow_gradients) = (both(layer)(*given_) for layer in (gru.layer, unrolled))
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)
    for name, one, other in zip(("kernel_i", "bias", "kernel_h", "x"), fast_gradients, slow_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=name)


def test_one_step_by_hand() -> None:
    """One feature, one unit: r = z = σ(0) = ½, n = tanh(1), h = ½ tanh(1); then the recurrent kernel speaks too."""
    kernel_i, bias = jnp.asarray([[0.0, 0.0, 1.0]]), jnp.zeros(3)
    states = gru.layer(kernel_i, bias, jnp.asarray([[0.0, 0.0, 2.0]]), jnp.ones((2, 1, 1)))
    first = 0.5 * np.tanh(1.0)
    second = 0.5 * np.tanh(1.0 + 0.5 * 2.0 * first) + 0.5 * first
    np.testing.assert_allclose(np.ravel(states), [first, second], rtol=1e-6)


def test_the_gradient_is_the_slope_in_float64() -> None:
    with jax.enable_x64(True):
        given_ = (*weights(2, 3, dtype=np.float64), inputs(6, 2, 2, dtype=np.float64))
        value = jax.jit(lambda *a: weighed(gru.layer(*a)))
        gradients = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*given_)
        random, step = np.random.default_rng(5), 1e-6
        for place, gradient in enumerate(gradients):
            assert gradient.dtype == np.float64
            towards = random.normal(size=gradient.shape)
            up, down = (
                value(*given_[:place], given_[place] + side * towards, *given_[place + 1 :]) for side in (step, -step)
            )
            np.testing.assert_allclose((gradient * towards).sum(), (up - down) / (2 * step), rtol=1e-7)


def test_the_batched_layer_is_vmap_of_a_scan_for_each_depot() -> None:
    kernel_i, bias, kernel_h = weights(3, 4)
    x = inputs(10, 5, 3)

    def of_one(days: Array) -> Array:
        def day(h: Array, row: Array) -> tuple[Array, Array]:
            xr, xz, xn = jnp.split(row @ kernel_i + bias, 3)
            hr, hz, hn = jnp.split(h @ kernel_h, 3)
            r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
            new = (1 - z) * jnp.tanh(xn + r * hn) + z * h
            return new, new

        states: Array = lax.scan(day, jnp.zeros(4), days)[1]
        return states

    wanted = jax.vmap(of_one, in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(gru.layer(kernel_i, bias, kernel_h, x), wanted, rtol=1e-5, atol=1e-6)
    alone = jax.vmap(lambda one: gru.layer(kernel_i, bias, kernel_h, one[:, None])[:, 0], in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(alone, wanted, rtol=1e-5, atol=1e-6)


def test_without_the_gradient_rule_the_values_are_the_same() -> None:
    given_ = (*weights(3, 4), inputs(8, 2, 3))
    np.testing.assert_array_equal(gru.layer(*given_, differentiable=False), gru.layer(*given_))
    compiled = jax.jit(gru.layer)(*given_)
    np.testing.assert_allclose(compiled, gru.layer(*given_), rtol=1e-6, atol=1e-7)


def test_a_state_depends_on_no_later_day() -> None:
    kernel_i, bias, kernel_h = weights(3, 4)
    x = inputs(8, 2, 3)
    before, after = (gru.layer(kernel_i, bias, kernel_h, y) for y in (x, x.at[5:].set(9.0)))
    np.testing.assert_array_equal(before[:5], after[:5])
    assert not np.allclose(before[5:], after[5:])


def test_a_kernel_of_another_size_is_refused() -> None:
    kernel_i, bias, _ = weights(3, 4)
    with pytest.raises(Exception, match="kernel_h"):
        gru.layer(kernel_i, bias, jnp.zeros((4, 9)), inputs(2, 2, 3))
