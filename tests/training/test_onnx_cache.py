"""Networks of the same sizes are exported once, and a cached template is always verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.core.forecast import Candidate
from forecaster.model.export import to_onnx
from forecaster.serving import predict
from forecaster.training import onnx_cache
from tests import panels


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return panels.spec().model_copy(update={"state": str(tmp_path / "state")})


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    with panels.quickly():
        yield


@cache
def template() -> bytes:
    """Return the template of `panels.candidate()`."""
    return to_onnx.to_template(panels.candidate())


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[Candidate]:
    """Return the exported candidates; the exporter is replaced by one that always returns the same
    template."""
    candidates: list[Candidate] = []
    content = template()

    def exported(candidate: Candidate) -> bytes:
        candidates.append(candidate)
        return content

    monkeypatch.setattr(to_onnx, "to_template", exported)
    return candidates


def test_networks_of_the_same_sizes_are_exported_once_with_unchanged_forecasts(
    spec: Spec, exports: list[Candidate]
) -> None:
    first = panels.candidate()
    wider = replace(first, parameters={**first.parameters, "calibration": np.float32([[1.4, 1.0, 0.8]] * 3)})
    anchored = replace(
        first, parameters={**first.parameters, "blend": {**first.parameters["blend"], "anchor": np.float32(1)}}
    )
    window = panels.panel().window(to_onnx.LOOKBACK)
    said = []
    for candidate in (first, wider, anchored, first):
        graph = onnx_cache.graph(candidate, spec)
        [quantiles] = predict.session(graph).run(None, {name: window[name] for name in to_onnx.INPUTS})
        np.testing.assert_allclose(quantiles, to_onnx.on_arrays(candidate)(window), rtol=1e-4, atol=1e-4)
        said.append(quantiles)
    assert len(exports) == 1
    assert onnx_cache.graph(first, spec) == panels.graph()  # another process may have exported it
    assert not np.allclose(said[0], said[1])
    assert not np.allclose(said[0], said[2])
    np.testing.assert_array_equal(said[0], said[3])
    assert [file.suffix for file in spec.paths.graphs.iterdir()] == [".template"]


def test_other_sizes_or_another_program_are_exported_again(
    spec: Spec, exports: list[Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = panels.candidate()
    onnx_cache.template(first, spec)
    members = jax.tree.map(lambda x: np.concatenate([x, x]), first.parameters["members"])
    blend = {**first.parameters["blend"], "members": np.full(4, 0.25, np.float32)}
    onnx_cache.template(replace(first, parameters={**first.parameters, "members": members, "blend": blend}), spec)
    assert len(exports) == 2
    monkeypatch.setattr(onnx_cache, "_code", lambda: "another")
    onnx_cache.template(first, spec)
    assert len(exports) == 3


def test_a_damaged_template_is_exported_again(spec: Spec, exports: list[Candidate]) -> None:
    content = onnx_cache.template(panels.candidate(), spec)
    [file] = spec.paths.graphs.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], bytes([*whole[:5000], whole[5000] ^ 1, *whole[5001:]])):
        file.write_bytes(damaged)
        assert onnx_cache.template(panels.candidate(), spec) == content
        assert file.read_bytes() == whole
    assert len(exports) == 5


def test_cached_templates_contain_no_weights(spec: Spec, exports: list[Candidate]) -> None:
    candidate = panels.candidate()
    onnx_cache.graph(candidate, spec.model_copy(update={"encrypt_bundles": True}))
    assert len(exports) == 1
    [file] = spec.paths.graphs.iterdir()
    kept = file.read_bytes()
    for name, weight in to_onnx.weights(candidate).items():
        if weight.size > 3:
            assert weight.tobytes() not in kept, name
