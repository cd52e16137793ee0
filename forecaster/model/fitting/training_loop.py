"""The training loop: run epochs from the last checkpoint on, validate and report each, and stop at
a NaN loss.

One iteration of `run`: train an epoch, validate it (`_epochs`), save a checkpoint at intervals,
report it. `_resume` finds the state of a killed training.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from forecaster import __version__
from forecaster.config import Spec
from forecaster.core.forecast import Prior
from forecaster.core.language import N_
from forecaster.core.language.sentences import and_more, sentence
from forecaster.core.panel import Panel
from forecaster.errors import CheckpointError, TrainingError
from forecaster.model.fitting import compiled_steps, distributed
from forecaster.model.fitting.checkpoints import Checkpoints
from forecaster.model.fitting.compiled_steps import PanelFacts, ProgramSizes, Report, Restraints, State
from forecaster.model.fitting.jax_setup import Compilations
from forecaster.model.fitting.training_plan import Recipe
from forecaster.model.fitting.windows import DevicePanel
from forecaster.model.network import gru_cpu
from forecaster.plugins import plugin

# seconds between checkpoints, the most that a kill can lose; a save takes half a second
SAVE_INTERVAL = 20.0
PROFILED = (2, 3)  # first and last epoch of a trace; the first is the one after everything is compiled


@dataclass(frozen=True)
class Epoch:
    """Progress report of one epoch; `loss` is the Huber quantile loss, `validation` the same on the
    validation days."""

    number: int  # from 1
    of: int
    loss: float
    validation: float
    learning_rate: float  # at its end
    gradient_norm: float  # largest of its steps and members
    seconds: float
    depot_days: int  # days times depots that the encoder read
    compile_seconds: float  # in XLA's compiler, or reading its cache
    compile_hits: int
    compile_misses: int

    @property
    def depot_days_a_second(self) -> float:
        return self.depot_days / max(self.seconds, 1e-9)


class TrainingInputs(NamedTuple):
    """Inputs of the compiled programs: the panel on the devices, facts about it, and the members'
    restraints."""

    panel: DevicePanel
    facts: PanelFacts
    restraints: Restraints


@dataclass(frozen=True)
class Monitoring:
    """Callbacks of a training, and the folders of its checkpoints and of its profile."""

    on_epoch: Callable[[Epoch], None] | None = None
    on_trouble: Callable[[str], None] | None = None
    checkpoints: Path | None = None
    profile: Path | None = None

    def report(self, sentence: str) -> None:
        if self.on_trouble is not None:
            self.on_trouble(sentence)


def run(
    panel: Panel,
    spec: Spec,
    recipe: Recipe,
    sizes: ProgramSizes,
    inputs: TrainingInputs,
    monitoring: Monitoring,
    compilations: Compilations,
    prior: Prior | None = None,
) -> tuple[State, list[Epoch]]:
    """Run all epochs, from the last checkpoint if there is one, else from fresh parameters or the
    prior's; return the last state, and a report of each epoch.

    Raises TrainingError if the loss is not a number.
    """
    fresh = compiled_steps.initial_state(sizes, len(recipe.restraints), jax.random.key(spec.training.seed))
    if prior is not None:
        fresh = _begun_from(prior, fresh, panel, sizes, inputs)
    state, history = compiled_steps.on_devices(fresh), list[Epoch]()
    checkpoints = (
        Checkpoints(monitoring.checkpoints, _purpose(panel, spec, recipe, prior))
        if monitoring.checkpoints is not None
        else None
    )
    if checkpoints is not None:
        state, history = _resume(checkpoints, state, monitoring)
    last_save = time.monotonic()
    for epoch, new_state in _epochs(state, history, recipe, sizes, inputs, panel, monitoring.profile, compilations):
        state = new_state
        history.append(epoch)
        # Clocks differ, and all hosts save together: the first one decides when.
        if checkpoints is not None and distributed.broadcast_flag(
            epoch.number == epoch.of or time.monotonic() - last_save > SAVE_INTERVAL
        ):
            checkpoints.save(epoch.number, state, [asdict(past) for past in history])
            last_save = time.monotonic()
        if monitoring.on_epoch is not None:
            monitoring.on_epoch(epoch)
    return state, history


def _epochs(
    state: State,
    history: list[Epoch],
    recipe: Recipe,
    sizes: ProgramSizes,
    inputs: TrainingInputs,
    panel: Panel,
    profile: Path | None,
    compilations: Compilations,
) -> Iterator[tuple[Epoch, State]]:
    members, rates = len(recipe.restraints), recipe.rates()
    train, validate = compiled_steps.training_epoch(sizes, members), compiled_steps.validation_step(sizes, members)
    first = len(history) + 1
    with ExitStack() as tracing:
        for number in range(first, recipe.epochs + 1):
            if profile is not None and number - first + 1 == PROFILED[0]:
                tracing.enter_context(jax.profiler.trace(str(profile)))
            # One epoch: its gradient steps, then its loss on the validation days.
            start, before = time.monotonic(), (compilations.seconds, compilations.hits, compilations.misses)
            state, report = train(state, *inputs, jnp.asarray(rates[number - 1]))
            state, validation = validate(state, inputs.panel, inputs.facts)
            # Fetching the numbers waits for the devices, so the time below is that of the whole
            # epoch.
            report, validation_loss = distributed.to_numpy(report), distributed.to_numpy(validation.loss)
            seconds = time.monotonic() - start
            if number - first + 1 == PROFILED[1]:
                tracing.close()
            if not np.isfinite(report.loss).all() or not np.isfinite(validation_loss).all():
                raise TrainingError(_divergence_message(number, recipe.epochs, report, validation_loss, panel))
            yield (
                Epoch(
                    number=number,
                    of=recipe.epochs,
                    loss=float(report.loss.mean()),
                    validation=float(validation_loss.mean()),
                    learning_rate=float(rates[number - 1, -1]),
                    gradient_norm=float(report.gradient_norm.max()),
                    seconds=seconds,
                    depot_days=report.loss.size * sizes.batch * sizes.crop.scan,
                    compile_seconds=compilations.seconds - before[0],
                    compile_hits=compilations.hits - before[1],
                    compile_misses=compilations.misses - before[2],
                ),
                state,
            )


def _divergence_message(
    number: int, of: int, report: Report, validation_loss: NDArray[np.float32], panel: Panel
) -> str:
    """Return a sentence about the divergence: the first step whose loss is not a number, and the
    depots of its crops."""
    places = np.argwhere(~np.isfinite(report.loss))
    if not len(places):
        template = N_("epoch {number} of {of}: the loss on the validation days is {loss}")
        return sentence(template, number=number, of=of, loss=validation_loss.mean())
    member, step = min(places.tolist(), key=lambda place: place[1])
    depot_ids = sorted({panel.depot_ids[i] for i in report.depots[step].tolist()})
    template = N_("epoch {number} of {of}: the loss is {loss} at step {step}, on crops of {names}")
    values = {"loss": report.loss[member, step], "step": step + 1, "names": and_more(depot_ids[:5], len(depot_ids) - 5)}
    return sentence(template, number=number, of=of, **values)


def _resume(checkpoints: Checkpoints, state: State, monitoring: Monitoring) -> tuple[State, list[Epoch]]:
    """Return the state and reports of the last checkpoint; the fresh state if there is none, or
    none is usable."""
    try:
        checkpoint = checkpoints.latest(state)
    except CheckpointError as error:
        monitoring.report(sentence(N_("training starts over: {error}"), error=error))
        checkpoints.clear()
        return state, []
    if checkpoint is None:
        return state, []
    monitoring.report(sentence(N_("training continues after epoch {n}"), n=checkpoint.number))
    return checkpoint.state, [Epoch(**row) for row in checkpoint.history]


def _begun_from(prior: Prior, fresh: State, panel: Panel, sizes: ProgramSizes, inputs: TrainingInputs) -> State:
    """Return the fresh state with the prior's parameters where available."""
    constants = distributed.to_numpy(inputs.facts.constants)
    parameters = distributed.to_numpy(fresh.parameters)
    begun = plugin("prior.warm_start").parameters(parameters, prior, panel, sizes.architecture, constants)
    # Two copies, because the buffers of both are donated to the compiled programs.
    return fresh._replace(parameters=jax.tree.map(jnp.asarray, begun), best=jax.tree.map(jnp.array, begun))


def _purpose(panel: Panel, spec: Spec, recipe: Recipe, prior: Prior | None) -> str:
    """Return a digest of everything that the parameters depend on; a checkpoint with another
    purpose is ignored."""
    digest = hashlib.sha256(
        repr((__version__, jax.__version__, spec.model, spec.training, recipe, panel.depot_ids)).encode()
    )
    digest.update(repr(sorted(spec.calendar.lead_error.items())).encode() if spec.calendar.lead_error else b"")
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
    if prior is not None:
        digest.update(prior.digest.encode())
    return f"{digest.hexdigest()} on {jax.device_count()} x {jax.devices()[0].device_kind}, {recurrence(spec)}"


def recurrence(spec: Spec) -> str:
    """Return the implementation of the GRU over the days on the first host: "compiled" for the
    processor, or "scan"; their sums differ in the last bits. Every host must call this, or one
    could resume from a checkpoint that another rejects."""
    compiled = distributed.broadcast_flag(gru_cpu.serves(spec.model.hidden, jnp.dtype(spec.training.precision)))
    return "compiled" if compiled else "scan"
