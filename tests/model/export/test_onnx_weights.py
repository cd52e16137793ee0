"""Weights that are filled into a graph become constants in it, and nothing else changes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from forecaster.errors import ExportError
from forecaster.model.export import onnx_weights
from forecaster.serving.predict import session

TEMPLATE = onnx.parser.parse_model(
    """
<ir_version: 10, opset_import: ["" : 21]>
small (float[2] scale_a, float[2] scale_b, float[depots, 2] demand) => (float[depots, 2] quantiles)
{
    scale = Mul(scale_a, scale_b)
    quantiles = Mul(demand, scale)
}
"""
).SerializeToString()


def test_values_that_depend_only_on_weights_are_computed_once() -> None:
    graph = onnx_weights.fill(TEMPLATE, {"scale_a": np.float32([2, 3]), "scale_b": np.float32([5, 7])})
    model = onnx.load_from_string(graph)
    assert [node.op_type for node in model.graph.node] == ["Mul"]
    assert [each.name for each in model.graph.input] == ["demand"]
    [quantiles] = session(graph).run(None, {"demand": np.ones((3, 2), np.float32)})
    np.testing.assert_array_equal(quantiles, [[10, 21]] * 3)


def test_parameters_are_named_by_their_path() -> None:
    assert onnx_weights.named({"members": {"out": {"bias": 1}}, "calibration": 2}) == {
        "calibration": 2,
        "members.out.bias": 1,
    }


def test_an_unknown_weight_or_one_of_another_size_is_rejected() -> None:
    whole = {"scale_a": np.ones(2, np.float32), "scale_b": np.ones(2, np.float32)}
    with pytest.raises(ExportError, match=r"the graph has no weights of these names: bias, trees$"):
        onnx_weights.fill(TEMPLATE, {**whole, "trees": np.ones(1), "bias": np.ones(1)})
    with pytest.raises(ExportError, match="the model cannot be exported: "):
        onnx_weights.fill(TEMPLATE, {**whole, "scale_b": np.ones(3, np.float32)})
    with pytest.raises(ExportError, match="the model cannot be exported: "):
        onnx_weights.fill(b"no graph", whole)
