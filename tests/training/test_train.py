"""Training in a child process: the return of the model, and the cache that makes a training
unnecessary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.model.export import serialization
from forecaster.training import train
from tests.panels import candidate, panel, quickly, spec


def test_a_candidate_is_serialized_completely() -> None:
    unpacked, original = serialization.from_bytes(serialization.to_bytes(candidate())), candidate()
    assert unpacked.summary == original.summary
    assert (unpacked.encoding, unpacked.levels, unpacked.calendar_names) == (
        original.encoding,
        original.levels,
        original.calendar_names,
    )
    assert serialization.to_bytes(unpacked) == serialization.to_bytes(original)


def test_a_trained_model_is_cached_and_a_damaged_copy_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, panel_, trainings = spec().model_copy(update={"state": str(tmp_path)}), panel(), []

    fresh = candidate()
    spent = {"seconds": 9.0, "compile_seconds": 8.0, "compile_misses": 7, "measured": [{"compile_hits": 6}]}
    fresh = replace(fresh, summary={**fresh.summary, "history": [{"loss": 0.1}], **spent})

    def child(*_: object) -> bytes:
        trainings.append(1)
        return serialization.to_bytes(fresh)

    monkeypatch.setattr(train, "_run_child", child)
    (tmp_path / "checkpoints").mkdir()
    with quickly():
        candidates = [train.fit_in_child_process(panel_, pipeline, tmp_path / "pipeline.yaml") for _ in range(2)]
        assert (len(trainings), train.is_cached(panel_, pipeline)) == (1, True)
        assert spent.items() <= candidates[0].summary.items()
        remembered = candidates[1].summary  # it took no time, and compiled nothing
        assert (remembered["measured"], remembered["history"]) == ([{"compile_hits": 0}], [{"loss": 0.1}])
        assert [remembered[name] for name in ("seconds", "compile_seconds", "compile_misses")] == [0, 0, 0]
        [cache] = (tmp_path / "checkpoints").iterdir()
        cache.write_bytes(cache.read_bytes()[:-200])
        candidates.append(train.fit_in_child_process(panel_, pipeline, tmp_path / "pipeline.yaml"))
    assert len(trainings) == 2
    for fitted in candidates:
        np.testing.assert_array_equal(fitted.parameters["calibration"], candidates[0].parameters["calibration"])


def test_a_cached_model_with_another_start_is_not_used() -> None:
    fresh = spec()
    warm = fresh.model_copy(update={"training": fresh.training.model_copy(update={"start": "prior"})})
    paths = [train.cached_model_path(b"panel", pipeline).name for pipeline in (fresh, warm)]
    assert paths[0] != paths[1]
    assert repr(warm.training) == repr(fresh.training)  # it identifies models cached before the option existed


def test_a_cached_model_with_other_report_errors_is_not_used() -> None:
    plain = spec()
    paths = [train.cached_model_path(b"panel", plain.with_lead_error(errors)) for errors in ({}, {"promo": 1.0})]
    assert paths[0] == train.cached_model_path(b"panel", plain) != paths[1]


def test_the_training_process_gets_the_errors_of_reports() -> None:
    told = train._options(["pipeline.yaml", "--lead-error", '{"rain": [1.0, 1.5], "heat": 2.0}'])
    assert spec().with_lead_error(told.lead_error).calendar.lead_error == {"rain": (1.0, 1.5), "heat": 2.0}
    assert train._options(["pipeline.yaml"]).lead_error == {}
