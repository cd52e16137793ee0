"""Train the network: the whole epoch compiled, members side by side, every choice of chance from an explicit key.

The days before the cutoff fall into two parts. Crops (windows of random depots that end on random days) of the first
part train; the last `VALIDATION` days say how far each member is trusted (`blend`), and later calibrate the intervals.
A member keeps its last parameters, or those of an earlier epoch that was better on these days by more than `EARLY`: a
smaller difference on so few days was mostly chance. The kept parameters go out as they are: there is no refit, so the
model that was judged is the model that forecasts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from forecaster import __version__
from forecaster.errors import CheckpointError, NoUsableData, TrainingError
from forecaster.model import crops, devices, programs
from forecaster.model.blend import Blend, blend
from forecaster.model.checkpoints import Checkpoints
from forecaster.model.compiling import counted
from forecaster.model.crops import Cut, Data
from forecaster.model.network import Architecture
from forecaster.model.programs import Known, Report, Restraints, Sizes, State
from forecaster.model.recipe import Recipe, recipe
from forecaster.spec import Spec
from forecaster.values import Candidate, Panel

VALIDATION = 28  # days
LEAST = 28  # days of history that training needs before the validation days
BLUR = 0.5  # how far the waves of year and month are off in a crop; exact ones name the date, which is learned by heart
EARLY = 0.05  # share by which an earlier epoch must have been better
CHECKED = 256  # depots that validation looks at, at most
SMALLEST = 8  # crops a batch, below which less memory is no help
WAVES = 730  # days of history from which the waves of the year are told apart from a trend
LAST_YEAR = 540  # days of history from which enough crops know their last year
BETWEEN = 20.0  # seconds of training that are lost at most when the process is killed; a save takes half a second


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


class Material(NamedTuple):
    """What programs read: the panel on the devices, what they are told of it, and the members' restraints."""

    data: Data
    known: Known
    restraints: Restraints


