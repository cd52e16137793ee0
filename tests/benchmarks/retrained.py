"""Our model trained anew on the way through a backtest: at each cutoff, and as nights do it.

A model that is trained once is up to seven weeks old on the days that judge it. `weekly` is trained at each cutoff on
all days before it. A night holds out `backtest.days` first and publishes what the gate judged on them, without training
it again: so does `nights` at each cutoff, which is what users get where training is weekly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from forecaster.config import Spec
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.rolling_calibration import RollingCalibration

Training = Callable[[Panel, Spec], Predictor]  # of what a night knew


def trained_anew(panel: Panel, at: Sequence[date], spec: Spec, train: Training) -> Predictor:
    """A model for each cutoff, of what was known then; asked for another cutoff it raises KeyError."""
    models = {cutoff: train(panel.at(cutoff), spec) for cutoff in at}
    return lambda before: models[before.cutoff](before)


def weekly(known: Panel, spec: Spec) -> Predictor:
    """Trained on all days of a panel but those that validate, and calibrated on these."""
    return _trained(known, spec, known.cutoff)


def nights(known: Panel, spec: Spec) -> Predictor:
    """Trained before the last `backtest.days` days of a panel, and calibrated on them, too."""
    held_out = backtest.cutoffs(known, spec.backtest.days, spec.backtest.every)
    rolling = _trained(known, spec, held_out[0])
    for cutoff in held_out:
        rolling(known.at(cutoff))  # by which later intervals are calibrated
    return rolling


def _trained(known: Panel, spec: Spec, cutoff: date) -> RollingCalibration:
    from forecaster.training import fit_candidate

    with tempfile.TemporaryDirectory() as folder:  # not what an earlier training left
        candidate = fit_candidate.train_and_calibrate(known, spec, cutoff=cutoff, checkpoints=Path(folder))
    return fit_candidate.rolling_forecaster(candidate, known, spec, cutoff=cutoff)
