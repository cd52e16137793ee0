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
from jaxtyping import Bool, Float, Int

from forecaster.model.fitting import devices, windows
from forecaster.model.fitting.jax_setup import effort
from forecaster.model.fitting.windows import Cut, Data, Places
from forecaster.model.network import encoder_decoder, features
from forecaster.model.network.encoder_decoder import Architecture, Said
from forecaster.model.network.features import LOOKBACK, Features, Window, ahead_of
from forecaster.model.network.losses import huber_quantile

AT_ONCE = 8  # crops of which a CPU holds the numbers: those of more are not in its caches any longer


class State(NamedTuple):
    """What training carries from step to step; each leaf but the key has the members as its first axis."""

    parameters: Any
    optimizer: Any
    key: Array
    best: Any  # parameters of the epoch with the least loss on the validation days,
    best_loss: Array
    last_loss: Array  # and that loss after the last epoch


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
    constants: dict[str, Array]  # of `features.make`
    blur: Float[Array, " calendar"]  # of `crops.draw`


class Report(NamedTuple):
    """Of one epoch, by member and, where it says so, by step."""

    loss: Float[Array, "members steps"]
    gradient_norm: Float[Array, "members steps"]
    depots: Int[Array, "steps batch"]  # whose crops each step took


class Look(NamedTuple):
    """What the members say of the validation days, from every day whose whole horizon lies in them, the day before them
    first."""

    loss: Float[Array, " members"]
    said: Said  # members first
    came: Float[Array, "checked origins horizon"]  # log counts
    scored: Bool[Array, "checked origins horizon"]


@dataclass(frozen=True)
class Sizes:
    """All that shapes a program."""

    architecture: Architecture
    crop: Cut
    batch: int
    validation: int  # days
    precision: str = "float32"  # of the products in training; parameters and sums are float32

    @property
    def checks(self) -> int:
        """Origins whose whole horizon lies within the validation days; the first is the day before them."""
        return self.validation - self.architecture.horizon + 1


def initial(sizes: Sizes, members: int, key: Array) -> State:
    """Fresh members, each from a key of its own."""
    program = jax.jit(_initial, static_argnums=(0, 1), compiler_options=effort(0))
    fresh: State = program(sizes.architecture, members, key)
    return fresh


def _initial(shape: Architecture, members: int, key: Array) -> State:
    init_key, run_key = jax.random.split(key)
    # One after the other: jaxlib deals a batch of QR factorisations, of which orthogonal kernels are made, over the
    # threads that wait for it. Two such batches at once on two cores wait for each other, for ever.
    parameters = lax.map(partial(encoder_decoder.initial, shape), jax.random.split(init_key, members))
    state = State(
        parameters,
        jax.vmap(_optimizer(0.0).init)(parameters),
        run_key,
        jax.tree.map(jnp.copy, parameters),
        jnp.full((members,), jnp.inf),
        jnp.full((members,), jnp.inf),
    )
    # Without weak types, or the second epoch compiles again for what the first one returned.
    strong: State = jax.tree.map(lambda x: lax.convert_element_type(x, x.dtype), state)
    return strong


def _optimizer(weight_decay: Array | float) -> optax.GradientTransformation:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) of length one; the caller takes the step down the slope."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


def dealt(state: State) -> State:
    """The state on the devices, each member on its own, as an epoch returns it: or the second one compiles anew."""
    members = len(state.best_loss)
    # From the host: taken apart on a device, each shape would be a program of its own.
    each = {name: jax.device_get(value) for name, value in state._asdict().items() if name != "key"}
    laid: State = State(**devices.deal(each, members), key=devices.replicate(state.key, members))
    return laid


