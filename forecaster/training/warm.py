"""Warm the compilation cache: compile the programs of a pipeline's nights before the first night
needs them.

The night's own code runs on the panel that the next night would see: one epoch of training in its
own process, calibration, export and parity. The programs are therefore the night's by construction,
without a second list of them. Only the programs are kept: no model, no checkpoint, no row in ledger
or lake.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.core.progress import NightProgress
from forecaster.core.terminal import count
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.errors import SpecError
from forecaster.lake import NOT_THERE, Lake
from forecaster.model.export import to_onnx
from forecaster.model.fitting import jax_setup, windows
from forecaster.model.fitting.train import VALIDATION
from forecaster.model.fitting.training_plan import choose_recipe
from forecaster.model.network import gru_cpu
from forecaster.serving import bundle as bundles
from forecaster.training import fit_candidate, parity, train
from forecaster.training.train import Listeners

STAGES = ("panel", "train", "backtest", "export")
_WEEK = 7  # days; period that a panel keeps when it is extended to later days


@dataclass
class Warming:
    """Compiled and cached programs, and seconds of XLA's compiler and in total."""

    folder: Path
    before: frozenset[str] = frozenset()  # names of the programs that existed before
    hits: int = 0
    compile_seconds: float = 0.0
    seconds: float = 0.0
    shapes: int = 0  # number of different training shapes
    recurrence: str = "scan"
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.before = self.programs()

    def programs(self) -> frozenset[str]:
        """Return the names of the existing programs."""
        return frozenset(file.name for file in self.folder.glob("*-cache"))

    def add(self, hits: int, seconds: float) -> None:
        self.hits += hits
        self.compile_seconds += seconds

    def lines(self) -> Iterator[str]:
        """Yield lines for the screen, the result first."""
        programs = self.programs()
        yield (
            f"compiled {count(len(programs - self.before), 'program')} in {self.compile_seconds:.1f} s, {self.hits} "
            f"were there; {self.seconds:.1f} s in all, for {count(self.shapes, 'shape')} of training"
        )
        of_gru = "compiled for this processor" if self.recurrence == "compiled" else "a scan"
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files) / 1e6
        yield f"{self.folder}: {count(len(programs), 'program')}, {size:.1f} MB; the recurrence is {of_gru}"
        yield from self.troubles


def warm(spec: Spec, file: Path, *, as_of: datetime, nights: int, progress: NightProgress) -> Warming:
    """Compile the programs of the next `nights` nights, the first of them with the content of the
    lake as of `as_of`.

    `file` is the spec's file. Raises SpecError if the cache cannot be written or several hosts
    train, NoUsableData if the lake holds too little, TrainingError and ExportError as a night does.
    """
    begun = time.monotonic()
    if spec.training.hosts is not None:
        raise SpecError(
            "training.hosts: found several hosts, wanted one: a host's programs are for its place among the others, "
            "so the first night of all of them compiles"
        )
    warming = Warming(_writable_folder(spec))
    with progress.stage("panel"):
        panel, panel_at = _panel(spec, as_of)
        before = panel_at(fit_candidate.first_cutoff(panel, spec))
        spec = fit_candidate.spec_to_train(spec, before, panel_at)
    with progress.stage("train"):
        shapes = list(_shapes(before, spec, nights))
        candidates = [_train(shape, spec, file, warming, progress, share) for share, shape in _shares(shapes)]
    warming.shapes, warming.recurrence = len(shapes), str(candidates[0].summary["recurrence"])
    _as_the_night_does(candidates[0], panel, before, panel_at, spec, warming, progress)
    if warming.recurrence == "compiled" and not any((warming.folder / gru_cpu.FOLDER).glob("*.so")):
        warming.troubles.append(
            f"{warming.folder / gru_cpu.FOLDER} is not this user's alone, so the recurrence is compiled by each process"
        )
    warming.seconds = time.monotonic() - begun
    return warming


def _panel(spec: Spec, as_of: datetime) -> tuple[Panel, Past]:
    """Return the panel of the next night's training: from the lake or, before the first night, from
    the sources, read into a temporary lake."""
    if Lake.of(spec).versions(["demand"])["demand"] != NOT_THERE:
        return _known(spec, as_of)
    with tempfile.TemporaryDirectory(prefix="forecaster-warm-") as folder:
        aside = spec.model_copy(update={"lake": folder})
        ingest(aside, now=datetime.now(UTC))
        return _known(aside, as_of)


