"""Training in a process of its own: how the model comes back, and when it need not be trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forecaster.model.export import serialization
from forecaster.training import train
from tests.panels import candidate, panel, quickly, spec


def test_a_candidate_travels_whole() -> None:
    came, given = serialization.from_bytes(serialization.to_bytes(candidate())), candidate()
    assert came.summary == given.summary
    assert (came.encoding, came.levels, came.calendar_names) == (given.encoding, given.levels, given.calendar_names)
    assert serialization.to_bytes(came) == serialization.to_bytes(given)


def test_what_was_trained_is_kept_and_a_damaged_copy_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, panel_, trainings = spec().model_copy(update={"state": str(tmp_path)}), panel(), []

    def here(*_: object) -> bytes:
        trainings.append(1)
        return serialization.to_bytes(candidate())

    monkeypatch.setattr(train, "_run_child", here)
    (tmp_path / "checkpoints").mkdir()
    with quickly():
        found = [train.fit_in_child_process(panel_, told, tmp_path / "pipeline.yaml") for _ in range(2)]
        assert (len(trainings), train.is_cached(panel_, told)) == (1, True)
        [kept] = (tmp_path / "checkpoints").iterdir()
        kept.write_bytes(kept.read_bytes()[:-200])
        found.append(train.fit_in_child_process(panel_, told, tmp_path / "pipeline.yaml"))
    assert len(trainings) == 2
    for each in found:
        np.testing.assert_array_equal(each.parameters["calibration"], found[0].parameters["calibration"])
