"""The worked example is a single GRU, without trees."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forecaster.model.fitting import train
from tests import panels
from tests.benchmarks.worked_example import spec_of


def test_a_model_of_the_worked_example_is_one_gru_without_trees(tmp_path: Path) -> None:
    spec = spec_of("worked_example", str(tmp_path))
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"epochs": 1})})
    candidate = train.fit(panels.panel(2, horizon=spec.horizon), spec, checkpoints=tmp_path / "checkpoints")
    assert set(candidate.parameters) == {"members", "constants", "blend", "calibration"}
    np.testing.assert_array_equal(candidate.parameters["blend"]["members"], [1.0])
    assert set(candidate.parameters["blend"]) == {"members", "anchor"}
    assert set(candidate.parameters["members"]["cells"]) == {"0", "1"}
