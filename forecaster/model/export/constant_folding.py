"""Constant folding: compute the constant parts of an ONNX graph once, and merge duplicates."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import onnxruntime


def fold_constants(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return the same function with fewer operators, all of them onnx's own.

    Applies onnxruntime's `basic` optimizations; the result is bit-identical to what onnxruntime
    computes when it loads the original graph. Raises what onnxruntime raises.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # the exporter leaves unused constants; onnxruntime warns about each
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "graph.onnx")
        onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(options.optimized_model_filepath)
    del folded.opset_import[:]  # onnxruntime lists every domain that it knows, used or not
    folded.opset_import.extend(graph.opset_import)
    return folded
