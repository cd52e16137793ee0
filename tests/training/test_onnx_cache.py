"""A model is exported once, and what was kept is never believed unseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.model.export import to_onnx
from forecaster.training import onnx_cache
from tests import panels


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return panels.spec().model_copy(update={"state": str(tmp_path / "state")})


def test_the_same_model_is_exported_once_and_another_one_anew(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    exports: list[object] = []

    def exported(candidate: object) -> bytes:
        exports.append(candidate)
        return b"graph %d" % len(exports)

    monkeypatch.setattr(to_onnx, "to_graph", exported)
    first = panels.candidate()
    other = replace(first, parameters={**first.parameters, "calibration": np.float32([[1.4, 1.0, 0.8]] * 3)})
    assert [onnx_cache.graph(model, spec) for model in (first, first, other, first, other)] == [
        b"graph 1", b"graph 1", b"graph 2", b"graph 1", b"graph 2",
    ]  # fmt: skip
    assert len(exports) == 2
    assert sorted(file.suffix for file in spec.paths.graphs.iterdir()) == [".onnx", ".onnx"]


def test_no_open_graph_is_kept_where_bundles_are_encrypted(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_onnx, "to_graph", lambda _: b"graph")
    assert onnx_cache.graph(panels.candidate(), spec.model_copy(update={"encrypt_bundles": True})) == b"graph"
    assert not spec.paths.graphs.exists()
