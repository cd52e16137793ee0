"""The fast recurrence matches the plain cell, in values and in gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array, lax

from forecaster.model.network import gru
from tests import cpus

ROOT = Path(__file__).parents[3]
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
    """Return the states of `flax.nnx.GRUCell` after each day, with one call per day."""
    cell = nnx.GRUCell(x.shape[2], kernel_h.shape[0], rngs=nnx.Rngs(0))
    cell.dense_i.kernel, cell.dense_i.bias = nnx.Param(kernel_i), nnx.Param(bias)
    cell.dense_h.kernel = nnx.Param(kernel_h)
    carry, states = jnp.zeros((x.shape[1], kernel_h.shape[0]), x.dtype), []
    with jax.numpy_rank_promotion("allow"):  # flax adds a bias to a matrix
        for day in x:
            carry, state = cell(carry, day)
            states.append(state)
    return jnp.stack(states)


def weighed(states: Array, mask: Array | float = 1.0) -> Array:
    """Return a number that depends on every state differently, so that no gradients cancel; masked
    days do not count."""
    return (states * mask * jnp.cos(jnp.arange(states.size, dtype=states.dtype)).reshape(states.shape)).sum()


def states_and_gradients(layer: Callable[..., Array], mask: Array | float = 1.0) -> Callable[..., tuple[Array, ...]]:
    """Return a layer's states, and the gradients of `weighed` with respect to each of its inputs."""

    def values(*arguments: Array) -> tuple[Array, ...]:
        states, back = jax.vjp(layer, *arguments)
        return states, *back(jax.grad(weighed)(states, mask))

    return jax.jit(values)


def same(actual: tuple[Array, ...], expected: tuple[Array, ...], tolerance: float = 1e-5) -> None:
    for name, left, right in zip(("states", "kernel_i", "bias", "kernel_h", "x"), actual, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance, err_msg=name)


@few
@given(
    days=st.integers(1, 9),
    depots=sizes,
    features=sizes,
    hidden=sizes,
    scored_share=st.floats(0, 1),
    start=st.integers(0, 8),
    seed=st.integers(0, 99),
)
def test_the_layer_is_the_cell_of_flax_unrolled(
    days: int, depots: int, features: int, hidden: int, scored_share: float, start: int, seed: int
) -> None:
    """Also if days before a depot's first are zeros, and if only some days of some depots are
    scored."""
    x = inputs(days, depots, features, seed).at[:start, -1].set(0.0)
    mask = jnp.asarray(np.random.default_rng(seed).random((days, depots, 1)) < scored_share, jnp.float32)
    mask = jnp.broadcast_to(mask, (days, depots, hidden))
    arguments = (*weights(features, hidden, seed), x)
    same(states_and_gradients(gru.layer, mask)(*arguments), states_and_gradients(unrolled, mask)(*arguments))


def test_two_layers_over_a_hundred_days_match_the_cell_of_flax() -> None:
    first, second, x = weights(3, 8), weights(8, 8, seed=7), inputs(100, 4, 3)

    def stacked(layer: Callable[..., Array]) -> tuple[Array, ...]:
        return states_and_gradients(
            lambda kernel_i, bias, kernel_h, x: layer(*second, layer(kernel_i, bias, kernel_h, x))
        )(*first, x)

    def scanned(kernel_i: Array, bias: Array, kernel_h: Array, x: Array) -> Array:
        cell = nnx.GRUCell(x.shape[2], kernel_h.shape[0], rngs=nnx.Rngs(0))
        cell.dense_i.kernel, cell.dense_i.bias = nnx.Param(kernel_i), nnx.Param(bias)
        cell.dense_h.kernel = nnx.Param(kernel_h)
        graph, state = nnx.split(cell)
        with jax.numpy_rank_promotion("allow"):
            return lax.scan(lambda h, day: nnx.merge(graph, state)(h, day), jnp.zeros((4, 8)), x)[1]

    same(stacked(gru.layer), stacked(scanned), 2e-5)


