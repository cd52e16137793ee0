"""Training steps of the same model with our recurrence, with flax's cells and with torch; and plain
matrix products.

Two GRU layers, hidden 64, 16 inputs, a linear head, Huber loss, AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax

from forecaster.model.fitting import devices
from forecaster.model.fitting.jax_setup import compiler_effort
from forecaster.model.network import gru

FEATURES, HIDDEN, LAYERS = 16, 64, 2
OPTIMIZER = optax.adamw(1e-3)

STEPS = 4  # gradient steps per call, for ours and rivals
Step = Callable[[], None]  # returns when all work is done
Forward = Callable[[Any, Array], Array]


@dataclass(frozen=True)
class Size:
    depots: int
    days: int

    def __str__(self) -> str:
        return f"{self.depots} x {self.days}"

    @property
    def operations(self) -> float:
        """Floating-point operations of the products of one step; the inputs of the first layer get
        no gradient."""
        rows, gates = self.depots * self.days, 3 * HIDDEN
        widths = [FEATURES] + [HIDDEN] * (LAYERS - 1)
        forward = sum(2 * rows * gates * (width + HIDDEN) for width in widths) + 2 * rows * HIDDEN
        return 3.0 * forward - 2 * rows * gates * FEATURES


def parameters() -> dict[str, Any]:
    random = np.random.default_rng(0)

    def kernel(*shape: int) -> Array:
        return jnp.asarray(random.normal(0, shape[0] ** -0.5, shape).astype(np.float32))

    widths = [FEATURES] + [HIDDEN] * (LAYERS - 1)
    cells = [
        {"i": kernel(width, 3 * HIDDEN), "bias": jnp.zeros(3 * HIDDEN), "h": kernel(HIDDEN, 3 * HIDDEN)}
        for width in widths
    ]
    return {"cells": cells, "head": kernel(HIDDEN, 1), "bias": jnp.zeros(1)}


def batch(size: Size) -> tuple[Array, Array]:
    """Return inputs (days, depots, features) and targets (days, depots)."""
    random = np.random.default_rng(1)
    x = random.normal(size=(size.days, size.depots, FEATURES)).astype(np.float32)
    y = random.normal(size=(size.days, size.depots)).astype(np.float32)
    return jnp.asarray(x), jnp.asarray(y)


def with_our_layers(learned: Any, x: Array) -> Array:
    for cell in learned["cells"]:
        x = gru.layer(cell["i"], cell["bias"], cell["h"], x)
    return x


def with_flax_cells(learned: Any, x: Array) -> Array:
    """Map (`vmap`) over depots a scan over days, in which each day passes through both cells."""
    cells = [_flax(cell) for cell in learned["cells"]]

    def day(states: tuple[Array, ...], row: Array) -> tuple[tuple[Array, ...], Array]:
        after = []
        for cell, state in zip(cells, states, strict=True):
            row = cell(state, row)[1]
            after.append(row)
        return tuple(after), row

    def of_one(rows: Array) -> Array:
        last: Array = lax.scan(day, (jnp.zeros(HIDDEN),) * LAYERS, rows)[1]
        return last

    return jax.vmap(of_one, in_axes=1, out_axes=1)(x)


def _flax(learned: dict[str, Array]) -> nnx.GRUCell:
    cell = nnx.GRUCell(learned["i"].shape[0], HIDDEN, rngs=nnx.Rngs(0))
    cell.dense_i.kernel, cell.dense_i.bias = nnx.Param(learned["i"]), nnx.Param(learned["bias"])
    cell.dense_h.kernel = nnx.Param(learned["h"])
    return cell


def loss(forward: Forward, learned: Any, x: Array, y: Array) -> Array:
    predicted = (forward(learned, x) * learned["head"][:, 0]).sum(-1) + learned["bias"][0]
    return optax.huber_loss(predicted, y).mean()


def update(learned: Any, memory: Any, gradient: Any) -> tuple[Any, Any]:
    changes, memory = OPTIMIZER.update(gradient, memory, learned)
    return optax.apply_updates(learned, changes), memory


def train(forward: Forward, state: tuple[Any, Any], x: Array, y: Array) -> tuple[tuple[Any, Any], Array]:
    """Run one step."""
    learned, memory = state
    value, gradient = jax.value_and_grad(lambda p: loss(forward, p, x, y))(learned)
    return update(learned, memory, gradient), value


def fresh() -> tuple[Any, Any]:
    learned = parameters()
    return learned, OPTIMIZER.init(learned)


def in_jax(forward: Forward, size: Size) -> Step:
    """Return steps that run one after another on one device, with as many threads as XLA chooses."""
    compiled = jax.jit(lambda state, x, y: train(forward, state, x, y), donate_argnums=0)
    state, (x, y) = fresh(), batch(size)

    def steps() -> None:
        nonlocal state
        for _ in range(STEPS):
            state, _ = compiled(state, x, y)
        jax.block_until_ready(state)

    return steps


def as_trained(size: Size) -> Step:
    """Return steps as in training: our layers, all steps in one program, depots distributed over
    the cores as devices."""

    def run(state: tuple[Any, Any], x: Array, y: Array) -> tuple[tuple[Any, Any], Array]:
        part = devices.share((x, y), axis=1)

        def step(state: tuple[Any, Any], _: Array) -> tuple[tuple[Any, Any], Array]:
            total = devices.total(jax.value_and_grad(lambda learned: loss(with_our_layers, learned, *part))(state[0]))
            value, gradient = jax.tree.map(lambda of_all: of_all / jax.device_count(), total)
            return update(*state, gradient), value

        return lax.scan(step, state, jnp.arange(STEPS))

    whole = devices.replicated()
    program = devices.on_each_device(run, 1, (whole,) * 3, (whole,) * 2)
    compiled = jax.jit(program, donate_argnums=0, compiler_options=compiler_effort(1))
    state, x, y = devices.replicate((fresh(), *batch(size)))

    def steps() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(compiled(state, x, y))

    return steps


def in_torch(size: Size, device: str = "cpu") -> Step:
    """Return steps of `nn.GRU`, eager: by cuDNN, or on as many threads as torch chooses. Raises
    ImportError without torch."""
    import torch

    network = torch.nn.GRU(FEATURES, HIDDEN, LAYERS).to(device)
    head, huber = torch.nn.Linear(HIDDEN, 1).to(device), torch.nn.HuberLoss()
    optimizer = torch.optim.AdamW([*network.parameters(), *head.parameters()], lr=1e-3)
    x = torch.randn(size.days, size.depots, FEATURES, device=device)
    y = torch.randn(size.days, size.depots, device=device)

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            value = huber(head(network(x)[0])[..., 0], y)
            value.backward()
            optimizer.step()
            value.item()

    return steps


def products(side: int, times: int) -> Step:
    """Return successive products of two float32 matrices on all devices at once: the peak rate of
    the processor.

    A single product takes twice as long after other work.
    """

    def run(a: Array) -> Array:
        return lax.fori_loop(0, times, lambda _, x: x @ a, a)

    whole = devices.replicated()
    compiled = jax.jit(devices.on_each_device(run, 1, (whole,), whole), compiler_options=compiler_effort(1))
    a = devices.replicate(jnp.ones((side, side)) / side)
    return lambda: compiled(a).block_until_ready()  # type: ignore[no-any-return]