def fit(
    panel: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    checkpoints: Path | None = None,
) -> Candidate:
    """A candidate trained on everything up to the panel's cutoff.

    Same panel, spec and device: the same parameters to the last bit, also when a killed training goes on from its
    checkpoint in the folder `checkpoints`. Where memory runs out the batch is halved and training starts over;
    `on_trouble` is told of that, and of a checkpoint that cannot be used. Raises NoUsableData when the history is too
    short, TrainingError when the loss stops being a number, or the smallest batch is too large for the memory.
    """
    started, days = time.monotonic(), panel.history - VALIDATION
    if days < LEAST + panel.horizon:
        raise NoUsableData(
            f"{panel.history} days of history before the backtest, wanted at least "
            f"{VALIDATION + LEAST + panel.horizon}: shorten backtest.days or bring a longer history"
        )
    chosen, say = recipe(spec, len(panel.depot_ids), days, jax.device_count()), on_trouble or (lambda _: None)
    material = _material(panel, days, chosen)
    with counted() as compiled:
        while True:
            try:
                state, history, sizes = _run(panel, spec, chosen, material, on_epoch, say, checkpoints)
                kept = _kept(state)
                trust = _blend(kept, sizes, material)
                break
            except Exception as error:
                if not devices.out_of_memory(error):
                    raise
                half = chosen.batch // 2 // jax.device_count() * jax.device_count()
                if half < SMALLEST:
                    raise TrainingError(f"no memory left for a batch of {chosen.batch} crops: {error}") from error
                say(f"no memory left for a batch of {chosen.batch} crops: starting over with {half}")
                chosen = replace(chosen, batch=half, steps=2 * chosen.steps)
    shape = sizes.architecture
    return Candidate(
        parameters={
            "members": jax.tree.map(np.asarray, kept),
            "constants": jax.tree.map(np.asarray, material.known.constants),
            "blend": {"members": trust.members, "anchor": np.float32(trust.anchor)},
            "calibration": np.ones(len(shape.levels), np.float32),
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
            "validation": [float(x) for x in np.where(_early(state), state.best_loss, state.last_loss)],
            "trust": [float(x) for x in trust.members],
            "anchor": trust.anchor,
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


def _run(
    panel: Panel,
    spec: Spec,
    chosen: Recipe,
    material: Material,
    on_epoch: Callable[[Epoch], None] | None,
    say: Callable[[str], None],
    folder: Path | None,
) -> tuple[State, list[Epoch], Sizes]:
    """All epochs, from the last checkpoint on where there is one."""
    sizes = _sizes(panel, spec, chosen)
    state = devices.replicate(programs.initial(sizes, len(chosen.restraints), jax.random.key(spec.training.seed)))
    history: list[Epoch] = []
    kept = Checkpoints(folder, _purpose(panel, spec, chosen)) if folder is not None else None
    if kept is not None:
        state, history = _resumed(kept, state, say)
    saved = time.monotonic()
    for epoch, after in _epochs(state, history, chosen, sizes, material, panel):
        state = after
        history.append(epoch)
        if kept is not None and (epoch.number == epoch.of or time.monotonic() - saved > BETWEEN):
            kept.save(epoch.number, state, [asdict(each) for each in history])
            saved = time.monotonic()
        if on_epoch is not None:
            on_epoch(epoch)
    return state, history, sizes


def _epochs(
    state: State, history: list[Epoch], chosen: Recipe, sizes: Sizes, material: Material, panel: Panel
) -> Iterator[tuple[Epoch, State]]:
    program, rates = programs.epoch(sizes), chosen.rates()
    for number in range(len(history) + 1, chosen.epochs + 1):
        begun = time.monotonic()
        state, report = program(state, *material, jnp.asarray(rates[number - 1]))
        loss, norm, checked = (np.asarray(x) for x in (report.loss, report.gradient_norm, report.validation))
        if not np.isfinite(loss).all() or not np.isfinite(checked).all():
            raise TrainingError(_not_a_number(number, chosen.epochs, report, panel))
        yield (
            Epoch(
                number=number,
                of=chosen.epochs,
                loss=float(loss.mean()),
                validation=float(checked.mean()),
                learning_rate=float(rates[number - 1, -1]),
                gradient_norm=float(norm.max()),
                seconds=time.monotonic() - begun,
                depot_days=loss.size * sizes.batch * sizes.crop.scan,
            ),
            state,
        )


def _not_a_number(number: int, of: int, report: Report, panel: Panel) -> str:
    """Where it happened: the first step whose loss is no number, and the depots whose crops it took."""
    loss = np.asarray(report.loss)
    wrong = np.argwhere(~np.isfinite(loss))
    if not len(wrong):
        return f"epoch {number} of {of}: the loss on the validation days is {np.asarray(report.validation).mean()}"
    member, step = min(wrong.tolist(), key=lambda place: place[1])
    whose = sorted({panel.depot_ids[i] for i in np.asarray(report.depots)[step]})
    named = ", ".join(whose[:5]) + (f" and {len(whose) - 5} more" if len(whose) > 5 else "")
    return f"epoch {number} of {of}: the loss is {loss[member, step]} at step {step + 1}, on crops of {named}"


def _resumed(kept: Checkpoints, state: State, say: Callable[[str], None]) -> tuple[State, list[Epoch]]:
    try:
        found = kept.latest(state)
    except CheckpointError as error:
        say(f"training starts over: {error}")
        kept.clear()
        return state, []
    if found is None:
        return state, []
    say(f"training goes on after epoch {found.number}")
    return found.state, [Epoch(**each) for each in found.history]


def _purpose(panel: Panel, spec: Spec, chosen: Recipe) -> str:
    """A digest of all that the parameters depend on: a checkpoint made for anything else is as good as none."""
    digest = hashlib.sha256(
        repr((__version__, jax.__version__, spec.model, spec.training, chosen, panel.depot_ids)).encode()
    )
    for array in (
        panel.days,
        panel.demand,
        panel.open,
        panel.covariates,
        panel.calendar,
        panel.calendar_group,
        panel.statics,
    ):
        digest.update(array.tobytes())
    return f"{digest.hexdigest()} on {jax.device_count()} x {jax.devices()[0].device_kind}"


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
    checked = np.linspace(0, depots - 1, min(CHECKED, padded)).astype(np.int32)
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
    everywhere: Material = devices.replicate(Material(crops.on_device(panel, padded), known, restraints))
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


def _early(state: State) -> Array:
    return state.best_loss < (1 - EARLY) * state.last_loss


def _kept(state: State) -> Any:
    """Each member's last parameters, or those of a clearly better epoch."""
    early = _early(state)

    def chosen(best: Array, last: Array) -> Array:
        return jnp.where(early.reshape(-1, *[1] * (last.ndim - 1)), best, last)

    return jax.tree.map(chosen, state.best, state.parameters)


def _blend(kept: Any, sizes: Sizes, material: Material) -> Blend:
    said, came, scored = programs.validation(sizes)(kept, material.data, material.known)
    levels, anchor = sizes.architecture.levels, np.asarray(said.anchor[0])
    return blend(np.asarray(said.quantiles), anchor, np.asarray(came), np.asarray(scored), levels)