@cache
def epoch(sizes: Sizes, members: int) -> Callable[[State, Data, Known, Restraints, Array], tuple[State, Report]]:
    """One epoch of all members: as many steps as there are learning rates.

    All members learn from the same crops, which a device cuts, and whose features it makes, once for all its members.
    The state is used up (its buffers are given to the next one).
    """

    def run(
        state: State, data: Data, known: Known, restraints: Restraints, rates: Float[Array, " steps"]
    ) -> tuple[State, Report]:
        key, now = jax.random.split(state.key)
        step = partial(_step, sizes=sizes, data=data, known=known, restraints=restraints)
        (parameters, memory), (loss, norm, depots) = lax.scan(
            step, (state.parameters, state.optimizer), (jax.random.split(now, rates.shape[0]), rates)
        )
        return state._replace(parameters=parameters, optimizer=memory, key=key), Report(loss.T, norm.T, depots)

    each, whole = devices.by_member(), devices.whole()
    report: Any = (each, each, whole)
    program = devices.on_each(run, members, (_lies(), whole, whole, each, whole), (_lies(), Report(*report)))
    compiled: Callable[..., tuple[State, Report]] = jax.jit(program, donate_argnums=0, compiler_options=effort(1))
    return compiled


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
    places = windows.draw(pick, sizes.crop, batch=sizes.batch, depots=known.depots, days=known.days, blur=known.blur)
    keys = jax.vmap(partial(jax.random.fold_in, drop))(devices.mine(len(restraints.dropout)))
    masks = jax.vmap(partial(encoder_decoder.masks, sizes.architecture, depots=sizes.batch))(restraints.dropout, keys)
    parts = _gradients(parameters, data, known, devices.share(places), devices.share(masks, axis=1), sizes)
    loss, gradient, scored = devices.total(parts)
    loss, gradient = jax.tree.map(lambda x: x / jnp.maximum(scored, 1.0), (loss, gradient))

    def descend(parameters: Any, memory: Any, gradient: Any, decay: Array) -> tuple[Any, Any]:
        step, memory = _optimizer(decay).update(gradient, memory, parameters)
        return jax.tree.map(lambda p, s: p - rate * s, parameters, step), memory

    with jax.numpy_dtype_promotion("standard"):  # which optax needs
        parameters, memory = jax.vmap(descend)(parameters, memory, gradient, restraints.weight_decay)
    return (parameters, memory), (loss, jax.vmap(optax.tree.norm)(gradient), places.depots)


def _gradients(
    parameters: Any, data: Data, known: Known, places: Places, masks: Array, sizes: Sizes
) -> tuple[Array, Any, Array]:
    """Each member's summed loss and its gradient, and how many days were scored, from a device's share of a batch: on a
    CPU from `AT_ONCE` crops after the other, where they come out even."""
    parts, left = divmod(len(places.depots), AT_ONCE)
    if jax.default_backend() != "cpu" or left or parts == 1:
        return _gradients_at_once(parameters, data, known, places, masks, sizes)

    def of(part: tuple[Places, Array]) -> tuple[Array, Any, Array]:
        return _gradients_at_once(parameters, data, known, *part, sizes)

    def add(total: Any, part: tuple[Places, Array]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, of(part)), None

    def dealt(leaf: Array) -> Array:
        return leaf.reshape(parts, AT_ONCE, *leaf.shape[1:])

    theirs = dealt(jnp.moveaxis(masks, 1, 0))  # crops first, as places have them
    every = jax.tree.map(dealt, places), jnp.moveaxis(theirs, 2, 1)
    like = jax.eval_shape(of, jax.tree.map(lambda leaf: leaf[0], every))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    total: tuple[Array, Any, Array] = lax.scan(add, nothing, every)[0]
    return total


def _gradients_at_once(
    parameters: Any, data: Data, known: Known, places: Places, masks: Array, sizes: Sizes
) -> tuple[Array, Any, Array]:
    window, demand = windows.crop(data, places, sizes.crop)
    seen = _features(window, sizes, sizes.crop, known)
    came, scored = _came(window, demand, sizes.crop)

    def of_one(one: tuple[Any, Array]) -> tuple[Array, Any]:
        def loss(parameters: Any) -> Array:
            shape, stride = sizes.architecture, sizes.crop.stride
            said = encoder_decoder.answer(parameters, seen, window.statics, shape, stride=stride, masks=one[1])
            return _loss(said, came, scored, sizes)

        return jax.value_and_grad(loss)(one[0])

    return (*_each_member(of_one, (parameters, masks)), scored.sum().astype(jnp.float32))


