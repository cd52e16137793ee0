"""The untrained candidate is the prior: if a panel has no other inputs, both forecast the same."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from forecaster.core.forecast import Prior
from forecaster.errors import TrainingError
from forecaster.model.export import to_onnx
from forecaster.model.network.features import LOOKBACK
from forecaster.model.prior import untrained
from tests import panels


@pytest.fixture(scope="module")
def prior() -> Prior:
    return Prior(panels.candidate(), "digest")


def test_with_the_inputs_of_the_prior_it_forecasts_the_same(prior: Prior) -> None:
    panel, old = panels.panel(), prior.model
    candidate = untrained.candidate(panel, panels.spec(), prior)
    with panels.quickly():
        now = to_onnx.on_arrays(candidate)(panel.window(LOOKBACK))
        constants = {**old.parameters["constants"]} | {
            name: candidate.parameters["constants"][name] for name in ("yearly", "calendar")
        }
        blank = jax.tree.map(np.zeros_like, old.parameters["members"]["embeddings"])  # they belong to its own depots
        members = {**old.parameters["members"], "embeddings": blank}
        uncalibrated = {
            **old.parameters,
            "members": members,
            "constants": constants,
            "calibration": candidate.parameters["calibration"],
        }
        then = to_onnx.on_arrays(replace(old, parameters=uncalibrated))(panel.window(LOOKBACK))
    np.testing.assert_allclose(now, then, rtol=1e-3, atol=1e-2)
    assert candidate.summary["prior"] == "digest"
    assert candidate.horizon == panel.horizon


def test_a_network_of_another_width_is_rejected(prior: Prior) -> None:
    spec = panels.spec()
    wide = spec.model_copy(update={"model": spec.model.model_copy(update={"hidden": 16})})
    with pytest.raises(TrainingError, match=r"model.hidden is 16, the prior's is 8"):
        untrained.candidate(panels.panel(), wide, prior)
