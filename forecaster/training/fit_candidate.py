"""Tonight's model, from the panel to one that may be judged: trained, and its intervals calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Floats
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.errors import ForecasterError, SpecError
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation import calibration
from forecaster.evaluation.rolling_calibration import Rolling
from forecaster.model.export import to_onnx
from forecaster.model.fitting import devices, distributed, jax_setup, train
from forecaster.model.fitting.train import VALIDATION
from forecaster.model.fitting.training_loop import Epoch

FIRST, LAST = "calibration", "last_calibration"  # in a candidate's summary: before its backtest, and after it


def fit(
    panel: Panel,
    spec: Spec,
    *,
    seen: backtests.Seen | None = None,
    cutoff: date | None = None,
    checkpoints: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """A candidate trained and calibrated on what was known at the cutoff, by default the backtest's first one.

    `seen` is the panel as it was at a cutoff (`past.Past`), by default tonight's, cut off. A training that was
    killed goes on from its checkpoint, in the night's folder unless `checkpoints` is another. `on_trouble` hears what
    else happened on the way; `profile` is a folder for a trace of two epochs.
    Raises NoUsableData when the history is too short, TrainingError when the loss stops being a number.
    """
    seen = seen or panel.at
    before = seen(cutoff or first_cutoff(panel, spec))
    candidate = _together(
        before, spec, 0, checkpoints=checkpoints, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile
    )
    return first_calibrated(candidate, before, seen)


def first_calibrated(candidate: Candidate, before: Panel, seen: backtests.Seen | None = None) -> Candidate:
    """The candidate calibrated on the days before the backtest that it was not trained on."""
    cutoffs = backtests.cutoffs(before, VALIDATION)
    held_out = backtests.folds(to_onnx.forecaster(candidate), before, cutoffs, seen or before.at)
    return _calibrated(candidate, calibration.factors(held_out), FIRST)


def first_cutoff(panel: Panel, spec: Spec) -> date:
    """Where training ends and the backtest begins. Raises NoUsableData when the history is too short."""
    return backtests.cutoffs(panel, spec.backtest.days)[0]


def train_alone(
    before: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """The candidate of `fit`, not yet calibrated, of a panel that ends at the cutoff. Its last checkpoint stays, from
    which a leaderboard's `fit` picks it up."""
    return _together(before, spec, 0, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile)


def assist(spec: Spec, number: int, *, on_epoch: Callable[[Epoch], None] | None = None) -> None:
    """Train as host `number` of `training.hosts` beside the night's own, whose panel comes to this one.

    Raises SpecError where the pipeline file names no such host, TrainingError as `fit` does.
    """
    if spec.training.hosts is None:
        raise SpecError("training.hosts is not in the pipeline file: the night trains on its own machine alone")
    _together(None, spec, number, on_epoch=on_epoch)


def _together(
    panel: Panel | None,
    spec: Spec,
    number: int,
    *,
    checkpoints: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """Train as host `number`, with the others where there are any; each ends with the same candidate."""
    declared = spec.training.hosts
    jax_setup.configure(spec.paths.jax_cache)
    if declared is None:
        devices.spread()
    distributed.join(distributed.Hosts(declared.coordinator, declared.count, number) if declared else None)
    try:
        found = train.fit(
            distributed.agreed(panel, spec),
            spec,
            on_epoch=on_epoch,
            on_trouble=on_trouble,
            checkpoints=checkpoints or spec.paths.checkpoints,
            profile=profile,
        )
    except ForecasterError:  # which the others raise too; where one of them died, there is no parting
        distributed.part()
        raise
    distributed.part()
    return found


def rolling(
    candidate: Candidate, panel: Panel, spec: Spec, *, seen: backtests.Seen | None = None, cutoff: date | None = None
) -> Rolling:
    """A candidate of `fit` as it forecasts cutoff after cutoff, its intervals calibrated on all that it was not trained
    on: from the days that calibrated it first on."""
    predict, seen = to_onnx.forecaster(candidate), seen or panel.at
    before = seen(cutoff or first_cutoff(panel, spec))
    return Rolling(predict, [predict(seen(each)) for each in backtests.cutoffs(before, VALIDATION)])


def calibrated(candidate: Candidate, judged: Rolling, panel: Panel) -> Candidate:
    """The candidate as it forecasts from the panel's own cutoff, all held-out days being known."""
    factors = np.asarray(candidate.parameters["calibration"]) * judged.factors(panel)
    return _calibrated(candidate, np.clip(factors, calibration.NARROWEST, calibration.WIDEST), LAST)


def _calibrated(candidate: Candidate, factors: Floats, when: str) -> Candidate:
    return replace(
        candidate,
        parameters={**candidate.parameters, "calibration": factors},
        summary={**candidate.summary, when: factors.tolist()},
    )
