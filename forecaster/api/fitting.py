"""Fit a model from a pipeline folder with the steps of a nightly run: train, backtest, calibrate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forecaster.api.pipeline_folder import PipelineFolder, log_findings, logger
from forecaster.core.forecast import Candidate, Scores
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra, TrainingError

if TYPE_CHECKING:
    from forecaster.model.fitting.training_loop import Epoch


@dataclass(frozen=True)
class FittedModel:
    """Model, the panel that it was fitted on, and its scores on days that it did not learn from."""

    knowledge: Knowledge
    findings: tuple[Finding, ...]
    panel: Panel
    candidate: Candidate
    scores: Mapping[str, Scores]


def fit(folder: PipelineFolder, *, progress: bool, logged: set[str] | None = None) -> FittedModel:
    """Train, backtest and calibrate on the folder's tables; findings are logged as in `knowledge`.

    Raises NoUsableData if there is too little to learn from, TrainingError if the loss is no longer
    a number, MissingExtra if the training libraries are not installed.
    """
    from forecaster.demand.history.past_panels import Past
    from forecaster.demand.panel.build import build
    from forecaster.demand.panel.known_future import covariates
    from forecaster.demand.panel.panel_findings import panel_findings

    _refuse_after_fork()
    try:
        from forecaster.training import backtest, fit_candidate
    except ModuleNotFoundError as error:
        raise MissingExtra(f"fit needs {error.name}, wanted: pip install 'harbor-forecaster[train]'") from error
    knowledge, findings = folder.knowledge(logged)
    spec, panel = folder.spec_to_train(), build(knowledge, folder.spec)
    # Values of the days ahead are passed to `predict`.
    of_panel = [
        finding
        for finding in panel_findings(knowledge, panel, folder.spec)
        if finding.rule != covariates.RULE or finding.places[0][1] <= panel.cutoff.isoformat()
    ]
    log_findings(of_panel, set() if logged is None else logged)
    findings = (*findings, *of_panel)
    past_panels = Past(knowledge, panel, spec)
    with _progress(progress) as on_epoch:
        candidate = fit_candidate.train_and_calibrate(
            panel, spec, panel_at=past_panels, on_epoch=on_epoch, on_trouble=logger.warning
        )
    rolling = fit_candidate.rolling_forecaster(candidate, panel, spec, panel_at=past_panels)
    models = {backtest.CANDIDATE: rolling}
    scores, troubles = backtest.backtest(models, None, panel, knowledge, spec, panel_at=past_panels)
    for trouble in troubles:
        logger.warning(trouble)
    _warn_of_better(scores, backtest.CANDIDATE)
    candidate = fit_candidate.calibrated_after_backtest(candidate, rolling, panel)
    return FittedModel(knowledge, findings, panel, candidate, scores)


def _warn_of_better(scores: Mapping[str, Scores], ours: str) -> None:
    """Log baselines that beat our model on the held-out days: no gate protects the user of this
    model."""
    mase = {name: of_model.metrics.get("mase", float("nan")) for name, of_model in scores.items()}
    better = [f"{name} {value:.3f}" for name, value in mase.items() if value < mase[ours]]
    if better:
        logger.warning(
            f"on the held-out days a baseline was better than the model: MASE {', '.join(better)}, the model "
            f"{mase[ours]:.3f}; see `scores`"
        )


def _refuse_after_fork() -> None:
    """Raise TrainingError in a process forked from one that trained: it lacks JAX's threads and
    would wait forever."""
    first = _TRAINERS.setdefault("first", os.getpid())
    if first != os.getpid():
        raise TrainingError(
            f"fit: found a process that was forked from {first}, which has trained; wanted one of its own: "
            "multiprocessing.get_context('spawn')"
        )


_TRAINERS: dict[str, int] = {}  # process that trained first; inherited by forks


@contextmanager
def _progress(is_visible: bool) -> Iterator[Callable[[Epoch], None]]:
    """Progress bar on standard error, or in a notebook's cell, that advances with each epoch."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=not is_visible, transient=True) as bar:
        task = bar.add_task("compile and train", total=1.0)

        def on_epoch(epoch: Any) -> None:
            bar.update(task, completed=epoch.number / epoch.of, description=f"train, loss {epoch.loss:.4f}")

        yield on_epoch