def _each_member(what: Callable[[Any], Any], members: Any) -> Any:
    """`what` of all members: at once, but one after the other on a CPU, whose caches hold the numbers of one."""
    return lax.map(what, members) if jax.default_backend() == "cpu" else jax.vmap(what)(members)


@cache
def look(sizes: Sizes, members: int) -> Callable[[State, Data, Known], tuple[State, Look]]:
    """A look at the validation days, at each device's share of the depots; the state, which is used up, remembers the
    best one of each member."""

    def run(state: State, data: Data, known: Known) -> tuple[State, Look]:
        found = _look(state.parameters, sizes, data, known)
        better = found.loss < state.best_loss

        def kept(new: Array, old: Array) -> Array:
            return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        best = jax.tree.map(kept, state.parameters, state.best)
        least = jnp.minimum(found.loss, state.best_loss)
        return state._replace(best=best, best_loss=least, last_loss=found.loss), found

    each, whole, depots = devices.by_member(), devices.whole(), devices.by_depot()
    found: Any = (each, devices.by_member_and_depot(), depots, depots)
    program = devices.on_each(run, members, (_lies(), whole, whole), (_lies(), Look(*found)))
    compiled: Callable[..., tuple[State, Look]] = jax.jit(program, donate_argnums=0, compiler_options=effort(1))
    return compiled


def _lies() -> State:
    """How a state lies on the devices."""
    each: Any = devices.by_member()
    return State(each, each, key=devices.whole(), best=each, best_loss=each, last_loss=each)  # type: ignore[arg-type]


def _look(parameters: Any, sizes: Sizes, data: Data, known: Known) -> Look:
    shape, count, checked = sizes.architecture, sizes.checks, devices.share(known.checked)
    last = jnp.broadcast_to(known.validated + count - 2, checked.shape)
    window, demand = windows.cut(data, checked, last, LOOKBACK + count - 1, shape.horizon)
    cut = Cut(shape.horizon, count, 1, shape.scan + count - 1)
    seen = _features(window, sizes, cut, known)
    said = _each_member(lambda one: encoder_decoder.answer(one, seen, window.statics, shape), parameters)
    came, scored = _came(window, demand, cut)
    parts = jax.vmap(lambda one: _loss(one, came, scored, sizes))(said), scored.sum().astype(jnp.float32)
    loss, total = devices.total(parts)
    return Look(loss / jnp.maximum(total, 1.0), said, came, scored)


def _features(window: Window, sizes: Sizes, cut: Cut, known: Known) -> Features:
    seen = features.make(
        window,
        known.constants,
        scan=cut.scan,
        origins=cut.origins,
        horizon=cut.horizon,
        stride=cut.stride,
    )
    kind = jnp.dtype(sizes.precision)
    return seen._replace(encoder=seen.encoder.astype(kind), decoder=seen.decoder.astype(kind))


def _loss(said: Said, came: Array, scored: Array, sizes: Sizes) -> Array:
    """The sum over what can be scored: means of parts do not add up."""
    mean = huber_quantile(said.quantiles, came, scored, jnp.asarray(sizes.architecture.levels, jnp.float32))
    return mean * scored.sum().astype(jnp.float32)


def _came(window: Window, demand: Array, cut: Cut) -> tuple[Array, Array]:
    """Log counts on the days that are forecast, and which of them can be scored."""
    first = window.demand.shape[1] - 1 - cut.span
    came = ahead_of(demand, first, cut.origins, cut.horizon, cut.stride)
    was_open = ahead_of(window.open, first, cut.origins, cut.horizon, cut.stride)
    scored = jnp.isfinite(came) & (was_open > 0)
    return jnp.log1p(jnp.where(scored, came, 0.0)), scored
