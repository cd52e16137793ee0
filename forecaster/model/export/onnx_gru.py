"""The GRU as ONNX's own GRU operator, for the exporter.

As a Loop over days, the same layer has a dozen nodes per day, each with its own overhead. One layer
of 32 over 112 days, Loop against operator, on two cores: 3.1 and 0.13 ms for one depot, 11 and 7.7
ms for 64, 98 and 144 ms for 1,000, 1.02 and 0.97 s for 10,000 (`make bench-serving`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax2onnx.plugins.plugin_system import PrimitiveLeafPlugin, register_primitive
from jaxtyping import Float

_GRU = Primitive("forecaster_gru")


def layer(
    kernel_i: Float[Array, "inputs gates"],
    bias_i: Float[Array, " gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
    always: Float[Array, "depots unchanging"] | None = None,
) -> Float[Array, "days depots hidden"]:
    """Stand in for `gru.layer` in the exporter: it has a shape and no arithmetic, and only the
    exporter can use it.

    The operator has one bias for all depots, so static inputs of a depot are read again each day.
    """
    if always is not None:
        x = jnp.concatenate([x, jnp.broadcast_to(always[None], (*x.shape[:2], always.shape[-1]))], axis=-1)
    w, r = (_onnx_gate_order(kernel.T) for kernel in (kernel_i, kernel_h))
    b = jnp.concatenate([_onnx_gate_order(bias_i), jnp.zeros_like(bias_i)])
    states: Array = _GRU.bind(x, w[None], r[None], b[None])  # type: ignore[no-untyped-call]
    return jnp.squeeze(states, 1)


def _onnx_gate_order(gates: Array) -> Array:
    """Reorder the gates along the first axis for ONNX: z, r, n instead of r, z, n."""
    r, z, n = jnp.split(gates, 3)
    return jnp.concatenate([z, r, n])


def _shape(x: Any, w: Any, r: Any, b: Any) -> ShapedArray:
    days, depots, _ = x.shape
    return ShapedArray((days, 1, depots, r.shape[2]), x.dtype)


_GRU.def_abstract_eval(_shape)  # type: ignore[no-untyped-call]


@register_primitive(jaxpr_primitive=_GRU.name)
class _Operator(PrimitiveLeafPlugin):  # type: ignore[misc]  # jax2onnx has no types here
    def lower(self, context: Any, equation: Any) -> None:
        """Add one node (https://onnx.ai/onnx/operators/onnx__GRU.html); with `linear_before_reset`
        it is the cell of `gru`."""
        [states] = equation.outvars
        expected = context.get_value_for_var(states)
        node = context.builder.GRU(
            *(context.get_value_for_var(variable) for variable in equation.invars),
            hidden_size=int(equation.invars[2].aval.shape[2]),
            linear_before_reset=1,
            _outputs=[expected.name],
        )
        node.type, node.shape = expected.type, expected.shape
        context.bind_value_for_var(states, node)
