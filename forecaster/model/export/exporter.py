"""Export a forward pass as an ONNX graph without its weights, with jax2onnx and our extensions of
it.

The import takes seconds; callers that already have a graph avoid it.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir
from jax2onnx import to_onnx
from jax2onnx.converter import output_binding
from jax2onnx.plugins import jax as of_jax
from jax2onnx.plugins import plugin_system

from forecaster.errors import ExportError
from forecaster.model.export import onnx_gru, onnx_weights
from forecaster.model.network.encoder_decoder import Architecture, Parameters, forward
from forecaster.model.network.features import LOOKBACK, Window


def template(parameters: Parameters, shape: Architecture, *, opset: int, output: str) -> bytes:
    """Export the forward pass as one ONNX file. Its inputs are the parameters, each by its path,
    and then those of `Window` by name, with depots as a dynamic axis. Only the sizes of the
    parameters matter.

    Raises ExportError if the exporter fails.
    """
    days, window_days = LOOKBACK, LOOKBACK + shape.horizon
    array: Any = jax.ShapeDtypeStruct  # it has no types
    depots = jax.export.symbolic_shape("depots")[0]
    inputs = [
        array((depots, days), jnp.float32),
        array((depots, window_days), jnp.float32),
        array((depots, window_days, shape.covariates), jnp.float32),
        array((depots, window_days, shape.calendar), jnp.float32),
        array((depots, len(shape.labels)), jnp.int32),
    ]
    leaves, structure = jax.tree.flatten(parameters)
    names = [*onnx_weights.named(parameters), *Window._fields]

    def quantiles(*arrays: Any) -> Any:
        weights = jax.tree.unflatten(structure, arrays[: len(leaves)])
        return forward(weights, Window(*arrays[len(leaves) :]), shape, layer=onnx_gru.layer, each_member=_unrolled)

    # It warns that every inner shape is unknown; the checker and the parity check cover that.
    logging.getLogger("onnx_ir.serde").setLevel(logging.ERROR)
    try:
        load_plugins()
        proto = to_onnx(
            quantiles,
            [*(array(leaf.shape, leaf.dtype) for leaf in leaves), *inputs],
            model_name="forecaster",
            opset=opset,
            input_names=names,
            output_names=[output],
        )
    except Exception as error:  # the exporter passes on exceptions of all its parts
        raise ExportError(f"the model cannot be exported: {type(error).__name__}: {error}") from error
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


@cache
def load_plugins() -> None:
    """Import only the plugins that lower JAX's own operations. By default, the exporter imports all
    plugins; those for Equinox, Flax and its examples build and compile models during import, which
    takes ten seconds."""
    for module in pkgutil.walk_packages(of_jax.__path__, f"{of_jax.__name__}."):
        importlib.import_module(module.name)
    plugin_system._already_imported_plugins = True
    output_binding._value_is_graph_connected = _is_in_graph


_search_for_value = output_binding._value_is_graph_connected


def _is_in_graph(context: Any, value: ir.Value) -> bool:
    """Return True if the graph under construction has the value, from the value itself. The
    exporter's own check, made several times for each result, searches everything made so far, which
    takes two thirds of an export."""
    graph = context.builder.graph
    if (node := value.producer()) is not None:
        return node.graph is graph or bool(_search_for_value(context, value))
    at_its_edge = value.is_graph_input() or value.is_initializer()
    return (at_its_edge and value.graph is graph) or bool(_search_for_value(context, value))


def _unrolled(member: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Unroll `jax.vmap` over members: the operator has no batch of parameters."""

    def members_in_turn(members: Any) -> Any:
        count = len(jax.tree.leaves(members)[0])
        outputs = [member(jax.tree.map(lambda x, i=i: x[i], members)) for i in range(count)]
        return jax.tree.map(lambda *x: jnp.stack(x), *outputs)

    return members_in_turn
