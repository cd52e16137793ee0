"""Train the network: the whole epoch compiled, members side by side, every choice of chance from an explicit key.

The days before the cutoff fall into two parts. Crops (windows of random depots that end on random days) of the first
part train; the last `VALIDATION` days say how far each member is trusted (`blend`), and later calibrate the intervals.
A member keeps its last parameters, or those of an earlier epoch that was better on these days by more than `EARLY`: a
smaller difference on so few days was mostly chance. The kept parameters go out as they are: there is no refit, so the
model that was judged is the model that forecasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.errors import NoUsableData, TrainingError
from forecaster.model.fitting import compiled_steps, devices, distributed, training_loop, windows
from forecaster.model.fitting.compiled_steps import Known, Restraints, Sizes, State
from forecaster.model.fitting.ensemble import Blend, blend
from forecaster.model.fitting.jax_setup import counted
from forecaster.model.fitting.training_loop import Epoch, Material, Watch
from forecaster.model.fitting.training_plan import Recipe, recipe
from forecaster.model.fitting.windows import Cut
from forecaster.model.network.encoder_decoder import Architecture

VALIDATION = 28  # days
LEAST = 28  # days of history that training needs before the validation days
BLUR = 0.5  # how far the waves of year and month are off in a crop; exact ones name the date, which is learned by heart
EARLY = 0.05  # share by which an earlier epoch must have been better
CHECKED = 256  # depots that validation looks at, at most; with more devices one each
SMALLEST = 8  # crops a batch, below which less memory is no help
WAVES = 730  # days of history from which the waves of the year are told apart from a trend
LAST_YEAR = 540  # days of history from which enough crops know their last year
TOLD = ("number", "loss", "validation", "learning_rate", "gradient_norm")  # of an epoch: the same on each training
MEASURED = ("depot_days_a_second", "compile_seconds", "compile_hits", "compile_misses")  # of it: of this one alone


def fit(
    panel: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    checkpoints: Path | None = None,
    profile: Path | None = None,
) -> Candidate:
    """A candidate trained on everything up to the panel's cutoff.

    Same panel, spec and device: the same parameters to the last bit, also when a killed training goes on from its
    checkpoint in the folder `checkpoints`. Where memory runs out the batch is halved and training starts over;
    `on_trouble` is told of that, and of a checkpoint that cannot be used. `profile` is a folder for a trace of two
    epochs after the first one, for `jax.profiler`'s viewers. Raises NoUsableData when the history is too
    short, TrainingError when the loss stops being a number, or the smallest batch is too large for the memory.
    """
    started, days = time.monotonic(), panel.history - VALIDATION
    if days < LEAST + panel.horizon:
        raise NoUsableData(
            f"{panel.history} days of history before the backtest, wanted at least "
            f"{VALIDATION + LEAST + panel.horizon}: shorten backtest.days or bring a longer history"
        )
    chosen = recipe(spec, len(panel.depot_ids), days, jax.device_count())
    watch = Watch(on_epoch, on_trouble, checkpoints, profile)
    material = _material(panel, days, chosen)
    with counted() as compiled:
        while True:
            try:
                sizes = _sizes(panel, spec, chosen)
                state, history = training_loop.run(panel, spec, chosen, sizes, material, watch, compiled)
                kept = _kept(state)
                validation = np.where(_early(state), *distributed.fetched((state.best_loss, state.last_loss))).tolist()
                trust = _blend(state, kept, sizes, material)
                break
            except Exception as error:
                if not devices.out_of_memory(error):
                    raise
                half = chosen.batch // 2 // jax.device_count() * jax.device_count()
                if half < SMALLEST:
                    raise TrainingError(f"no memory left for a batch of {chosen.batch} crops: {error}") from error
                watch.say(f"no memory left for a batch of {chosen.batch} crops: starting over with {half}")
                chosen = replace(chosen, batch=half, steps=2 * chosen.steps)
    shape = sizes.architecture
    return Candidate(
        parameters={
            "members": kept,
            "constants": jax.tree.map(np.asarray, material.known.constants),
            "blend": {"members": trust.members, "anchor": np.float32(trust.anchor)},
            "calibration": np.ones((shape.horizon, len(shape.levels)), np.float32),
        },
        architecture=shape.to_json(),
        encoding=panel.encoding,
        calendar_names=panel.calendar_names,
        levels=shape.levels,
        horizon=panel.horizon,
        summary={
            "epochs": chosen.epochs,
            "steps_an_epoch": chosen.steps,
            "batch": chosen.batch,
            "members": len(chosen.restraints),
            "depots": len(panel.depot_ids),
            "trained_until": str(panel.days[days - 1]),
            "validated_until": str(panel.cutoff),
            "loss": history[-1].loss,
            "validation": validation,
            "trust": [float(x) for x in trust.members],
            "anchor": trust.anchor,
            "history": [{name: getattr(e, name) for name in TOLD} for e in history],
            "measured": [{name: getattr(e, name) for name in MEASURED} for e in history],
            "seconds": time.monotonic() - started,
            "first_epoch_seconds": history[0].seconds,
            "steps_seconds": sum(e.seconds for e in history[1:]),
            "compile_seconds": compiled.seconds,
            "compile_hits": compiled.hits,
            "compile_misses": compiled.misses,
            "depot_days_a_second": history[-1].depot_days_a_second,
            "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
            "recurrence": training_loop.recurrence(spec),
        },
    )


def _sizes(panel: Panel, spec: Spec, chosen: Recipe) -> Sizes:
    shape = Architecture(
        layers=spec.model.layers,
        hidden=chosen.hidden,
        levels=spec.model.quantiles,
        horizon=panel.horizon,
        covariates=len(panel.encoding.covariates),
        calendar=len(panel.calendar_names),
        labels=tuple(len(labels) for labels in panel.encoding.statics.values()),
    )
    span = chosen.stride * (chosen.origins - 1)
    # The state of a crop's first origin has read a quarter of `shape.scan`.
    crop = Cut(panel.horizon, chosen.origins, chosen.stride, span + 1 + shape.scan // 4, chosen.whole)
    return Sizes(shape, crop, chosen.batch, VALIDATION, spec.training.precision)


def _material(panel: Panel, days: int, chosen: Recipe) -> Material:
    depots = len(panel.depot_ids)
    padded = devices.padded(depots)
    share = max(1, CHECKED // jax.device_count())  # of a device
    checked = np.linspace(0, depots - 1, min(share * jax.device_count(), padded)).astype(np.int32)
    known = Known(
        days=jnp.int32(days),
        validated=jnp.int32(days),
        depots=jnp.int32(depots),
        checked=jnp.asarray(checked),
        constants=_constants(panel, days),
        blur=jnp.asarray([BLUR * name.startswith(("year_", "month_")) for name in panel.calendar_names], jnp.float32),
    )
    restraints = Restraints(
        jnp.asarray([each.dropout for each in chosen.restraints], jnp.float32),
        jnp.asarray([each.weight_decay for each in chosen.restraints], jnp.float32),
    )
    everything = Material(windows.on_device(panel, padded), known, restraints)
    everywhere: Material = devices.replicate(everything, len(chosen.restraints))
    return everywhere


def _constants(panel: Panel, days: int) -> dict[str, Array]:
    """What `features.make` wants to know of the training days.

    A year that was seen once tells a season from a trend no better than chance, and an input that was never there in
    training is noise when it comes: with less than `WAVES` days the waves of the year are left out, with less than
    `LAST_YEAR` what was a year ago.
    """
    counts = panel.demand[:, :days][panel.open[:, :days]]
    log = np.log1p(counts[np.isfinite(counts)].astype(np.float64))
    if not log.size:
        raise NoUsableData(f"no observed demand up to {panel.days[days - 1]}, where training ends")
    waves = np.array([name.startswith("year_") for name in panel.calendar_names], bool)
    return {
        "mean": jnp.float32(log.mean()),
        "spread": jnp.float32(max(log.std(), 0.1)),
        "calendar": jnp.asarray(np.where(waves & (days < WAVES), 0, 1), jnp.float32),
        "yearly": jnp.float32(days >= LAST_YEAR),
    }


def _early(state: State) -> NDArray[np.bool_]:
    early: NDArray[np.bool_] = distributed.fetched(state.best_loss) < (1 - EARLY) * distributed.fetched(state.last_loss)
    return early


def _kept(state: State) -> Any:
    """Each member's last parameters, or those of a clearly better epoch; on the host."""
    early = _early(state)

    def chosen(best: NDArray[np.float32], last: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(early.reshape(-1, *[1] * (last.ndim - 1)), best, last)

    return jax.tree.map(chosen, *distributed.fetched((state.best, state.parameters)))


def _blend(state: State, kept: Any, sizes: Sizes, material: Material) -> Blend:
    members = len(state.best_loss)
    look = compiled_steps.look(sizes, members)
    _, found = look(state._replace(parameters=devices.deal(kept, members)), material.data, material.known)
    said, anchor, came, scored = distributed.fetched(
        (found.said.quantiles, found.said.anchor, found.came, found.scored)
    )
    return blend(said, anchor[0], came, scored, sizes.architecture.levels)
