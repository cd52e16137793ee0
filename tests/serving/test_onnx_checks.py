"""An ONNX file without external data and foreign operators passes; any other is rejected before a
runtime loads it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import onnx
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from forecaster.errors import BundleError
from forecaster.serving import onnx_checks
from tests import panels
from tests.graphs import proto, small

FOREIGN = "com.example"


def external() -> onnx.TensorProto:
    tensor = helper.make_tensor("weights", TensorProto.FLOAT, [1], [0.0])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return tensor


def foreign() -> onnx.NodeProto:
    return helper.make_node("Shell", ["demand"], ["y"], domain=FOREIGN)


def subgraph(*nodes: onnx.NodeProto, tensors: tuple[onnx.TensorProto, ...] = ()) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "inside", [], [], list(tensors))


def inside_an_if(inner: onnx.GraphProto, times: int = 1) -> onnx.ModelProto:
    for _ in range(times):
        inner = subgraph(helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=subgraph()))
    model = proto()
    model.graph.node.extend(inner.node)
    return model


def test_exported_models_pass() -> None:
    onnx_checks.inspect(panels.graph())
    onnx_checks.inspect(small())


def in_an_initializer() -> onnx.ModelProto:
    model = proto()
    model.graph.initializer.append(external())
    return model


def in_a_sparse_initializer() -> onnx.ModelProto:
    model = proto()
    model.graph.sparse_initializer.add().values.CopyFrom(external())
    return model


def in_an_attribute() -> onnx.ModelProto:
    model = proto()
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=external()))
    return model


def in_an_attribute_of_several() -> onnx.ModelProto:
    model = proto()
    model.graph.node[0].attribute.add(name="several", type=onnx.AttributeProto.TENSORS).tensors.append(external())
    return model


def in_a_subgraph() -> onnx.ModelProto:
    return inside_an_if(subgraph(tensors=(external(),)), times=3)


def in_a_function() -> onnx.ModelProto:
    constant = helper.make_node("Constant", [], ["c"], value=external())
    return proto(functions=[helper.make_function("", "f", [], ["c"], [constant], [helper.make_opsetid("", 21)])])


def in_what_trains() -> onnx.ModelProto:
    model = proto()
    model.training_info.add().algorithm.initializer.append(external())
    return model


def that_is_only_named() -> onnx.ModelProto:
    model = proto()
    model.graph.initializer[0].external_data.add(key="location", value="weights.bin")
    return model


@pytest.mark.parametrize(
    "hidden",
    [
        in_an_initializer,
        in_a_sparse_initializer,
        in_an_attribute,
        in_an_attribute_of_several,
        in_a_subgraph,
        in_a_function,
        in_what_trains,
        that_is_only_named,
    ],
)
def test_external_data_are_found_everywhere(hidden: object) -> None:
    assert callable(hidden)
    with pytest.raises(BundleError, match="a tensor's data lie in another file"):
        onnx_checks.inspect(hidden().SerializeToString())


def test_an_operator_of_a_foreign_domain_is_named() -> None:
    with_operator = proto()
    with_operator.graph.node.append(foreign())
    for model in (with_operator, inside_an_if(subgraph(foreign()), times=2)):
        with pytest.raises(BundleError, match=rf"an operator of the domain '{re.escape(FOREIGN)}', wanted only"):
            onnx_checks.inspect(model.SerializeToString())


def test_an_operator_set_and_a_function_of_a_foreign_domain_are_named() -> None:
    model = proto()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(BundleError, match=r"an operator set of the domain 'com\.microsoft'"):
        onnx_checks.inspect(model.SerializeToString())
    function = helper.make_function(FOREIGN, "f", [], ["c"], [], [helper.make_opsetid("", 21)])
    with pytest.raises(BundleError, match=f"a function of the domain '{FOREIGN}'"):
        onnx_checks.inspect(proto(functions=[function]).SerializeToString())


def test_deeply_nested_graphs_are_rejected() -> None:
    with pytest.raises(BundleError, match="messages lie more than 32 deep"):
        onnx_checks.inspect(inside_an_if(subgraph(), times=20).SerializeToString())


@pytest.mark.parametrize("content", [b"", b"onnx", b"\x00", b"\x3a\xff\xff\xff\xff\x0f", b"\x80" * 11, b"ORTM" * 9])
def test_a_file_that_is_not_onnx_is_rejected(content: bytes) -> None:
    with pytest.raises(BundleError, match="no ONNX model"):
        onnx_checks.inspect(content)


def test_a_truncated_file_is_rejected() -> None:
    whole = small()
    for length in range(len(whole) - 1):
        with pytest.raises(BundleError, match="no ONNX model"):
            onnx_checks.inspect(whole[:length])


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_pass_or_raise_bundle_errors_only(noise: bytes, place: int) -> None:
    whole = small()
    content = whole[:place] + noise + whole[place + len(noise) :]
    with contextlib.suppress(BundleError):
        onnx_checks.inspect(content)
    with pytest.raises(BundleError, match="no ONNX model"):
        onnx_checks.inspect(noise[:3])


def reached(descriptor: Descriptor, outer: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names of the messages that can occur inside one."""
    yield descriptor.name
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.name not in outer:
            yield from reached(field.message_type, outer | {descriptor.name})


def test_every_path_to_a_tensor_or_an_operator_is_walked() -> None:
    """Compared with the descriptors of the onnx package, so that fields of a newer version are not
    missed."""
    targets = {"TensorProto", "NodeProto", "OperatorSetIdProto", "FunctionProto", "GraphProto"}
    names = {"OperatorSet": "OperatorSetIdProto", "Training": "TrainingInfoProto"}
    for kind, nested in onnx_checks._NESTED.items():
        descriptor = getattr(onnx, names.get(kind, f"{kind}Proto")).DESCRIPTOR
        for field in descriptor.fields:
            if field.type == FieldDescriptor.TYPE_MESSAGE and targets & set(reached(field.message_type)):
                inner = nested[field.number]
                assert names.get(inner, f"{inner}Proto") == field.message_type.name
    fields = onnx.TensorProto.DESCRIPTOR.fields_by_name
    assert (fields["external_data"].number, fields["data_location"].number) == (13, 14)
    numbers = {
        (kind, getattr(onnx, names.get(kind, f"{kind}Proto")).DESCRIPTOR.fields_by_name["domain"].number)
        for kind in ("OperatorSet", "Node", "Function")
    }
    assert numbers == set(onnx_checks._DOMAIN)
