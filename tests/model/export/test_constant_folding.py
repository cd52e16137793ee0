"""A folded graph is smaller and computes the same."""

from __future__ import annotations

import numpy as np
import onnx

from forecaster.model.export.constant_folding import fold_constants
from forecaster.serving import onnx_checks
from forecaster.serving.predict import session

TWICE = """
<ir_version: 10, opset_import: ["" : 21]>
small (float[depots, 3] demand) => (float[depots, 3] quantiles)
<float two = {2}, float three = {3}>
{
    six = Mul(two, three)
    once = Mul(demand, six)
    again = Mul(demand, six)
    quantiles = Add(once, again)
}
"""


def test_constants_are_computed_and_duplicates_are_merged() -> None:
    folded = fold_constants(onnx.parser.parse_model(TWICE))
    onnx.checker.check_model(folded, full_check=True)
    assert [node.op_type for node in folded.graph.node] == ["Mul", "Add"]
    for depots in (1, 5):
        demand = np.arange(3 * depots, dtype=np.float32).reshape(depots, 3)
        [output] = session(folded.SerializeToString()).run(None, {"demand": demand})
        np.testing.assert_array_equal(output, 12 * demand)


def test_a_folded_graph_uses_only_onnx_operators() -> None:
    folded = fold_constants(onnx.parser.parse_model(TWICE))
    assert [(opset.domain, opset.version) for opset in folded.opset_import] == [("", 21)]
    onnx_checks.inspect(folded.SerializeToString())
