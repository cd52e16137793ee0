"""Train the network: the whole epoch compiled, members side by side, every choice of chance from an explicit key.

The days before the cutoff fall into two parts. Crops (windows of random depots that end on random days) of the first
part train; the last `VALIDATION` days choose which epoch's parameters are kept, and later calibrate the intervals.
The kept parameters go out as they are: there is no refit, so the model that was judged is the model that forecasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from numpy.typing import NDArray

from forecaster.errors import NoUsableData, TrainingError
from forecaster.model import network
from forecaster.model.compiling import counted
from forecaster.model.features import LOOKBACK, Window, ahead_of
from forecaster.model.losses import huber_quantile
from forecaster.model.network import Architecture
from forecaster.spec import Spec
from forecaster.values import Candidate, Panel

VALIDATION = 28  # days
SPAN = 82  # days of a crop on which origins lie, at most
STRIDE = 3  # days between origins: neighbours are scored on nearly the same days, and cost the decoder as much
LEAST = 28  # days of history that training needs before the validation days
LEAST_STEPS = 6  # gradient steps an epoch, however few the data
CHECKED = 256  # depots that validation looks at, at most
HIDE = 0.15  # share of crops that begin as if the depot had opened within them, so that new depots are no surprise


@dataclass(frozen=True)
class Epoch:
    """What one epoch reports; `loss` is the Huber quantile loss, `validation` the same on the validation days."""

    number: int  # from 1
    of: int
    loss: float
    validation: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    depot_days: int  # days times depots that the encoder read


class Data(NamedTuple):
    """The panel on the device: raw counts and covariates once, the calendar once a group of depots."""

    demand: Array  # (depots, LOOKBACK + days), NaN = not known
    open: Array  # (depots, LOOKBACK + days + horizon)
    covariates: Array
    calendar: Array  # (groups, …)
    group: Array
    statics: Array


class State(NamedTuple):
    parameters: Any
    optimizer: Any
    key: Array
    best: Any
    best_loss: Array


def fit(panel: Panel, spec: Spec, *, on_epoch: Callable[[Epoch], None] | None = None) -> Candidate:
    """A candidate trained on everything up to the panel's cutoff.

    Same panel, spec and device: the same parameters to the last bit. Raises NoUsableData when the history is too
    short, TrainingError when the loss stops being a number.
    """
    started = time.monotonic()
    days, training = panel.history - VALIDATION, spec.training
    if days < LEAST + panel.horizon:
        raise NoUsableData(
            f"{panel.history} days of history before the backtest, wanted at least "
            f"{VALIDATION + LEAST + panel.horizon}: shorten backtest.days or bring a longer history"
        )
    shape = Architecture(
        layers=spec.model.layers,
        hidden=spec.model.hidden,
        dropout=spec.model.dropout,
        levels=spec.model.quantiles,
        horizon=panel.horizon,
        covariates=len(panel.encoding.covariates),
        calendar=len(panel.calendar_names),
        labels=tuple(len(labels) for labels in panel.encoding.statics.values()),
    )
    origins = (int(np.clip(days - panel.horizon - 14, 7, SPAN)) - 1) // STRIDE + 1
    batch = min(training.batch_depots, max(8, len(panel.depot_ids)))
    steps = max(LEAST_STEPS, round(len(panel.depot_ids) * days / (batch * origins * STRIDE)))
    scan = _read(shape, origins)
    data, constants = _on_device(panel), _constants(panel, days)
    schedule = optax.schedules.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=training.learning_rate,
        warmup_steps=max(1, training.epochs * steps // 20),
        decay_steps=max(2, training.epochs * steps),  # one more than the warm-up at least
        end_value=training.learning_rate / 50,
    )
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-2))
    state = _initial(shape, optimizer, training.members, jax.random.key(training.seed))
    run_epoch = _compile(shape, optimizer, constants, days=days, origins=origins, scan=scan, batch=batch, steps=steps)
    checked = np.unique(np.linspace(0, len(panel.depot_ids) - 1, CHECKED).astype(np.int32))
    history: list[Epoch] = []
    with counted() as compiled:
        for number in range(1, training.epochs + 1):
            begun = time.monotonic()
            state, report = run_epoch(state, data, jnp.asarray(checked))
            loss, validation, norm = (float(x) for x in report)
            epoch = Epoch(
                number=number,
                of=training.epochs,
                loss=loss,
                validation=validation,
                learning_rate=float(schedule(number * steps)),
                gradient_norm=norm,
                seconds=time.monotonic() - begun,
                depot_days=training.members * steps * batch * scan,
            )
            if not np.isfinite(loss) or not np.isfinite(validation):
                raise TrainingError(f"epoch {number} of {training.epochs}: the loss is {loss}, validation {validation}")
            history.append(epoch)
            if on_epoch is not None:
                on_epoch(epoch)
    return Candidate(
        parameters={
            "members": jax.tree.map(np.asarray, state.best),
            "constants": jax.tree.map(np.asarray, constants),
            "calibration": np.ones(len(shape.levels), np.float32),
        },
        architecture=shape.to_json(),
        encoding=panel.encoding,
        calendar_names=panel.calendar_names,
        levels=shape.levels,
        horizon=panel.horizon,
        summary={
            "epochs": training.epochs,
            "steps_an_epoch": steps,
            "members": training.members,
            "depots": len(panel.depot_ids),
            "trained_until": str(panel.days[days - 1]),
            "validated_until": str(panel.cutoff),
            "loss": history[-1].loss,
            "validation": [float(x) for x in np.asarray(state.best_loss)],
            "history": [[e.number, e.loss, e.validation, e.learning_rate, e.gradient_norm] for e in history],
            "seconds": time.monotonic() - started,
            "first_epoch_seconds": history[0].seconds,
            "compile_seconds": compiled.seconds,
            "compile_hits": compiled.hits,
            "compile_misses": compiled.misses,
            "depot_days_a_second": history[-1].depot_days / max(history[-1].seconds, 1e-9),
            "device": jax.devices()[0].device_kind,
        },
    )


@partial(jax.jit, static_argnums=(0, 1, 2))
def _initial(shape: Architecture, optimizer: optax.GradientTransformation, members: int, key: Array) -> State:
    init_key, run_key = jax.random.split(key)
    parameters = jax.vmap(partial(network.initial, shape))(jax.random.split(init_key, members))
    state = State(
        parameters,
        jax.vmap(optimizer.init)(parameters),
        jax.random.split(run_key, members),
        jax.tree.map(jnp.copy, parameters),
        jnp.full((members,), jnp.inf),
    )
    # Without weak types, or the second epoch compiles again for what the first one returned.
    strong: State = jax.tree.map(lambda x: lax.convert_element_type(x, x.dtype), state)
    return strong


def _on_device(panel: Panel) -> Data:
    def padded(x: NDArray[Any], value: float) -> Array:
        widths = [(0, 0), (LOOKBACK, 0)] + [(0, 0)] * (x.ndim - 2)
        return jnp.asarray(np.pad(x.astype(np.float32), widths, constant_values=value))

    return Data(
        padded(panel.demand, np.nan),
        padded(panel.open, 1.0),
        padded(panel.covariates, 0.0),
        padded(panel.calendar, 0.0),
        jnp.asarray(panel.calendar_group, jnp.int32),
        jnp.asarray(panel.statics, jnp.int32),
    )


def _constants(panel: Panel, days: int) -> dict[str, Array]:
    """Mean and spread of log counts on the training days."""
    counted_ = panel.demand[:, :days][panel.open[:, :days]]
    log = np.log1p(counted_[np.isfinite(counted_)].astype(np.float64))
    if not log.size:
        raise NoUsableData(f"no observed demand up to {panel.days[days - 1]}, where training ends")
    return {"mean": jnp.float32(log.mean()), "spread": jnp.float32(max(log.std(), 0.1))}


def _read(shape: Architecture, origins: int) -> int:
    """Days of a crop that the encoder reads: the state of the first origin has read a quarter of `shape.scan`."""
    return STRIDE * (origins - 1) + 1 + shape.scan // 4


def _compile(
    shape: Architecture,
    optimizer: optax.GradientTransformation,
    constants: dict[str, Array],
    *,
    days: int,
    origins: int,
    scan: int,
    batch: int,
    steps: int,
) -> Callable[[State, Data, Array], tuple[State, tuple[Array, Array, Array]]]:
    levels, horizon = jnp.asarray(shape.levels, jnp.float32), shape.horizon
    span = STRIDE * (origins - 1)
    length = LOOKBACK + span

    def cut(data: Data, depots: Array, last: Array, days_back: int) -> tuple[Window, Array]:
        """Windows of `days_back` days that end on day `last` (an index into the unpadded days), and what followed."""

        def one(depot: Array, end: Array) -> tuple[Array, Array, Array, Array]:
            start = end + 1 + LOOKBACK - days_back

            def take(x: Array, row: Array, extra: int) -> Array:
                return lax.dynamic_slice_in_dim(x[row], start, days_back + extra, axis=0)

            return (
                take(data.demand, depot, horizon),
                take(data.open, depot, horizon),
                take(data.covariates, depot, horizon),
                take(data.calendar, data.group[depot], horizon),
            )

        demand, open_, covariates, calendar = jax.vmap(one)(depots, last)
        return Window(demand[:, :days_back], open_, covariates, calendar, data.statics[depots]), demand

    def loss_of(
        parameters: Any, window: Window, demand: Array, count: int, stride: int, read: int, key: Array | None
    ) -> Array:
        said = network.log_quantiles(
            parameters, constants, window, shape, origins=count, stride=stride, scan=read, dropout=key
        )
        first = window.demand.shape[1] - 1 - stride * (count - 1)
        came = ahead_of(demand, first, count, horizon, stride)
        was_open = ahead_of(window.open, first, count, horizon, stride)
        known = jnp.isfinite(came) & (was_open > 0)
        return huber_quantile(said, jnp.log1p(jnp.where(known, came, 0.0)), known, levels)

    def step(carry: tuple[Any, Any], key: Array, data: Data) -> tuple[tuple[Any, Any], tuple[Array, Array]]:
        parameters, memory = carry
        pick, when, hide, where, drop = jax.random.split(key, 5)
        depots = jax.random.randint(pick, (batch,), 0, data.demand.shape[0])
        last = jax.random.randint(when, (batch,), span, days - horizon)
        window, demand = cut(data, depots, last, length)
        opened = jax.random.randint(where, (batch,), length - scan, length - 1)
        hidden = jax.random.bernoulli(hide, HIDE, (batch,))[:, None] & (jnp.arange(length)[None] < opened[:, None])
        window = window._replace(demand=jnp.where(hidden, jnp.nan, window.demand))
        loss, gradient = jax.value_and_grad(loss_of)(parameters, window, demand, origins, STRIDE, scan, drop)
        with jax.numpy_dtype_promotion("standard"):
            updates, memory = optimizer.update(gradient, memory, parameters)
            parameters = optax.apply_updates(parameters, updates)
        return (parameters, memory), (loss, optax.tree.norm(gradient))

    def validation(parameters: Any, data: Data, checked: Array) -> Array:
        count = VALIDATION - horizon + 1
        last = jnp.full(checked.shape, days + VALIDATION - horizon - 1)
        # The first origin is the last training day; the last one leaves a whole horizon of validation days.
        window, demand = cut(data, checked, last, LOOKBACK + count - 1)
        return loss_of(parameters, window, demand, count, 1, shape.scan + count - 1, None)

    def epoch_of_one(state: State, data: Data, checked: Array) -> tuple[State, tuple[Array, Array, Array]]:
        key, now = jax.random.split(state.key)
        (parameters, memory), (losses, norms) = lax.scan(
            lambda carry, key: step(carry, key, data),
            (state.parameters, state.optimizer),
            jax.random.split(now, steps),
        )
        checked_loss = validation(parameters, data, checked)
        better = checked_loss < state.best_loss
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), parameters, state.best)
        kept = State(parameters, memory, key, best, jnp.minimum(checked_loss, state.best_loss))
        return kept, (losses.mean(), checked_loss, norms[-1])

    @partial(jax.jit, donate_argnums=0)
    def epoch(state: State, data: Data, checked: Array) -> tuple[State, tuple[Array, Array, Array]]:
        state, reports = jax.vmap(epoch_of_one, in_axes=(0, None, None))(state, data, checked)
        loss, checked_loss, norm = reports
        return state, (loss.mean(), checked_loss.mean(), norm.max())

    return epoch
