"""The weights of a network in its ONNX graph: the graph is exported once for all networks of the
same size, and filled with the weights of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from forecaster.core.arrays import Floats
from forecaster.errors import ExportError


def named(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters by path, such as members.cells.0.dense_h.kernel."""
    leaves, _ = jax.tree.flatten_with_path(dict(parameters))
    return {".".join(str(part.key) for part in path): leaf for path, leaf in leaves}


def fill(template: bytes, weights: Mapping[str, Floats]) -> bytes:
    """Return the graph of a template with the inputs of these names replaced by their values, and
    everything that follows from these values computed: one ONNX file, checked by the ONNX checker.

    Raises ExportError if onnxruntime or the checker fails, or the template has no input of a
    weight's name.
    """
    import onnx

    from forecaster.model.export import constant_folding

    try:
        model = onnx.load_from_string(template)
        inputs = {graph_input.name: graph_input for graph_input in model.graph.input}
        if unknown := weights.keys() - inputs.keys():
            raise ExportError(f"the graph has no weights of these names: {', '.join(sorted(unknown))}")
        del model.graph.input[:]
        model.graph.input.extend(graph_input for name, graph_input in inputs.items() if name not in weights)
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(np.asarray(weight), name) for name, weight in weights.items()
        )
        folded = constant_folding.fold_constants(model)
        onnx.checker.check_model(folded, full_check=True)
    except ExportError:
        raise
    except Exception as error:  # the runtime passes on exceptions of all its parts
        raise ExportError(f"the model cannot be exported: {type(error).__name__}: {error}") from error
    content: bytes = folded.SerializeToString(deterministic=True)
    return content
