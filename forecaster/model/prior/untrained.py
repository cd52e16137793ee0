"""Untrained candidate: the unchanged prior in the shape of a pipeline's network, without a step of
training.

Inputs that the prior does not know, such as a pipeline's own covariates and static attributes, have
no effect (`warm_start`). As in a training, the level of the counts and the number of their years
are measured on the panel.
"""

from __future__ import annotations

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Prior
from forecaster.core.panel import Panel
from forecaster.model.fitting import train
from forecaster.model.network.encoder_decoder import FIRST_STEP
from forecaster.model.prior import store, warm_start


def candidate(panel: Panel, spec: Spec, prior: Prior | None = None) -> Candidate:
    """Return the prior, by default the package's own, for the depots of a panel and its data up to
    its cutoff.

    Not calibrated. Raises TrainingError if the network has another width or depth than the prior or
    the prior's file is damaged, NoUsableData if nothing was observed.
    """
    prior = prior or store.load()
    shape, learned = train.architecture(panel, spec), prior.model.parameters
    blend = {name: np.asarray(value, np.float32) for name, value in learned["blend"].items()}
    members = len(blend["members"])
    blank = train.blank_members(shape, members)
    blank["out"]["bias"] += np.where(np.arange(len(shape.levels)) == shape.median, 0.0, FIRST_STEP).astype(np.float32)
    constants = {name: np.asarray(value) for name, value in train.constants(panel, panel.history).items()}
    return train.uncalibrated(
        panel,
        shape,
        warm_start.parameters(blank, prior, panel, shape, constants),
        constants,
        {"blend": blend},
        summary={"prior": prior.digest, "members": members, "epochs": 0, "depots": len(panel.depot_ids)},
    )
