"""Hyperparameters of a training: steps, batch, members, learning-rate schedule, regularization, by
the panel's size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Spec

# Days of a crop on which origins lie, at most: steps on short crops are cheap, so that there may be
# more.
LONGEST_SPAN = 43
# days between origins: the decoder costs most, and each day of a crop is then forecast from one
# origin
STRIDE = 7
LEAST_STEPS = 6  # gradient steps an epoch, however few the data
WEIGHT_DECAY = 1e-2
EPOCHS = 30
# depot-days of 60 depots and one and a half years, to which `Preset.steps` belong
REFERENCE_DEPOT_DAYS = 33_000
LEAST_FACTOR, MOST_FACTOR = 1.0, 4.5  # times `Preset.steps`
# crops a step: little data are learned as well from few, in a fraction of the time,
SMALL_BATCH, LARGE_BATCH = 16, 64
LARGE_BATCH_FROM = 2.0  # and more than so many times `REFERENCE_DEPOT_DAYS` are not
# times the learning rate, where a training begins from the prior: it has less far to go
WARM_RATE = 1 / 3
LEAST_BATCH = 8  # crops that each step takes, at least, where the depots are fewer


@dataclass(frozen=True)
class Preset:
    """Effort of a training."""

    steps: int  # for `REFERENCE_DEPOT_DAYS`
    members: int  # an even number, which two cores share evenly


PRESETS = {"quick": Preset(300, 2), "nightly": Preset(2000, 2), "best": Preset(6000, 6)}


@dataclass(frozen=True)
class Restraint:
    """Regularization of one member: what keeps it from learning the dates by heart."""

    dropout: float
    weight_decay: float


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of one training, next to the data; its digest names the checkpoints that
    belong to it."""

    hidden: int
    batch: int  # crops a step
    epochs: int
    steps: int  # an epoch
    origins: int  # days of a crop from which it forecasts
    stride: int  # days between them
    learning_rate: float  # highest
    constant: bool  # the learning rate does not fall
    whole: bool  # crops are whole histories
    restraints: tuple[Restraint, ...]  # a member each

    def rates(self) -> NDArray[np.float32]:
        """Learning-rate schedule, a rate for each step, (epochs, steps): a short linear warm-up,
        then a cosine down to a fiftieth (cosine annealing, Loshchilov & Hutter 2017,
        arXiv:1608.03983, without restarts)."""
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
    """Hyperparameters for `depots` depots over `days` days of history to learn from.

    What the pipeline file says is done. What it leaves out is by rule: steps grow with the data,
    within bounds, and so does a batch, which is dealt evenly over the devices; members are the
    preset's.
    """
    training, preset = spec.training, PRESETS[spec.training.preset]
    whole = training.history == "whole"
    origins = (int(np.clip(days - spec.horizon - 14, 7, None if whole else LONGEST_SPAN)) - 1) // STRIDE + 1
    size, most = depots * days / REFERENCE_DEPOT_DAYS, max(LEAST_BATCH, depots)
    crops = training.batch_depots or (LARGE_BATCH if size > LARGE_BATCH_FROM else min(SMALL_BATCH, most))
    batch = -(-(min(crops, most) if whole else crops) // devices) * devices
    if training.epochs is None:
        epochs = EPOCHS
        steps = max(LEAST_STEPS, round(preset.steps * float(np.clip(size, LEAST_FACTOR, MOST_FACTOR)) / epochs))
    elif whole:
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
        whole=whole,
        restraints=(Restraint(spec.model.dropout, WEIGHT_DECAY),) * (training.members or preset.members),
    )