def _known(spec: Spec, as_of: datetime) -> tuple[Panel, Past]:
    knowledge = read_as_of(spec, as_of=as_of)
    panel = panels.build(knowledge, spec)
    return panel, Past(knowledge, panel, spec)


def _writable_folder(spec: Spec) -> Path:
    """Return the folder of this machine's programs. Raises SpecError if it is not writable, or is
    writable by everyone: its content runs in the night."""
    folder = jax_setup.cache_folder(spec)
    key = jax_setup.FOLDER if os.environ.get(jax_setup.FOLDER) else "execution.compile_cache"
    try:
        jax_setup.configure(folder, megabytes=spec.retention.compile_cache_mb)
        probe = folder / f".warm-{os.getpid()}"
        probe.touch()
        probe.unlink()
        others_write = bool(folder.stat().st_mode & 0o002)
    except OSError as error:
        raise SpecError(
            f"{key}: compiled programs cannot be written to {folder} ({error.strerror or error}); wanted a folder that "
            "whoever runs the nights may write"
        ) from error
    if others_write:
        raise SpecError(
            f"{key}: found {folder}, which everybody may write, wanted a folder of those who run nights: what lies "
            "there runs in them (chmod o-w)"
        )
    return folder


def _shapes(before: Panel, spec: Spec, nights: int) -> Iterator[Panel]:
    """Yield the training panel of each night whose programs differ from those of earlier nights:
    steps grow with the days, and days are padded to a round number."""
    met = set()
    for later in range(nights):
        panel = days_later(before, later)
        days = panel.history - VALIDATION
        shape = choose_recipe(spec, len(panel.depot_ids), days), -(-panel.history // windows.DAYS_MULTIPLE)
        if shape not in met:
            met.add(shape)
            yield panel


def days_later(panel: Panel, days: int) -> Panel:
    """Return the panel as it may be `days` days later, with its last week repeated."""
    history = np.concatenate([np.arange(panel.history), panel.history - _WEEK + np.arange(days) % _WEEK])
    all_days = np.concatenate([history, np.arange(panel.history, len(panel.days))])
    return replace(
        panel,
        days=panel.days[0] + np.arange(len(all_days)),
        demand=panel.demand[:, history],
        capped=None,
        open=panel.open[:, all_days],
        covariates=panel.covariates[:, all_days],
        calendar=panel.calendar[:, all_days],
    )


def _shares(shapes: list[Panel]) -> Iterator[tuple[float, Panel]]:
    yield from ((number / len(shapes), shape) for number, shape in enumerate(shapes, 1))


def _train(before: Panel, spec: Spec, file: Path, warming: Warming, progress: NightProgress, share: float) -> Candidate:
    """Train one epoch as the night's own process does."""
    hears = Listeners(
        on_epoch=lambda epoch: progress.advance(share, f"one epoch of {before.history} days to {before.cutoff}"),
        on_trouble=warming.troubles.append,
        on_measures=lambda measures: None,
    )
    candidate = train.one_epoch_in_child_process(before, spec, file, hears)
    used = candidate.summary
    warming.add(used["compile_hits"], used["compile_seconds"])
    return candidate


def _as_the_night_does(
    candidate: Candidate,
    panel: Panel,
    before: Panel,
    panel_at: Callable[..., Panel],
    spec: Spec,
    warming: Warming,
    progress: NightProgress,
) -> None:
    """Compile the programs that the night itself uses in addition to the training process:
    calibration, backtest, export and parity."""
    with jax_setup.count_compilations() as compilations:
        with progress.stage("backtest"):
            calibrated = fit_candidate.calibrated_before_backtest(candidate, before, panel_at)
            rolling = fit_candidate.rolling_forecaster(calibrated, panel, spec, panel_at=panel_at)
            calibrated = fit_candidate.calibrated_after_backtest(calibrated, rolling, panel)
        with progress.stage("export"):
            graph, weights = to_onnx.to_graph(calibrated), bundles.npz(to_onnx.weights(calibrated))
            parity.agree(calibrated, graph, weights, to_onnx.about(calibrated), panel)
    warming.add(compilations.hits, compilations.seconds)