def test_one_step_by_hand() -> None:
    """One feature, one unit: r = z = σ(0) = ½, n = tanh(1), h = ½ tanh(1); on the second day the
    recurrent kernel contributes too."""
    kernel_i, bias = jnp.asarray([[0.0, 0.0, 1.0]]), jnp.zeros(3)
    states = gru.layer(kernel_i, bias, jnp.asarray([[0.0, 0.0, 2.0]]), jnp.ones((2, 1, 1)))
    first = 0.5 * np.tanh(1.0)
    second = 0.5 * np.tanh(1.0 + 0.5 * 2.0 * first) + 0.5 * first
    np.testing.assert_allclose(np.ravel(states), [first, second], rtol=1e-6)


def test_the_gradient_matches_finite_differences_in_float64() -> None:
    with jax.enable_x64(True):
        arguments = (*weights(2, 3, dtype=np.float64), inputs(6, 2, 2, dtype=np.float64))
        value = jax.jit(lambda *a: weighed(gru.layer(*a)))
        gradients = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*arguments)
        random, step = np.random.default_rng(5), 1e-6
        for place, gradient in enumerate(gradients):
            assert gradient.dtype == np.float64
            towards = random.normal(size=gradient.shape)
            up, down = (
                value(*arguments[:place], arguments[place] + side * towards, *arguments[place + 1 :])
                for side in (step, -step)
            )
            np.testing.assert_allclose((gradient * towards).sum(), (up - down) / (2 * step), rtol=1e-7)


