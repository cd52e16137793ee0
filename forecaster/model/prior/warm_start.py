"""Warm start: initialize a training's parameters from the prior's, input by input.

The prior's rows are assigned by the names of the inputs (its features, the calendar's, covariates).
An input that only the pipeline has, such as its own covariates and static attributes, starts at
zero: the network begins as the prior itself, and learns the value of the input. `size` is measured
relative to other counts than the prior's; its row and the bias compensate, so that what the prior
learned about busy and quiet depots stays valid in orders per day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from forecaster.core.forecast import Prior
from forecaster.core.panel import Panel
from forecaster.errors import TrainingError
from forecaster.model.network import features
from forecaster.model.network.encoder_decoder import Architecture

Kernel = NDArray[np.float32]  # (members, inputs, units)


def parameters(
    fresh: Mapping[str, Any], prior: Prior, panel: Panel, shape: Architecture, constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the members' first parameters: `fresh` ones (members first), replaced by the prior's
    where it has them.

    If there are more members than the prior has, its members are repeated. Days of the horizon
    beyond the prior's start as its last one; quantile levels start as the prior's if all of them
    are equal, else only the median does. Raises TrainingError if the network has another width or
    depth than the prior.
    """
    old = prior.model
    for name, expected in (("layers", old.architecture["layers"]), ("hidden", old.architecture["hidden"])):
        if (actual := getattr(shape, name)) != expected:
            raise TrainingError(
                f"model.{name} is {actual}, the prior's is {expected}: set model.{name}: {expected}, or "
                "training.start: fresh"
            )
    tree: dict[str, Any] = jax.tree.map(np.array, dict(fresh))
    members = len(tree["out"]["bias"])
    learned = jax.tree.map(lambda x: _for_members(np.asarray(x, np.float32), members), dict(old.parameters["members"]))

    covariates, calendar = panel.encoding.covariates, panel.calendar_names
    old_covariates, old_calendar = old.encoding.covariates, old.calendar_names
    encoder, old_encoder = features.encoder_inputs(covariates), features.encoder_inputs(old_covariates)
    for number, cell in learned["cells"].items():
        kernel = cell["dense_i"]["kernel"]
        if number == "0":
            bias = cell["dense_i"]["bias"] + _moved(kernel, old_encoder, old.parameters["constants"], constants)
            kernel = _resized(kernel, old_encoder, old.parameters["constants"], constants)
            kernel = _by_name(tree["cells"]["0"]["dense_i"]["kernel"], encoder, kernel, old_encoder)
            cell = {**cell, "dense_i": {"kernel": kernel, "bias": bias}}
        tree["cells"][number] = cell
    tree["day"]["kernel"] = _by_name(
        tree["day"]["kernel"],
        features.decoder_inputs(covariates, calendar),
        learned["day"]["kernel"],
        features.decoder_inputs(old_covariates, old_calendar),
    )
    steps = np.minimum(np.arange(shape.horizon), old.horizon - 1)
    tree["step"]["embedding"] = learned["step"]["embedding"][:, steps]
    tree["state"], tree["mix"] = learned["state"], learned["mix"]
    if shape.levels == tuple(old.levels):
        tree["out"] = learned["out"]
    else:
        for name, value in tree["out"].items():
            value[..., shape.median] = learned["out"][name][..., old.levels.index(0.5)]
    return tree


def _for_members(x: NDArray[np.float32], members: int) -> NDArray[np.float32]:
    return x[np.arange(members) % len(x)]


def _by_name(fresh: Kernel, names: Sequence[str], kernel: Kernel, old_names: Sequence[str]) -> Kernel:
    """Return the rows of `kernel` by the names of the inputs; zeros for inputs that it does not
    know, the statics last."""
    rows = np.zeros_like(fresh)
    place = {name: row for row, name in enumerate(old_names)}
    for row, name in enumerate(names):
        if name in place:
            rows[:, row] = kernel[:, place[name]]
    return rows


def _moved(kernel: Kernel, names: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> NDArray[np.float32]:
    """Change of the bias for a mean log count that differs from the prior's, (members, units)."""
    by = (float(new["mean"]) - float(old["mean"])) / float(old["spread"])
    return np.asarray(np.float32(by) * kernel[:, names.index("size")])


def _resized(kernel: Kernel, names: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> Kernel:
    """Rescale the kernel of `size` for a spread of log counts that differs from the prior's."""
    resized = kernel.copy()
    resized[:, names.index("size")] *= np.float32(float(new["spread"]) / float(old["spread"]))
    return resized
