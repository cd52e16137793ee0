"""Hyperparameters of a training, chosen by the panel's size: steps, batch, members, learning-rate
schedule, regularization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Spec

# days of a crop that have origins, at most: steps on short crops are cheap and can be more numerous
LONGEST_SPAN = 43
# days between origins: the decoder costs most, and this way each day of a crop is forecast from one
# origin
STRIDE = 7
LEAST_STEPS = 6  # gradient steps per epoch, even with few data
WEIGHT_DECAY = 1e-2
EPOCHS = 30
# 60 depots over one and a half years, the reference of `Preset.steps`
REFERENCE_DEPOT_DAYS = 33_000
LEAST_FACTOR, MOST_FACTOR = 1.0, 4.5  # bounds of the factor on `Preset.steps`
# crops per step: small batches learn small data as well, in a fraction of the time
SMALL_BATCH, LARGE_BATCH = 16, 64
LARGE_BATCH_FROM = 2.0  # multiple of `REFERENCE_DEPOT_DAYS` above which batches are large
# factor on the learning rate of a training that starts from the prior, which is closer to the
# optimum
WARM_RATE = 1 / 3
LEAST_BATCH = 8  # fewest crops per step if there are fewer depots


@dataclass(frozen=True)
class Preset:
    """Effort of a training."""

    steps: int  # for `REFERENCE_DEPOT_DAYS`
    members: int  # even, so that two cores share them evenly


PRESETS = {"quick": Preset(300, 2), "nightly": Preset(2000, 2), "best": Preset(6000, 6)}


@dataclass(frozen=True)
class Restraint:
    """Regularization of one member: keeps it from learning the dates by heart."""

    dropout: float
    weight_decay: float


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of one training; with the data, their digest identifies its checkpoints."""

    hidden: int
    batch: int  # crops per step
    epochs: int
    steps: int  # per epoch
    origins: int  # number of days of a crop from which it forecasts
    stride: int  # days between them
    learning_rate: float  # highest
    constant: bool  # the learning rate does not decay
    whole: bool  # crops are whole histories
    restraints: tuple[Restraint, ...]  # one per member

    def rates(self) -> NDArray[np.float32]:
        """Learning-rate schedule, one rate per step, (epochs, steps): a short linear warm-up, then
        a cosine decay to a fiftieth (cosine annealing, Loshchilov & Hutter 2017, arXiv:1608.03983,
        without restarts)."""
        total = self.epochs * self.steps
        if self.constant:
            return np.full((self.epochs, self.steps), self.learning_rate, np.float32)
        warm = max(1, total // 20)
        number = np.arange(1, total + 1)
        progress = np.clip((number - warm) / max(1, total - warm), 0, 1)
        falling = 0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * progress))
        rates = self.learning_rate * np.where(number <= warm, number / warm, falling)
        return rates.reshape(self.epochs, self.steps).astype(np.float32)


def choose_recipe(spec: Spec, depots: int, days: int, devices: int = 1) -> Recipe:
    """Choose the hyperparameters for `depots` depots over `days` days of training history.

    Values of the pipeline file are used as they are. Others follow rules: steps grow with the data,
    within bounds, and so does a batch, which is distributed evenly over the devices; the number of
    members is the preset's.
    """
    training, preset = spec.training, PRESETS[spec.training.preset]
    whole_history = training.history == "whole"
    origins = (int(np.clip(days - spec.horizon - 14, 7, None if whole_history else LONGEST_SPAN)) - 1) // STRIDE + 1
    size, most = depots * days / REFERENCE_DEPOT_DAYS, max(LEAST_BATCH, depots)
    crops = training.batch_depots or (LARGE_BATCH if size > LARGE_BATCH_FROM else min(SMALL_BATCH, most))
    batch = -(-(min(crops, most) if whole_history else crops) // devices) * devices
    if training.epochs is None:
        epochs = EPOCHS
        steps = max(LEAST_STEPS, round(preset.steps * float(np.clip(size, LEAST_FACTOR, MOST_FACTOR)) / epochs))
    elif whole_history:
        epochs, steps = training.epochs, -(-depots // batch)
    else:
        epochs, steps = training.epochs, max(LEAST_STEPS, round(depots * days / (batch * origins * STRIDE)))
    return Recipe(
        hidden=spec.model.hidden,
        batch=batch,
        epochs=epochs,
        steps=steps,
        origins=origins,
        stride=STRIDE,
        learning_rate=training.learning_rate * (WARM_RATE if training.start == "prior" else 1.0),
        constant=training.schedule == "constant",
        whole=whole_history,
        restraints=(Restraint(spec.model.dropout, WEIGHT_DECAY),) * (training.members or preset.members),
    )
