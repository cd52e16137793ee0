"""What is compiled once and runs all night: an epoch of gradient steps, and what the members say of the days after.

Sizes are part of a program; days, depots, learning rates and what training measured of the counts are its input, so
that tomorrow's panel needs no other program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jaxtyping import Float, Int

from forecaster.model import crops, network
from forecaster.model.crops import Cut, Data
from forecaster.model.features import LOOKBACK, Window, ahead_of
from forecaster.model.losses import huber_quantile
from forecaster.model.network import Architecture, Dropout, Said


class State(NamedTuple):
    """What training carries from step to step; each leaf has the members as its first axis."""

    parameters: Any
    optimizer: Any
    key: Array
    best: Any
    best_loss: Array


class Restraints(NamedTuple):
    """What keeps each member from learning the dates by heart, (members,)."""

    dropout: Array
    weight_decay: Array


class Known(NamedTuple):
    """What a program is told of the panel when it runs."""

    days: Int[Array, ""]  # that may be learned from
    validated: Int[Array, ""]  # day on which validation begins
    depots: Int[Array, ""]
    checked: Int[Array, " checked"]  # depots that validation looks at
    constants: dict[str, Array]  # mean and spread of log counts


class Report(NamedTuple):
    """Of one epoch, by member and, where it says so, by step."""

    loss: Float[Array, "members steps"]
    gradient_norm: Float[Array, "members steps"]
    depots: Int[Array, "members steps batch"]  # whose crops each step took
    validation: Float[Array, " members"]


@dataclass(frozen=True)
class Sizes:
    """All that shapes a program."""

    architecture: Architecture
    crop: Cut
    batch: int
    validation: int  # days

    @property
    def checks(self) -> int:
        """Origins whose whole horizon lies within the validation days; the first is the day before them."""
        return self.validation - self.architecture.horizon + 1


def initial(sizes: Sizes, members: int, key: Array) -> State:
    """Fresh members, each from a key of its own."""
    fresh: State = _initial(sizes.architecture, members, key)
    return fresh


@partial(jax.jit, static_argnums=(0, 1))
def _initial(shape: Architecture, members: int, key: Array) -> State:
    init_key, run_key = jax.random.split(key)
    parameters = jax.vmap(partial(network.initial, shape))(jax.random.split(init_key, members))
    state = State(
        parameters,
        jax.vmap(_optimizer(0.0).init)(parameters),
        jax.random.split(run_key, members),
        jax.tree.map(jnp.copy, parameters),
        jnp.full((members,), jnp.inf),
    )
    # Without weak types, or the second epoch compiles again for what the first one returned.
    strong: State = jax.tree.map(lambda x: lax.convert_element_type(x, x.dtype), state)
    return strong


def _optimizer(weight_decay: Array | float) -> optax.GradientTransformation:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) of length one; the caller takes the step down the slope."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


@cache
def epoch(sizes: Sizes) -> Callable[[State, Data, Known, Restraints, Array], tuple[State, Report]]:
    """One epoch of all members: as many steps as there are learning rates, then a look at the validation days.

    The state is used up (its buffers are given to the next one).
    """

    @partial(jax.jit, donate_argnums=0)
    def run(
        state: State, data: Data, known: Known, restraints: Restraints, rates: Float[Array, " steps"]
    ) -> tuple[State, Report]:
        one = partial(_epoch_of_one, sizes=sizes, data=data, known=known, rates=rates)
        return jax.vmap(one)(state, restraints)

    return run


def _epoch_of_one(
    state: State, restraints: Restraints, *, sizes: Sizes, data: Data, known: Known, rates: Array
) -> tuple[State, Report]:
    key, now = jax.random.split(state.key)
    step = partial(_step, sizes=sizes, data=data, known=known, restraints=restraints)
    (parameters, memory), (loss, norm, depots) = lax.scan(
        step, (state.parameters, state.optimizer), (jax.random.split(now, rates.shape[0]), rates)
    )
    checked = _validation(parameters, sizes, data, known)
    better = checked < state.best_loss
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), parameters, state.best)
    kept = State(parameters, memory, key, best, jnp.minimum(checked, state.best_loss))
    return kept, Report(loss, norm, depots, checked)


def _step(
    carry: tuple[Any, Any],
    now: tuple[Array, Array],
    *,
    sizes: Sizes,
    data: Data,
    known: Known,
    restraints: Restraints,
) -> tuple[tuple[Any, Any], tuple[Array, Array, Array]]:
    parameters, memory = carry
    key, rate = now
    pick, drop = jax.random.split(key)
    crop = crops.sample(data, pick, sizes.crop, batch=sizes.batch, depots=known.depots, days=known.days)
    loss, gradient = jax.value_and_grad(_loss)(
        parameters, crop.window, crop.demand, sizes.architecture, sizes.crop, known, Dropout(restraints.dropout, drop)
    )
    with jax.numpy_dtype_promotion("standard"):  # which optax needs
        step, memory = _optimizer(restraints.weight_decay).update(gradient, memory, parameters)
        parameters = jax.tree.map(lambda p, s: p - rate * s, parameters, step)
    return (parameters, memory), (loss, optax.tree.norm(gradient), crop.depots)


def _validation(parameters: Any, sizes: Sizes, data: Data, known: Known) -> Array:
    window, demand, cut = _after(sizes, data, known)
    return _loss(parameters, window, demand, sizes.architecture, cut, known, None)


def _after(sizes: Sizes, data: Data, known: Known) -> tuple[Window, Array, Cut]:
    """The checked depots' windows from which every day of validation is forecast: the first origin is the last day
    before them, the last one leaves a whole horizon."""
    shape, count = sizes.architecture, sizes.checks
    last = jnp.broadcast_to(known.validated + count - 2, known.checked.shape)
    window, demand = crops.cut(data, known.checked, last, LOOKBACK + count - 1, shape.horizon)
    return window, demand, Cut(shape.horizon, count, 1, shape.scan + count - 1)


def _loss(
    parameters: Any,
    window: Window,
    demand: Array,
    shape: Architecture,
    cut: Cut,
    known: Known,
    dropout: Dropout | None,
) -> Array:
    said = _said(parameters, window, shape, cut, known, dropout)
    came, scored = _came(window, demand, cut)
    return huber_quantile(said.quantiles, came, scored, jnp.asarray(shape.levels, jnp.float32))


def _said(
    parameters: Any, window: Window, shape: Architecture, cut: Cut, known: Known, dropout: Dropout | None
) -> Said:
    return network.log_quantiles(
        parameters,
        known.constants,
        window,
        shape,
        origins=cut.origins,
        stride=cut.stride,
        scan=cut.scan,
        dropout=dropout,
    )


def _came(window: Window, demand: Array, cut: Cut) -> tuple[Array, Array]:
    """Log counts on the days that are forecast, and which of them can be scored."""
    first = window.demand.shape[1] - 1 - cut.span
    came = ahead_of(demand, first, cut.origins, cut.horizon, cut.stride)
    was_open = ahead_of(window.open, first, cut.origins, cut.horizon, cut.stride)
    scored = jnp.isfinite(came) & (was_open > 0)
    return jnp.log1p(jnp.where(scored, came, 0.0)), scored


@cache
def validation(sizes: Sizes) -> Callable[[Any, Data, Known], tuple[Said, Array, Array]]:
    """What each member says of the validation days, what came, and which of it can be scored."""

    @jax.jit
    def run(parameters: Any, data: Data, known: Known) -> tuple[Said, Array, Array]:
        window, demand, cut = _after(sizes, data, known)
        said = jax.vmap(lambda p: _said(p, window, sizes.architecture, cut, known, None))(parameters)
        return (said, *_came(window, demand, cut))

    return run