def test_the_batched_layer_is_vmap_of_a_scan_for_each_depot() -> None:
    kernel_i, bias, kernel_h = weights(3, 4)
    x = inputs(10, 5, 3)

    def of_depot(days: Array) -> Array:
        def day(h: Array, row: Array) -> tuple[Array, Array]:
            xr, xz, xn = jnp.split(row @ kernel_i + bias, 3)
            hr, hz, hn = jnp.split(h @ kernel_h, 3)
            r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
            new = (1 - z) * jnp.tanh(xn + r * hn) + z * h
            return new, new

        states: Array = lax.scan(day, jnp.zeros(4), days)[1]
        return states

    expected = jax.vmap(of_depot, in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(gru.layer(kernel_i, bias, kernel_h, x), expected, rtol=1e-5, atol=1e-6)
    alone = jax.vmap(lambda depot: gru.layer(kernel_i, bias, kernel_h, depot[:, None])[:, 0], in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(alone, expected, rtol=1e-5, atol=1e-6)


def test_values_with_and_without_the_gradient_rule_are_the_same() -> None:
    arguments = (*weights(3, 4), inputs(8, 2, 3))
    differentiated = jax.vjp(gru.layer, *arguments)[0]
    np.testing.assert_allclose(gru.layer(*arguments), differentiated, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jax.jit(gru.layer)(*arguments), differentiated, rtol=1e-6, atol=1e-7)


def test_static_inputs_may_be_separate_from_daily_inputs() -> None:
    kernel_i, bias, kernel_h = weights(5, 4)
    x, always = inputs(8, 2, 3), inputs(1, 2, 2)[0]
    beside = jnp.concatenate([x, jnp.broadcast_to(always[None], (8, 2, 2))], axis=-1)
    expected = gru.layer(kernel_i, bias, kernel_h, beside)
    np.testing.assert_allclose(gru.layer(kernel_i, bias, kernel_h, x, always), expected, rtol=1e-5, atol=1e-6)


def test_compiled_and_plain_results_are_the_same() -> None:
    arguments = (*weights(3, 4), inputs(6, 2, 3))
    with jax.disable_jit():
        plain = states_and_gradients(gru.layer)(*arguments)
    same(states_and_gradients(gru.layer)(*arguments), plain)


def mapped(members: list[tuple[Array, ...]]) -> list[tuple[tuple[Array, ...], ...]]:
    """Return states and gradients of each member: under `vmap`, under `lax.map`, and alone."""
    stacked = [jnp.stack(arrays) for arrays in zip(*members, strict=True)]
    together = jax.vmap(states_and_gradients(gru.layer))(*stacked)
    after = jax.jit(lambda *stack: lax.map(lambda member: states_and_gradients(gru.layer)(*member), stack))(*stacked)
    return [
        (
            tuple(array[i] for array in together),
            tuple(array[i] for array in after),
            states_and_gradients(gru.layer)(*arguments),
        )
        for i, arguments in enumerate(members)
    ]


def test_members_in_parallel_match_members_one_by_one() -> None:
    for together, after, alone in mapped([(*weights(3, 4, seed), inputs(7, 5, 3, seed)) for seed in range(3)]):
        same(together, alone)
        same(after, alone)


DEALT = """
import re
import sys
import jax, jax.numpy as jnp, numpy as np
from forecaster.model.fitting import devices; from forecaster.model.network import gru

assert jax.device_count() == 8
random = np.random.default_rng(0)
hidden = int(sys.argv[1])
shapes = ((3, 3 * hidden), (3 * hidden,), (hidden, 3 * hidden))
members = [random.normal(0, 1.2 * hidden**-0.5, (2, *shape)).astype(np.float32) for shape in shapes]
x = random.normal(size=(2, 9, 16, 3)).astype(np.float32)
cotangent = np.cos(np.arange(2 * 9 * 16 * hidden, dtype=np.float32)).reshape(2, 9, 16, hidden)

def gradients(kernel_i, bias, kernel_h, x, cotangent):
    return jax.vjp(lambda *weights: gru.layer(*weights, x), kernel_i, bias, kernel_h)[1](cotangent)

of_members = jax.vmap(gradients)
alone = jax.jit(of_members)(*members, x, cotangent)
by_member, replicated = devices.by_member(), devices.replicated()

def of_shares(*arguments):
    return devices.total(of_members(*arguments[:3], *devices.share(arguments[3:], axis=2)))

sharded = jax.jit(devices.on_each_device(of_shares, 2, (by_member,) * 5, (by_member,) * 3))
assert dict(devices.mesh(2).shape) == {"members": 2, "depots": 4}
for expected, actual in zip(alone, sharded(*members, x, cotangent), strict=True):
    np.testing.assert_allclose(expected, actual, rtol=1e-5, atol=1e-5)
program = sharded.lower(*members, x, cotangent).compile().as_text()
collectives = set(re.findall(r"(all-gather|all-to-all|collective-permute|all-reduce)\\(", program))
assert collectives == {"all-reduce"}, collectives  # the weights' gradients are summed, and nothing else travels
print("the same by", "a loop" if "forecaster_gru_backward" in program else "a scan")
"""


def dealt_over_eight_devices(hidden: int) -> str:
    """Return the output of a process with eight devices, with members and depots distributed over
    them."""
    command = [sys.executable, "-c", DEALT, str(hidden)]
    environment = cpus.environment(os.environ, 8)
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return run.stdout or run.stderr


def test_depots_on_eight_devices_give_the_same_and_exchange_only_weight_gradients() -> None:
    assert dealt_over_eight_devices(4) == "the same by a scan\n"


def test_bfloat16_accumulates_in_float32() -> None:
    """300 days of the same depots, so that sums in bfloat16, which has 8 bits, would stop growing."""
    kernel_i, bias, kernel_h = weights(3, 4)
    x = jnp.tile(inputs(3, 2, 3), (100, 1, 1))
    wide = jax.jit(jax.grad(lambda *a: gru.layer(*a).mean(), argnums=(0, 1, 2)))
    narrow = jax.jit(jax.grad(lambda *a: gru.layer(*a).astype(jnp.float32).mean(), argnums=(0, 1, 2)))
    x = x.astype(jnp.bfloat16)
    assert gru.layer(kernel_i, bias, kernel_h, x).dtype == jnp.bfloat16
    exact, coarse = wide(kernel_i, bias, kernel_h, x.astype(jnp.float32)), narrow(kernel_i, bias, kernel_h, x)
    for gradient, expected in zip(coarse, exact, strict=True):
        assert gradient.dtype == np.float32  # the parameters' own
        np.testing.assert_allclose(gradient, expected, atol=0.03 * float(jnp.abs(expected).max()))


def test_a_state_does_not_depend_on_later_days() -> None:
    kernel_i, bias, kernel_h = weights(3, 4)
    x = inputs(8, 2, 3)
    before, after = (gru.layer(kernel_i, bias, kernel_h, y) for y in (x, x.at[5:].set(9.0)))
    np.testing.assert_array_equal(before[:5], after[:5])
    assert not np.allclose(before[5:], after[5:])


def test_a_kernel_of_another_size_is_rejected() -> None:
    kernel_i, bias, _ = weights(3, 4)
    with pytest.raises(Exception, match="kernel_h"):
        gru.layer(kernel_i, bias, jnp.zeros((4, 9)), inputs(2, 2, 3))
