"""Train and calibrate a candidate in this process: from the panel to a model for the backtest.

`training.train` does it in a child process. The quantiles are calibrated twice: on the validation
days before the backtest, and then on the days of the backtest itself, which must not be judged by
quantiles that were calibrated on them. With a horizon of more than a week, the far days are
calibrated with forecasts whose origins lie in the training days; the days that they are compared
with were never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Floats
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.demand.history.past_panels import Past
from forecaster.errors import ForecasterError, SpecError
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation import calibration
from forecaster.evaluation.rolling_calibration import RollingCalibration
from forecaster.model.fitting import devices, distributed, jax_setup, train
from forecaster.model.fitting.train import VALIDATION
from forecaster.model.fitting.training_loop import Epoch

ForecasterOf = Callable[[Candidate], backtests.Predictor]
# keys of a candidate's summary: before its backtest, and after it
FIRST, LAST = "calibration", "last_calibration"


def train_and_calibrate(
    panel: Panel,
    spec: Spec,
    *,
    panel_at: backtests.PanelAt | None = None,
    cutoff: date | None = None,
    checkpoints: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
) -> Candidate:
    """Train and calibrate a candidate on the knowledge at the cutoff, by default the backtest's
    first one.

    `panel_at` returns the panel as of a cutoff (`past_panels.Past`), by default the current one,
    cut off. A killed training resumes from its checkpoint, in the night's folder unless
    `checkpoints` is another. `on_trouble` receives other events as sentences; `profile` is a folder
    for a trace of two epochs. Raises NoUsableData if the history is too short, TrainingError if the
    loss stops being a number.
    """
    panel_at = panel_at or panel.at
    before = panel_at(cutoff or first_cutoff(panel, spec))
    spec = spec_to_train(spec, before, panel_at)
    candidate = _train_among_hosts(
        before, spec, 0, checkpoints=checkpoints, on_epoch=on_epoch, on_trouble=on_trouble, profile=profile
    )
    return calibrated_before_backtest(candidate, before, panel_at)


def spec_to_train(spec: Spec, before: Panel, panel_at: backtests.PanelAt) -> Spec:
    """Return the pipeline as it trains on a panel: with the errors of reports that the lake showed
    by then. Raises SpecError as `Past.spec_to_train` does."""
    return panel_at.spec_to_train(spec, before.cutoff) if isinstance(panel_at, Past) else spec


def calibrated_before_backtest(
    candidate: Candidate, before: Panel, panel_at: backtests.PanelAt | None = None
) -> Candidate:
    """Return the candidate calibrated on the days before the backtest on which it was not trained."""
    cutoffs = backtests.reaching_cutoffs(before, VALIDATION)
    held_out = backtests.folds(
        _compiled(candidate), before, cutoffs, panel_at or before.at, scored_after=_trained_until(before)
    )
    return _with_calibration(candidate, calibration.factors(held_out), FIRST)


def _compiled(candidate: Candidate) -> backtests.Predictor:
    # imports the exporter, which the training process does not need
    from forecaster.model.export import to_onnx

    predict: backtests.Predictor = to_onnx.forecaster(candidate)
    return predict


def compile_ahead(before: Panel, spec: Spec) -> None:
    """Compile the programs that will calibrate a candidate trained on this panel, before it exists:
    programs depend only on shapes.

    Raises what `train.blank` does.
    """
    _compiled(train.blank(before, spec))(before)


def _trained_until(before: Panel) -> date:
    return before.cutoff - timedelta(days=VALIDATION)


def first_cutoff(panel: Panel, spec: Spec) -> date:
    """Return the first cutoff of the backtest, where training ends. Raises NoUsableData if the
    history is too short."""
    return backtests.cutoffs(panel, spec.backtest.days)[0]


def train_uncalibrated(
    before: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
    checkpoints: Path | None = None,
    epochs: int | None = None,
) -> Candidate:
    """Return the candidate of `train_and_calibrate`, not yet calibrated, for a panel that ends at
    the cutoff.

    Its last checkpoint is kept, so that a leaderboard's training can resume from it. With `epochs`,
    training stops early, but the programs are those of a whole training.
    """
    return _train_among_hosts(
        before,
        spec,
        0,
        checkpoints=checkpoints,
        on_epoch=on_epoch,
        on_trouble=on_trouble,
        profile=profile,
        epochs=epochs,
    )


def assist(spec: Spec, number: int, *, on_epoch: Callable[[Epoch], None] | None = None) -> None:
    """Train as host `number` of `training.hosts`, together with the night's own host, which sends
    the panel.

    Raises SpecError if the pipeline file declares no such host, TrainingError as
    `train_and_calibrate` does.
    """
    if spec.training.hosts is None:
        raise SpecError("training.hosts is not in the pipeline file: the night trains on its own machine alone")
    _train_among_hosts(None, spec, number, on_epoch=on_epoch)


def _train_among_hosts(
    panel: Panel | None,
    spec: Spec,
    number: int,
    *,
    checkpoints: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    profile: Path | None = None,
    epochs: int | None = None,
) -> Candidate:
    """Train as host `number`, with the other hosts if there are any; each ends with the same
    candidate."""
    declared = spec.training.hosts
    trouble = jax_setup.configure_for(spec)
    if trouble is not None and on_trouble is not None:
        on_trouble(trouble)
    if declared is None:
        devices.one_device_per_core()
    distributed.join(distributed.HostGroup(declared.coordinator, declared.count, number) if declared else None)
    try:
        candidate = train.fit(
            distributed.broadcast_panel(panel, spec),
            distributed.broadcast_lead_error(spec),
            on_epoch=on_epoch,
            on_trouble=on_trouble,
            checkpoints=checkpoints or spec.paths.checkpoints,
            profile=profile,
            epochs=epochs,
        )
    except ForecasterError:  # raised on the other hosts too; if one of them died, leaving is not possible
        distributed.leave()
        raise
    distributed.leave()
    return candidate


def rolling_forecaster(
    candidate: Candidate,
    panel: Panel,
    spec: Spec,
    *,
    panel_at: backtests.PanelAt | None = None,
    cutoff: date | None = None,
    forecaster: ForecasterOf | None = None,
) -> RollingCalibration:
    """Return a candidate of `train_and_calibrate` as it forecasts cutoff after cutoff.

    Its intervals are calibrated on all days on which it was not trained, from the days of its first
    calibration on. `forecaster` makes it a function of a panel; by default a compiled one.
    """
    predict, panel_at = (forecaster or _compiled)(candidate), panel_at or panel.at
    before = panel_at(cutoff or first_cutoff(panel, spec))
    earlier = [predict(panel_at(day)) for day in backtests.reaching_cutoffs(before, VALIDATION)]
    return RollingCalibration(predict, earlier, trained_until=_trained_until(before))


def calibrated_after_backtest(candidate: Candidate, rolling: RollingCalibration, panel: Panel) -> Candidate:
    """Return the candidate as it forecasts from the panel's own cutoff, with all held-out days
    known."""
    factors = np.asarray(candidate.parameters["calibration"]) * rolling.factors(panel)
    return _with_calibration(candidate, np.clip(factors, calibration.NARROWEST, calibration.WIDEST), LAST)


def _with_calibration(candidate: Candidate, factors: Floats, key: str) -> Candidate:
    return replace(
        candidate,
        parameters={**candidate.parameters, "calibration": factors},
        summary={**candidate.summary, key: factors.tolist()},
    )
