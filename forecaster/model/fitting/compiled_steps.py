"""The jitted training epoch and validation step: compiled once, used for the whole training.

From the top down: `initial_state` creates the members, `training_epoch` scans over gradient steps
(draw crops, compute features, compute each member's gradient, AdamW), `validation_step` measures
the loss on the validation days and keeps each member's best parameters.

Sizes are part of a program; days, depots, learning rates and measured constants of the counts are
its inputs, so that the next night's panel needs no other program.
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

from forecaster.model.fitting import devices, report_errors, windows
from forecaster.model.fitting.jax_setup import compiler_effort
from forecaster.model.fitting.windows import CropPlaces, CropSizes, DevicePanel
from forecaster.model.network import encoder_decoder, features
from forecaster.model.network.day_sums import ahead_of
from forecaster.model.network.encoder_decoder import Architecture, NetworkOutput
from forecaster.model.network.features import LOOKBACK, Features, Window
from forecaster.model.network.losses import huber_quantile

# crops per pass on a CPU; the numbers of more do not fit into its caches
CROPS_AT_ONCE = 8


class State(NamedTuple):
    """Training state between steps; the first axis of each leaf except the key is the members."""

    parameters: Any
    optimizer: Any
    key: Array
    best: Any  # parameters of the epoch with the smallest loss on the validation days,
    best_loss: Array
    last_loss: Array  # and that loss after the last epoch


class Restraints(NamedTuple):
    """Regularization of each member, (members,): keeps it from learning the dates by heart."""

    dropout: Array
    weight_decay: Array


class PanelFacts(NamedTuple):
    """Facts about the panel that a program needs at run time: traced values, not part of the
    compiled program."""

    days: Int[Array, ""]  # that are used for training
    validation_start: Int[Array, ""]  # day on which validation begins
    depots: Int[Array, ""]
    validation_depots: Int[Array, " validated"]  # depots that are validated
    constants: dict[str, Array]  # of `features.make`
    blur: Float[Array, " calendar"]  # of `windows.draw`
    report_steps: Float[Array, "horizon covariates"] | None = None  # of `report_errors`


class Report(NamedTuple):
    """Training loss and gradient norms of one epoch, by member and step."""

    loss: Float[Array, "members steps"]
    gradient_norm: Float[Array, "members steps"]
    depots: Int[Array, "steps batch"]  # depots of the crops of each step


class Validation(NamedTuple):
    """Validation loss, and the members' forecasts of the validation days. The first origin is the
    day before the validation days, the last one is the last whose first week (or whole horizon, if
    shorter) lies within them; later days are scored as far as they are known."""

    loss: Float[Array, " members"]
    output: NetworkOutput  # members first
    actual: Float[Array, "validated origins horizon"]  # log counts
    scored: Bool[Array, "validated origins horizon"]


@dataclass(frozen=True)
class ProgramSizes:
    """Sizes that determine a program: static arguments, by which it is compiled and cached."""

    architecture: Architecture
    crop: CropSizes
    batch: int
    validation: int  # days
    precision: str = "float32"  # of the products in training; parameters and sums are float32

    @property
    def validation_origins(self) -> int:
        """Number of origins whose first week lies within the validation days; the first is the day
        before them."""
        return self.validation - min(self.architecture.horizon, windows.SCORED_AHEAD) + 1


def initial_state(sizes: ProgramSizes, members: int, key: Array) -> State:
    """Return fresh members and optimizer states, each member from its own key."""
    program = jax.jit(_initial, static_argnums=(0, 1), compiler_options=compiler_effort(0))
    state: State = program(sizes.architecture, members, key)
    return state


def _initial(shape: Architecture, members: int, key: Array) -> State:
    init_key, run_key = jax.random.split(key)
    # One after the other: jaxlib distributes a batch of QR factorizations, which make orthogonal
    # kernels, over the threads that wait for it. Two such batches at the same time on two cores
    # would deadlock.
    parameters = lax.map(partial(encoder_decoder.initial_parameters, shape), jax.random.split(init_key, members))
    state = State(
        parameters,
        jax.vmap(_optimizer(0.0).init)(parameters),
        run_key,
        jax.tree.map(jnp.copy, parameters),
        jnp.full((members,), jnp.inf),
        jnp.full((members,), jnp.inf),
    )
    # Without weak types; otherwise the second epoch would recompile for the output of the first.
    strong: State = jax.tree.map(lambda x: lax.convert_element_type(x, x.dtype), state)
    return strong


def _optimizer(weight_decay: Array | float) -> optax.GradientTransformation:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) with a learning rate of one; the caller
    scales and subtracts the step."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


def on_devices(state: State) -> State:
    """Shard the state as an epoch returns it, each member on its own device; otherwise the second
    epoch would recompile."""
    members = len(state.best_loss)
    # From the host: split on a device, each shape would be a program of its own.
    by_field = {name: jax.device_get(value) for name, value in state._asdict().items() if name != "key"}
    placed: State = State(**devices.deal(by_field, members), key=devices.replicate(state.key, members))
    return placed


@cache
def training_epoch(
    sizes: ProgramSizes, members: int
) -> Callable[[State, DevicePanel, PanelFacts, Restraints, Array], tuple[State, Report]]:
    """Return the compiled epoch of all members, with one step per learning rate.

    All members learn from the same crops, which a device cuts once for all its members, including
    their features. The state's buffers are donated.
    """

    def run(
        state: State, panel: DevicePanel, facts: PanelFacts, restraints: Restraints, rates: Float[Array, " steps"]
    ) -> tuple[State, Report]:
        key, epoch_key = jax.random.split(state.key)
        step = partial(_gradient_step, sizes=sizes, panel=panel, facts=facts, restraints=restraints)
        (parameters, optimizer), (loss, norm, depots) = lax.scan(
            step, (state.parameters, state.optimizer), (jax.random.split(epoch_key, rates.shape[0]), rates)
        )
        return state._replace(parameters=parameters, optimizer=optimizer, key=key), Report(loss.T, norm.T, depots)

    by_member, replicated = devices.by_member(), devices.replicated()
    report: Any = (by_member, by_member, replicated)
    program = devices.on_each_device(
        run,
        members,
        (_state_layout(), replicated, replicated, by_member, replicated),
        (_state_layout(), Report(*report)),
    )
    compiled: Callable[..., tuple[State, Report]] = jax.jit(
        program, donate_argnums=0, compiler_options=compiler_effort(1)
    )
    return compiled


def _gradient_step(
    carry: tuple[Any, Any],
    inputs: tuple[Array, Array],
    *,
    sizes: ProgramSizes,
    panel: DevicePanel,
    facts: PanelFacts,
    restraints: Restraints,
) -> tuple[tuple[Any, Any], tuple[Array, Array, Array]]:
    parameters, optimizer = carry
    key, rate = inputs
    # One draw of crops for all members: their features, the costlier half of a short step, are
    # computed once.
    crop_key, dropout_key = jax.random.split(key)
    places = windows.draw(
        crop_key, sizes.crop, batch=sizes.batch, depots=facts.depots, days=facts.days, blur=facts.blur
    )
    # Folded with the member's number, so that dropout does not depend on the distribution of
    # members over devices.
    keys = jax.vmap(partial(jax.random.fold_in, dropout_key))(devices.member_numbers(len(restraints.dropout)))
    masks = jax.vmap(partial(encoder_decoder.dropout_masks, sizes.architecture, depots=sizes.batch))(
        restraints.dropout, keys
    )
    parts = _gradients(parameters, panel, facts, devices.share(places), devices.share(masks, axis=1), sizes)
    # Devices that share a member have different crops: sums and counts are exchanged and divided at
    # the end.
    loss, gradient, scored = devices.total(parts)
    loss, gradient = jax.tree.map(lambda x: x / jnp.maximum(scored, 1.0), (loss, gradient))

    def descend(parameters: Any, memory: Any, gradient: Any, decay: Array) -> tuple[Any, Any]:
        step, memory = _optimizer(decay).update(gradient, memory, parameters)
        return jax.tree.map(lambda p, s: p - rate * s, parameters, step), memory

    with jax.numpy_dtype_promotion("standard"):  # optax needs it
        parameters, optimizer = jax.vmap(descend)(parameters, optimizer, gradient, restraints.weight_decay)
    return (parameters, optimizer), (loss, jax.vmap(optax.tree.norm)(gradient), places.depots)


def _gradients(
    parameters: Any, panel: DevicePanel, facts: PanelFacts, places: CropPlaces, masks: Array, sizes: ProgramSizes
) -> tuple[Array, Any, Array]:
    """Return each member's summed loss and gradient, and the number of scored days, from a device's
    share of a batch; on a CPU in parts of `CROPS_AT_ONCE` crops, if these divide the share evenly."""
    parts, remainder = divmod(len(places.depots), CROPS_AT_ONCE)
    if jax.default_backend() != "cpu" or remainder or parts == 1:
        return _gradients_at_once(parameters, panel, facts, places, masks, sizes)

    def gradients_of(part: tuple[CropPlaces, Array]) -> tuple[Array, Any, Array]:
        return _gradients_at_once(parameters, panel, facts, *part, sizes)

    def add(total: Any, part: tuple[CropPlaces, Array]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, gradients_of(part)), None

    def in_parts(leaf: Array) -> Array:
        return leaf.reshape(parts, CROPS_AT_ONCE, *leaf.shape[1:])

    mask_parts = in_parts(jnp.moveaxis(masks, 1, 0))  # crops first, as in `places`
    all_parts = jax.tree.map(in_parts, places), jnp.moveaxis(mask_parts, 2, 1)
    shapes = jax.eval_shape(gradients_of, jax.tree.map(lambda leaf: leaf[0], all_parts))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total: tuple[Array, Any, Array] = lax.scan(add, zeros, all_parts)[0]
    return total


def _gradients_at_once(
    parameters: Any, panel: DevicePanel, facts: PanelFacts, places: CropPlaces, masks: Array, sizes: ProgramSizes
) -> tuple[Array, Any, Array]:
    window, demand = windows.crop(panel, places, sizes.crop)
    demand = windows.learnable(demand, places.last, facts.days, sizes.crop)
    errors = None
    if facts.report_steps is not None:
        errors = report_errors.of_crops(places.key, sizes.crop.origins, facts.report_steps)
    inputs = _features(window, sizes, sizes.crop, facts, errors)
    actual, scored = _log_actuals(window, demand, sizes.crop)

    def of_member(member: tuple[Any, Array]) -> tuple[Array, Any]:
        def loss(parameters: Any) -> Array:
            shape, stride = sizes.architecture, sizes.crop.stride
            output = encoder_decoder.member_forward(
                parameters, inputs, window.statics, shape, stride=stride, masks=member[1]
            )
            return _loss(output, actual, scored, sizes)

        return jax.value_and_grad(loss)(member[0])

    return (*_each_member(of_member, (parameters, masks)), scored.sum().astype(jnp.float32))


def _each_member(function: Callable[[Any], Any], members: Any) -> Any:
    """Apply `function` to all members: at once or, on a CPU, one after the other, because its
    caches hold the numbers of one."""
    return lax.map(function, members) if jax.default_backend() == "cpu" else jax.vmap(function)(members)


@cache
def validation_step(
    sizes: ProgramSizes, members: int
) -> Callable[[State, DevicePanel, PanelFacts], tuple[State, Validation]]:
    """Return the compiled validation: the members' loss on the validation days, over each device's
    share of the depots. The new state keeps the best parameters of each member; the old state's
    buffers are donated."""

    def run(state: State, panel: DevicePanel, facts: PanelFacts) -> tuple[State, Validation]:
        validation = _validate(state.parameters, sizes, panel, facts)
        better = validation.loss < state.best_loss

        def select_better(new: Array, old: Array) -> Array:
            return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        best = jax.tree.map(select_better, state.parameters, state.best)
        best_loss = jnp.minimum(validation.loss, state.best_loss)
        return state._replace(best=best, best_loss=best_loss, last_loss=validation.loss), validation

    by_member, replicated, by_depot = devices.by_member(), devices.replicated(), devices.by_depot()
    layout: Any = (by_member, devices.by_member_and_depot(), by_depot, by_depot)
    program = devices.on_each_device(
        run, members, (_state_layout(), replicated, replicated), (_state_layout(), Validation(*layout))
    )
    compiled: Callable[..., tuple[State, Validation]] = jax.jit(
        program, donate_argnums=0, compiler_options=compiler_effort(1)
    )
    return compiled


def _state_layout() -> State:
    """Sharding of a state: members over the rows of devices, the key on each."""
    member, key = devices.by_member(), devices.replicated()
    return State(member, member, key=key, best=member, best_loss=member, last_loss=member)  # type: ignore[arg-type]


def _validate(parameters: Any, sizes: ProgramSizes, panel: DevicePanel, facts: PanelFacts) -> Validation:
    shape, count, depots = sizes.architecture, sizes.validation_origins, devices.share(facts.validation_depots)
    last = jnp.broadcast_to(facts.validation_start + count - 2, depots.shape)
    window, demand = windows.cut(panel, depots, last, LOOKBACK + count - 1, shape.horizon)
    crop = CropSizes(shape.horizon, count, 1, shape.scan + count - 1)
    errors = None
    if facts.report_steps is not None:
        errors = report_errors.of_days(depots, facts.validation_start - 1 + jnp.arange(count), facts.report_steps)
    inputs = _features(window, sizes, crop, facts, errors)
    output = _each_member(
        lambda member: encoder_decoder.member_forward(member, inputs, window.statics, shape), parameters
    )
    actual, scored = _log_actuals(window, demand, crop)
    parts = (
        jax.vmap(lambda member_output: _loss(member_output, actual, scored, sizes))(output),
        scored.sum().astype(jnp.float32),
    )
    loss, total = devices.total(parts)
    return Validation(loss / jnp.maximum(total, 1.0), output, actual, scored)


def _features(
    window: Window, sizes: ProgramSizes, crop: CropSizes, facts: PanelFacts, errors: Array | None
) -> Features:
    inputs = features.make(
        window,
        facts.constants,
        scan=crop.scan,
        origins=crop.origins,
        horizon=crop.horizon,
        stride=crop.stride,
        report_errors=errors,
    )
    dtype = jnp.dtype(sizes.precision)
    return inputs._replace(encoder=inputs.encoder.astype(dtype), decoder=inputs.decoder.astype(dtype))


def _loss(output: NetworkOutput, actual: Array, scored: Array, sizes: ProgramSizes) -> Array:
    """Return the sum over the scored days, because means of parts do not add up."""
    mean = huber_quantile(output.quantiles, actual, scored, jnp.asarray(sizes.architecture.levels, jnp.float32))
    return mean * scored.sum().astype(jnp.float32)


def _log_actuals(window: Window, demand: Array, crop: CropSizes) -> tuple[Array, Array]:
    """Log counts on the forecast days, and a mask of those that can be scored."""
    first = window.demand.shape[1] - 1 - crop.span
    actual = ahead_of(demand, first, crop.origins, crop.horizon, crop.stride)
    was_open = ahead_of(window.open, first, crop.origins, crop.horizon, crop.stride)
    scored = jnp.isfinite(actual) & (was_open > 0)
    return jnp.log1p(jnp.where(scored, actual, 0.0)), scored
