"""Our model retrained during a backtest: at each cutoff, and as in nightly runs.

A model that is trained once is up to seven weeks old on the days that judge it. `weekly` trains at
each cutoff on all days before it. A nightly run first holds out `backtest.days`, and publishes the
model that the gate judged on them, without training it again. `nights` does so at each cutoff:
users get such models if they train weekly.
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

Training = Callable[[Panel, Spec], Predictor]  # takes the panel known at a cutoff


def retrain_at(panel: Panel, cutoffs: Sequence[date], spec: Spec, train: Training) -> Predictor:
    """Train a model for each cutoff on what was known then; for another cutoff the predictor raises
    KeyError."""
    models = {cutoff: train(panel.at(cutoff), spec) for cutoff in cutoffs}
    return lambda before: models[before.cutoff](before)


def weekly(past: Panel, spec: Spec) -> Predictor:
    """Train on all days of a panel except the validation days, and calibrate on these."""
    return _trained(past, spec, past.cutoff)


def nights(past: Panel, spec: Spec) -> Predictor:
    """Train before the last `backtest.days` days of a panel, and calibrate on them too."""
    held_out = backtest.cutoffs(past, spec.backtest.days, spec.backtest.every)
    rolling = _trained(past, spec, held_out[0])
    for cutoff in held_out:
        rolling(past.at(cutoff))  # calibrates later intervals
    return rolling


def _trained(past: Panel, spec: Spec, cutoff: date) -> RollingCalibration:
    from forecaster.training import fit_candidate

    with tempfile.TemporaryDirectory() as folder:  # no checkpoint of an earlier training
        candidate = fit_candidate.train_and_calibrate(past, spec, cutoff=cutoff, checkpoints=Path(folder))
    return fit_candidate.rolling_forecaster(candidate, past, spec, cutoff=cutoff)
