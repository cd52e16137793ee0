"""Where a training step goes, and what each higher `jit` brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from forecaster.model.fitting import devices
from forecaster.model.fitting.jax_setup import compiler_effort
from forecaster.model.network import gru
from tests.benchmarks.speed_steps import (
    Size,
    Step,
    batch,
    fresh,
    loss,
    train,
    update,
    with_our_layers,
)


def products(side: int, times: int) -> Step:
    """Products of two float32 matrices, one after the other on each device at once: what the processor can do.

    One alone takes twice as long after other work.
    """

    def run(a: Array) -> Array:
        return lax.fori_loop(0, times, lambda _, x: x @ a, a)

    whole = devices.replicated()
    compiled = jax.jit(devices.on_each_device(run, 1, (whole,), whole), compiler_options=compiler_effort(1))
    a = devices.replicate(jnp.ones((side, side)) / side)
    return lambda: compiled(a).block_until_ready()  # type: ignore[no-any-return]


def parts(size: Size) -> dict[str, Step]:
    """What a step is made of, each part compiled alone; `forward` and `backward` contain the products beside them."""
    x, _ = batch(size)
    (learned, memory), widths = fresh(), [x]
    compiled = jax.jit(gru.layer)
    for cell in learned["cells"]:
        widths.append(compiled(cell["i"], cell["bias"], cell["h"], widths[-1]))
    layers = [
        (cell["i"], cell["bias"], cell["h"], inputs) for cell, inputs in zip(learned["cells"], widths, strict=False)
    ]
    gates = jnp.concatenate([widths[1]] * 3, axis=-1)
    gradient = jax.tree.map(jnp.ones_like, learned)
    ahead = jax.jit(lambda layers: [jax.vjp(gru.layer, *layer)[1] for layer in layers])
    back = jax.jit(lambda backs, state: [back(state) for back in backs])
    return {
        "projection": _of(lambda: [jnp.tensordot(inputs, kernel, 1) for kernel, _, _, inputs in layers]),
        "forward": _of(ahead, layers),
        "backward": _of(back, ahead(layers), widths[1]),
        "products of the gradient by weights": _of(
            lambda d: [_summed(operand, d) for _, _, _, inputs in layers for operand in (inputs, widths[1])], gates
        ),
        "product of the gradient by inputs": _of(lambda d: [d @ layers[-1][0].T, d @ layers[0][0].T], gates),
        "optimiser": _of(update, learned, memory, gradient),
    }


def _summed(x: Array, d: Array) -> Array:
    return lax.dot_general(x, d, (((0, 1), (0, 1)), ((), ())))


def _of(function: Callable[..., Any], *arguments: Any) -> Step:
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments)) and None


def ladder(size: Size, steps: int, epochs: int) -> dict[str, tuple[Step, int]]:
    """The same training at each height of `jit`, with the number of gradient steps that one call makes."""
    x, y = batch(size)
    many = jnp.arange(steps)

    def step(state: Any, _: Any = None) -> tuple[Any, Array]:
        return train(with_our_layers, state, x, y)

    def epoch(state: Any, _: Any = None) -> tuple[Any, Array]:
        state, values = lax.scan(step, state, many)
        return state, values.mean()

    def run(state: Any) -> tuple[Any, Array]:
        return lax.scan(epoch, state, jnp.arange(epochs))

    return {
        "operation by operation": (_plain(x, y), 1),
        "jit of the pieces (gradient, update)": (_pieces(x, y), 1),
        "jit of the step": (_going(step), 1),
        "jit of the epoch (a scan over steps)": (_going(epoch), steps),
        "jit of the run (a scan over epochs)": (_going(run), steps * epochs),
    }


def _plain(x: Array, y: Array) -> Step:
    learned, memory = fresh()

    def step() -> None:
        with jax.disable_jit():
            jax.block_until_ready(train(with_our_layers, (learned, memory), x, y))

    return step


def _pieces(x: Array, y: Array) -> Step:
    gradient = jax.jit(jax.grad(lambda p, x, y: loss(with_our_layers, p, x, y)))
    updated = jax.jit(update)
    state = fresh()

    def step() -> None:
        nonlocal state
        state = jax.block_until_ready(updated(*state, gradient(state[0], x, y)))

    return step


def _going(function: Callable[[Any], tuple[Any, Array]]) -> Step:
    compiled = jax.jit(function, donate_argnums=0)
    state = fresh()

    def step() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(compiled(state))

    return step
