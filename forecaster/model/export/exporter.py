"""The exporter, jax2onnx, and what it is told of ours: a forward pass in, an ONNX graph out.

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
import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx import to_onnx
from jax2onnx.converter import output_binding
from jax2onnx.plugins import jax as of_jax
from jax2onnx.plugins import plugin_system

from forecaster.errors import ExportError
from forecaster.model.export import constant_folding, onnx_gru
from forecaster.model.network.encoder_decoder import Architecture, Parameters, forward
from forecaster.model.network.features import LOOKBACK, Window


def graph(parameters: Parameters, shape: Architecture, *, opset: int, output: str) -> bytes:
    """The forward pass of these parameters as one ONNX file; inputs by the names of `Window`, depots a dynamic axis.

    Raises ExportError when the exporter, onnxruntime or the ONNX checker objects.
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

    def quantiles(*arrays: Any) -> Any:
        return forward(parameters, Window(*arrays), shape, layer=onnx_gru.layer, each_member=_unrolled)

    # Says of every inner shape that it is not known; the checker below and the parity check know better.
    logging.getLogger("onnx_ir.serde").setLevel(logging.ERROR)
    try:
        load_plugins()
        proto = to_onnx(
            quantiles,
            inputs,
            model_name="forecaster",
            opset=opset,
            input_names=list(Window._fields),
            output_names=[output],
        )
        proto = constant_folding.fold_constants(proto)
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # exporter and runtime raise whatever their parts raise
        raise ExportError(f"the model cannot be exported: {type(error).__name__}: {error}") from error
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


@cache
def load_plugins() -> None:
    """What lowers JAX's own operations, and nothing else: left to itself the exporter imports all that it has, of which
    the parts for Equinox, Flax and its examples build models and compile them while they are imported, for ten seconds.
    """
    for module in pkgutil.walk_packages(of_jax.__path__, f"{of_jax.__name__}."):
        importlib.import_module(module.name)
    plugin_system._already_imported_plugins = True
    output_binding._value_is_graph_connected = _is_in_graph


_search_for_value = output_binding._value_is_graph_connected


def _is_in_graph(context: Any, value: ir.Value) -> bool:
    """Whether the graph that is being made has the value, which the value itself knows. The exporter asks this of each
    result several times and searches all that it has made, which takes two thirds of an export."""
    graph = context.builder.graph
    if (node := value.producer()) is not None:
        return node.graph is graph or bool(_search_for_value(context, value))
    at_its_edge = value.is_graph_input() or value.is_initializer()
    return (at_its_edge and value.graph is graph) or bool(_search_for_value(context, value))


def _unrolled(member: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`jax.vmap` written out: the operator knows no batch of parameters."""

    def members_in_turn(members: Any) -> Any:
        count = len(jax.tree.leaves(members)[0])
        outputs = []
        for i in range(count):
            with jax.ensure_compile_time_eval():  # so that taking one of them is not a node of the graph
                parameters = jax.tree.map(lambda x, i=i: jnp.asarray(np.asarray(x)[i]), members)
            outputs.append(member(parameters))
        return jax.tree.map(lambda *x: jnp.stack(x), *outputs)

    return members_in_turn
