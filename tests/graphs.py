"""Small ONNX files, made without training, and a key for signing bundles."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import TensorProto, helper

from forecaster.serving.keys import Signer


@cache
def signer(number: int = 0) -> Signer:
    """Return the same key in every test; another number gives another key."""
    return Signer(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def proto(operation: str = "Abs", domain: str = "", **more: Any) -> onnx.ModelProto:
    """Return a model that reads only `demand`, (depots, 3), and returns (depots, 3, 1)."""
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
    model = proto(operation)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def plain(factor: float, lookback: int, horizon: int) -> bytes:
    """Return a simple model for one covariate and three levels: the median of an open day is
    `factor` times the mean of the last ten days (0 if unknown), 1.3 times that if the covariate is
    1; the other levels are 0.8 and 1.25 times the median."""

    def numbers(name: str, values: list[int]) -> onnx.TensorProto:
        return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)

    def floats(name: str, *values: float) -> onnx.TensorProto:
        return helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)

    days = lookback + horizon
    shapes = {"demand": ["depots", lookback], "open": ["depots", days], "covariates": ["depots", days, 1]}
    graph = helper.make_graph(
        [
            helper.make_node("IsNaN", ["demand"], ["unknown"]),
            helper.make_node("Where", ["unknown", "nothing", "demand"], ["counts"]),
            helper.make_node("Slice", ["counts", "first", "last", "one"], ["recent"]),
            helper.make_node("ReduceMean", ["recent", "one"], ["mean"], keepdims=1),
            helper.make_node("Unsqueeze", ["mean", "two"], ["base"]),
            helper.make_node("Slice", ["covariates", "last", "end", "one"], ["ahead"]),
            helper.make_node("Mul", ["ahead", "rise"], ["risen"]),
            helper.make_node("Add", ["risen", "whole"], ["times"]),
            helper.make_node("Slice", ["open", "last", "end", "one"], ["opened"]),
            helper.make_node("Unsqueeze", ["opened", "two"], ["gate"]),
            helper.make_node("Mul", ["base", "times"], ["x"]),
            helper.make_node("Mul", ["x", "gate"], ["y"]),
            helper.make_node("Mul", ["y", "shares"], ["quantiles"]),
        ],
        "plain",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("quantiles", TensorProto.FLOAT, ["depots", horizon, 3])],
        [
            *(numbers(name, [value]) for name, value in (("first", lookback - 10), ("last", lookback), ("end", days))),
            *(numbers(name, [value]) for name, value in (("one", 1), ("two", 2))),
            floats("nothing", 0),
            floats("rise", 0.3),
            floats("whole", 1),
            floats("shares", 0.8 * factor, factor, 1.25 * factor),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
