"""The weights of a network in its ONNX graph: the graph is exported once for all networks of a
size, and each of them fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from forecaster.core.arrays import Floats
from forecaster.errors import ExportError


def named(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters by their path: members.cells.0.dense_h.kernel."""
    leaves, _ = jax.tree.flatten_with_path(dict(parameters))
    return {".".join(str(part.key) for part in path): leaf for path, leaf in leaves}


def fill(template: bytes, weights: Mapping[str, Floats]) -> bytes:
    """The graph of a template whose inputs of these names are what is given for them, and what
    follows from that alone is computed: one ONNX file, which the ONNX checker has seen.

    Raises ExportError where onnxruntime or the checker objects, or a weight is none of the
    template's.
    """
    import onnx

    from forecaster.model.export import constant_folding

    try:
        model = onnx.load_from_string(template)
        inputs = {each.name: each for each in model.graph.input}
        if unknown := weights.keys() - inputs.keys():
            raise ExportError(f"the graph has no weights of these names: {', '.join(sorted(unknown))}")
        del model.graph.input[:]
        model.graph.input.extend(each for name, each in inputs.items() if name not in weights)
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(np.asarray(weight), name) for name, weight in weights.items()
        )
        folded = constant_folding.fold_constants(model)
        onnx.checker.check_model(folded, full_check=True)
    except ExportError:
        raise
    except Exception as error:  # the runtime raises whatever its parts raise
        raise ExportError(f"the model cannot be exported: {type(error).__name__}: {error}") from error
    content: bytes = folded.SerializeToString(deterministic=True)
    return content
