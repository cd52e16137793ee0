"""The exported file gives the trained model's results, or there is no file."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime

from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.model.export import to_onnx
from forecaster.model.network import encoder_decoder
from forecaster.model.network.features import LOOKBACK
from tests import panels


def run(graph: bytes, panel: Panel, depots: int | None = None) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    used = {node.name for node in session.get_inputs()}
    return session.run(None, {name: x[:depots] for name, x in panel.window(LOOKBACK).items() if name in used})[0]


def plain_panel() -> Panel:
    return panels.panel(2, 60, covariates=(), statics={})


@cache
def plain() -> Candidate:
    """Return a candidate with one random member, without covariates and statics."""
    shape = encoder_decoder.Architecture(1, 4, panels.LEVELS, 3, 0, len(panels.CALENDAR), ())
    constants = {"mean": np.float32(4.0), "spread": np.float32(1.0), "yearly": np.float32(1)}
    constants["calendar"] = np.ones(len(panels.CALENDAR), np.float32)
    parameters = {
        "members": panels.random_members(shape, 1),
        "constants": constants,
        "blend": {"members": np.ones(1, np.float32), "anchor": np.float32(0)},
        "calibration": np.ones((3, 3), np.float32),
    }
    encoding = plain_panel().encoding
    return Candidate(parameters, shape.to_json(), encoding, panels.CALENDAR, panels.LEVELS, 3, {"seconds": 1.0})


@cache
def plain_graph() -> bytes:
    return to_onnx.to_graph(plain())


def test_onnx_and_jax_agree_for_any_number_of_depots() -> None:
    panel = panels.panel(200)
    expected = to_onnx.forecaster(panels.candidate())(panel).quantiles
    for depots in (1, 3, 200):
        actual = run(panels.graph(), panel, depots)
        assert actual.shape == (depots, 3, 3)
        np.testing.assert_allclose(actual, expected[:depots], rtol=1e-4)


def test_gaps_and_closed_days_work_after_the_export() -> None:
    panel = panels.panel()
    demand, open_ = np.array(panel.demand), np.array(panel.open)
    demand[0, ::3], demand[1], open_[2, -2] = np.nan, np.nan, False
    odd = replace(panel, demand=demand, open=open_)
    expected = to_onnx.on_arrays(panels.candidate())(odd.window(LOOKBACK))
    assert not expected[2, 1].any()
    np.testing.assert_allclose(run(panels.graph(), odd), expected, rtol=1e-4)


def test_the_graph_has_named_inputs_and_a_dynamic_number_of_depots() -> None:
    graph = onnx.load_model_from_string(panels.graph()).graph
    shapes = {
        node.name: [size.dim_param or size.dim_value for size in node.type.tensor_type.shape.dim]
        for node in graph.input
    }
    depots = shapes["demand"][0]
    assert isinstance(depots, str)
    ahead = LOOKBACK + 3
    assert shapes == {
        "demand": [depots, LOOKBACK],
        "open": [depots, ahead],
        "covariates": [depots, ahead, 1],
        "calendar": [depots, ahead, 6],
        "statics": [depots, 2],
    }
    assert [node.name for node in graph.output] == ["quantiles"]


def test_the_same_candidate_gives_the_same_bytes() -> None:
    assert to_onnx.to_graph(plain()) == plain_graph()


def test_a_pipeline_without_covariates_and_statics_exports_as_well() -> None:
    np.testing.assert_allclose(
        run(plain_graph(), plain_panel()), to_onnx.forecaster(plain())(plain_panel()).quantiles, rtol=1e-4
    )


def test_weights_are_named_by_their_path() -> None:
    weights = to_onnx.weights(panels.candidate())
    assert weights["members.cells.0.dense_h.kernel"].shape == (2, 8, 24)
    assert weights["constants.mean"].shape == ()
    assert {"calibration", "members.embeddings.1.embedding", "members.out.bias"} <= set(weights)
    total = sum(leaf.size for leaf in jax.tree.leaves(dict(panels.candidate().parameters)))
    assert sum(array.size for array in weights.values()) == total


def test_a_manifest_is_the_same_for_equal_trainings() -> None:
    candidate = panels.candidate()
    slower = replace(
        candidate, summary={**candidate.summary, "seconds": 9e9, "compile_misses": 77, "depot_days_a_second": 0.1}
    )
    assert to_onnx.about(candidate) == to_onnx.about(slower)
    about = to_onnx.about(candidate)
    assert about["inputs"] == ["demand", "open", "covariates", "calendar", "statics"]
    assert about["lookback"] == LOOKBACK
    assert about["training"]["epochs"] == 20


def test_quantiles_reversed_by_calibration_are_sorted_as_in_serving() -> None:
    shape = encoder_decoder.Architecture(1, 4, (0.1, 0.4, 0.5, 0.6, 0.9), 3, 0, len(panels.CALENDAR), ())
    factors = np.float32([[0.3, 5.0, 1.0, 5.0, 0.3]] * 3)
    parameters = {**plain().parameters, "members": panels.random_members(shape, 1), "calibration": factors}
    odd = replace(plain(), parameters=parameters, architecture=shape.to_json(), levels=shape.levels)
    quantiles = to_onnx.forecaster(odd)(plain_panel()).quantiles
    assert (np.diff(quantiles, axis=-1) >= 0).all()
