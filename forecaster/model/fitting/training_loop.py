"""Run a training's epochs: from its last checkpoint on, each one reported, stopped where the loss is no number."""

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
from forecaster.core.panel import Panel
from forecaster.errors import CheckpointError, TrainingError
from forecaster.model.fitting import compiled_steps, distributed
from forecaster.model.fitting.checkpoints import Checkpoints
from forecaster.model.fitting.compiled_steps import Known, Report, Restraints, Sizes, State
from forecaster.model.fitting.jax_setup import Compilations
from forecaster.model.fitting.training_plan import Recipe
from forecaster.model.fitting.windows import Data
from forecaster.model.network import gru_cpu

BETWEEN = 20.0  # seconds of training that are lost at most when the process is killed; a save takes half a second
PROFILED = (2, 3)  # epochs that a trace shows, the first of them once everything is compiled


@dataclass(frozen=True)
class Epoch:
    """What one epoch reports; `loss` is the Huber quantile loss, `validation` the same on the validation days."""

    number: int  # from 1
    of: int
    loss: float
    validation: float
    learning_rate: float  # after it
    gradient_norm: float  # the largest of its steps and members
    seconds: float
    depot_days: int  # days times depots that the encoder read
    compile_seconds: float  # in XLA's compiler, or reading its cache
    compile_hits: int
    compile_misses: int

    @property
    def depot_days_a_second(self) -> float:
        return self.depot_days / max(self.seconds, 1e-9)


class Material(NamedTuple):
    """What programs read: the panel on the devices, what they are told of it, and the members' restraints."""

    data: Data
    known: Known
    restraints: Restraints


@dataclass(frozen=True)
class Watch:
    """Who hears of a training, and where it leaves its traces."""

    on_epoch: Callable[[Epoch], None] | None = None
    on_trouble: Callable[[str], None] | None = None
    checkpoints: Path | None = None
    profile: Path | None = None

    def say(self, sentence: str) -> None:
        if self.on_trouble is not None:
            self.on_trouble(sentence)


def run(
    panel: Panel, spec: Spec, chosen: Recipe, sizes: Sizes, material: Material, watch: Watch, compiled: Compilations
) -> tuple[State, list[Epoch]]:
    """All epochs, from the last checkpoint on where there is one. Raises TrainingError where the loss is no number."""
    fresh = compiled_steps.initial(sizes, len(chosen.restraints), jax.random.key(spec.training.seed))
    state, history = compiled_steps.dealt(fresh), list[Epoch]()
    kept = Checkpoints(watch.checkpoints, _purpose(panel, spec, chosen)) if watch.checkpoints is not None else None
    if kept is not None:
        state, history = _resumed(kept, state, watch)
    saved = time.monotonic()
    for epoch, after in _epochs(state, history, chosen, sizes, material, panel, watch.profile, compiled):
        state = after
        history.append(epoch)
        if kept is not None and distributed.agree(epoch.number == epoch.of or time.monotonic() - saved > BETWEEN):
            kept.save(epoch.number, state, [asdict(each) for each in history])
            saved = time.monotonic()
        if watch.on_epoch is not None:
            watch.on_epoch(epoch)
    return state, history


def _epochs(
    state: State,
    history: list[Epoch],
    chosen: Recipe,
    sizes: Sizes,
    material: Material,
    panel: Panel,
    profile: Path | None,
    compiled: Compilations,
) -> Iterator[tuple[Epoch, State]]:
    members, rates = len(chosen.restraints), chosen.rates()
    train, look = compiled_steps.epoch(sizes, members), compiled_steps.look(sizes, members)
    first = len(history) + 1
    with ExitStack() as tracing:
        for number in range(first, chosen.epochs + 1):
            if profile is not None and number - first + 1 == PROFILED[0]:
                tracing.enter_context(jax.profiler.trace(str(profile)))
            begun, before = time.monotonic(), (compiled.seconds, compiled.hits, compiled.misses)
            state, report = train(state, *material, jnp.asarray(rates[number - 1]))
            state, found = look(state, material.data, material.known)
            report, checked = distributed.fetched(report), distributed.fetched(found.loss)
            seconds = time.monotonic() - begun
            if number - first + 1 == PROFILED[1]:
                tracing.close()
            if not np.isfinite(report.loss).all() or not np.isfinite(checked).all():
                raise TrainingError(_not_a_number(number, chosen.epochs, report, checked, panel))
            yield (
                Epoch(
                    number=number,
                    of=chosen.epochs,
                    loss=float(report.loss.mean()),
                    validation=float(checked.mean()),
                    learning_rate=float(rates[number - 1, -1]),
                    gradient_norm=float(report.gradient_norm.max()),
                    seconds=seconds,
                    depot_days=report.loss.size * sizes.batch * sizes.crop.scan,
                    compile_seconds=compiled.seconds - before[0],
                    compile_hits=compiled.hits - before[1],
                    compile_misses=compiled.misses - before[2],
                ),
                state,
            )


def _not_a_number(number: int, of: int, report: Report, checked: NDArray[np.float32], panel: Panel) -> str:
    """Where it happened: the first step whose loss is no number, and the depots whose crops it took."""
    wrong = np.argwhere(~np.isfinite(report.loss))
    if not len(wrong):
        return f"epoch {number} of {of}: the loss on the validation days is {checked.mean()}"
    member, step = min(wrong.tolist(), key=lambda place: place[1])
    whose = sorted({panel.depot_ids[i] for i in report.depots[step].tolist()})
    named = ", ".join(whose[:5]) + (f" and {len(whose) - 5} more" if len(whose) > 5 else "")
    return f"epoch {number} of {of}: the loss is {report.loss[member, step]} at step {step + 1}, on crops of {named}"


def _resumed(kept: Checkpoints, state: State, watch: Watch) -> tuple[State, list[Epoch]]:
    try:
        found = kept.latest(state)
    except CheckpointError as error:
        watch.say(f"training starts over: {error}")
        kept.clear()
        return state, []
    if found is None:
        return state, []
    watch.say(f"training goes on after epoch {found.number}")
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
    return f"{digest.hexdigest()} on {jax.device_count()} x {jax.devices()[0].device_kind}, {recurrence(spec)}"


def recurrence(spec: Spec) -> str:
    """What runs the GRU over the days, on the first host: "compiled" for the processor, or "scan"; their sums differ in
    the last bits. Every host must ask, or one of them would go on from a checkpoint that another one refuses."""
    compiled = distributed.agree(gru_cpu.serves(spec.model.hidden, jnp.dtype(spec.training.precision)))
    return "compiled" if compiled else "scan"
