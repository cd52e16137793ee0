"""ONNX, NumPy and JAX agree on real and on hard inputs, or nothing is published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecaster.core.forecast import Candidate
from forecaster.errors import ExportError
from forecaster.model.export import to_onnx
from forecaster.model.network.features import LOOKBACK
from forecaster.serving import bundle
from forecaster.training import parity
from tests import panels


@pytest.fixture(autouse=True)
def compiled_quickly() -> Iterator[None]:
    with panels.quickly():
        yield


def agree(jax: Candidate, numpy: Candidate | None = None) -> parity.Agreement:
    weights = bundle.npz(to_onnx.weights(numpy or jax))
    return parity.agree(jax, panels.graph(), weights, to_onnx.about(jax), panels.panel())


def other(weight: float) -> Candidate:
    """Return a candidate with another bias than that of the graph."""
    candidate = panels.candidate()
    members = dict(candidate.parameters["members"])
    members["out"] = {**members["out"], "bias": members["out"]["bias"] + np.float32(weight)}
    return replace(candidate, parameters={**candidate.parameters, "members": members})


def test_all_three_agree_on_every_case() -> None:
    agreement = agree(panels.candidate())
    assert set(agreement.cases) == {
        "real",
        "all missing",
        "all closed",
        "closed until today",
        "zeros",
        "huge counts",
        "one depot",
        "1,000 depots",
    }
    assert 0 < agreement.largest <= parity.TOLERANCE
    assert agreement.largest == max(agreement.cases.values())


def test_the_cases_match_their_names() -> None:
    real = panels.panel(5).window(LOOKBACK)
    cases: dict[str, Any] = dict(parity.cases(real, 3))
    assert np.isnan(cases["all missing"]["demand"]).all()
    assert not cases["all closed"]["open"].any()
    assert not cases["closed until today"]["open"][:, :-3].any()
    assert cases["closed until today"]["open"][:, -3:].all()
    assert not cases["zeros"]["demand"].any()
    assert np.nanmin(cases["huge counts"]["demand"]) >= 1e6
    assert {len(x) for x in cases["one depot"].values()} == {1}
    assert {len(x) for x in cases["1,000 depots"].values()} == {1000}
    for name, x in cases["1,000 depots"].items():  # JAX and NumPy compute each of them once
        np.testing.assert_array_equal(x, x[np.arange(1000) % 5], err_msg=name)
    np.testing.assert_array_equal(cases["real"]["demand"], real["demand"])


@pytest.mark.parametrize("weight", [0.05, np.nan])
def test_a_weight_changed_since_the_export_is_detected(weight: float) -> None:
    message = r"ONNX says .* where JAX says .* for depot 'D\d', \d days ahead \(real\): .* wanted at most 1e-04"
    with pytest.raises(ExportError, match=message):
        agree(other(weight))


def test_a_weight_changed_only_in_the_file_of_weights_is_detected() -> None:
    with pytest.raises(ExportError, match=r"(ONNX|JAX) says .* where NumPy says .* for depot 'D\d'"):
        agree(panels.candidate(), other(0.05))
