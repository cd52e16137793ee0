"""The exporter, jax2onnx, and what it is told of ours: a forward pass in, an ONNX graph without its
weights out.

It takes seconds to import, so that nobody does who has a graph already.
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
    """The forward pass as one ONNX file whose inputs are the parameters, each by its path, and then
    those of `Window` by their names, depots a dynamic axis. Only the sizes of the parameters count.

    Raises ExportError when the exporter objects.
    """
    days, ahead = LOOKBACK, LOOKBACK + shape.horizon
    array: Any = jax.ShapeDtypeStruct  # which has no types
    depots = jax.export.symbolic_shape("depots")[0]
    inputs = [
        array((depots, days), jnp.float32),
        array((depots, ahead), jnp.float32),
        array((depots, ahead, shape.covariates), jnp.float32),
        array((depots, ahead, shape.calendar), jnp.float32),
        array((depots, len(shape.labels)), jnp.int32),
    ]
    leaves, structure = jax.tree.flatten(parameters)
    names = [*onnx_weights.named(parameters), *Window._fields]

    def quantiles(*arrays: Any) -> Any:
        weights = jax.tree.unflatten(structure, arrays[: len(leaves)])
        return forward(weights, Window(*arrays[len(leaves) :]), shape, layer=onnx_gru.layer, each_member=_unrolled)

    # Says of every inner shape that it is not known; the checker and the parity check know better.
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
    except Exception as error:  # the exporter raises whatever its parts raise
        raise ExportError(f"the model cannot be exported: {type(error).__name__}: {error}") from error
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


@cache
def load_plugins() -> None:
    """Import the parts that lower JAX's own operations, and nothing else: left to itself the
    exporter imports all that it has, of which the parts for Equinox, Flax and its examples build
    models and compile them while they are imported, for ten seconds."""
    for module in pkgutil.walk_packages(of_jax.__path__, f"{of_jax.__name__}."):
        importlib.import_module(module.name)
    plugin_system._already_imported_plugins = True
    output_binding._value_is_graph_connected = _is_in_graph


_search_for_value = output_binding._value_is_graph_connected


def _is_in_graph(context: Any, value: ir.Value) -> bool:
    """True if the graph that is being made has the value, which the value itself knows. The
    exporter asks this of each result several times and searches all that it has made, which
    takes two thirds of an export."""
    graph = context.builder.graph
    if (node := value.producer()) is not None:
        return node.graph is graph or bool(_search_for_value(context, value))
    at_its_edge = value.is_graph_input() or value.is_initializer()
    return (at_its_edge and value.graph is graph) or bool(_search_for_value(context, value))


def _unrolled(member: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`jax.vmap` written out: the operator knows no batch of parameters."""

    def members_in_turn(members: Any) -> Any:
        count = len(jax.tree.leaves(members)[0])
        outputs = [member(jax.tree.map(lambda x, i=i: x[i], members)) for i in range(count)]
        return jax.tree.map(lambda *x: jnp.stack(x), *outputs)

    return members_in_turn
