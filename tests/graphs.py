"""Small ONNX files, made without any training, and a key to sign bundles with."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import TensorProto, helper

from forecaster.serving.keys import Signer


@cache
def signer(number: int = 0) -> Signer:
    """The same key in every test; another number is another one."""
    return Signer(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def proto(operation: str = "Abs", domain: str = "", **more: Any) -> onnx.ModelProto:
    """Reads `demand` alone, (depots, 3), and answers with (depots, 3, 1)."""
    three = helper.make_tensor("three", TensorProto.INT64, [3], [0, 3, 1])
    graph = helper.make_graph(
        [
            helper.make_node(operation, ["demand"], ["x"], domain=domain),
            helper.make_node("Reshape", ["x", "three"], ["quantiles"]),
        ],
        "small",
        [helper.make_tensor_value_info("demand", TensorProto.FLOAT, ["depots", 3])],
        [helper.make_tensor_value_info("quantiles", TensorProto.FLOAT, ["depots", 3, 1])],
        [three],
    )
    domains = [helper.make_opsetid("", 21), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=domains, ir_version=10, **more)


def small(operation: str = "Abs") -> bytes:
    made = proto(operation)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())
