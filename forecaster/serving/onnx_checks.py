"""Security checks of an ONNX file before a runtime loads it: no external data, and no operator of a
foreign domain.

The base install has no onnx, and a runtime checks only while loading. This module therefore walks
the bytes of the protobuf message itself, in the wire format
(protobuf.dev/programming-guides/encoding), along the fields of onnx.proto that lead to a tensor or
an operator; every other field is skipped by its length. A message that cannot be walked is
rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from forecaster.errors import BundleError

# the exporter writes only onnx's own domain, which has these two names
DOMAINS = frozenset({"", "ai.onnx"})
MAX_DEPTH = 32  # nested messages
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

# onnx.proto: for each message, the fields with nested messages to check
_NESTED: Mapping[str, Mapping[int, str]] = {
    "Model": {7: "Graph", 8: "OperatorSet", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Function": {7: "Node", 9: "OperatorSet", 11: "Attribute"},
    "Tensor": {},
    "OperatorSet": {},
}
_DOMAIN = {("OperatorSet", 1): "an operator set", ("Node", 7): "an operator", ("Function", 10): "a function"}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # fields of a tensor


def inspect(model: bytes) -> None:
    """Check a model. Raises BundleError for external data, for a domain other than onnx's own, and
    for bytes that are not an ONNX model."""
    if not {7, 8} <= _walk(memoryview(model), "Model", 0):
        raise BundleError("no ONNX model: found no graph or no operator set in it")


def _walk(message: memoryview, kind: str, depth: int) -> set[int]:
    """Check a message and its nested messages; return the numbers of its fields."""
    if depth > MAX_DEPTH:
        raise BundleError(f"no ONNX model: messages lie more than {MAX_DEPTH} deep in one another")
    nested, numbers = _NESTED[kind], set()
    for number, wire, value in _fields(message):
        numbers.add(number)
        if kind == "Tensor" and (number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)):
            raise BundleError("a tensor's data lie in another file; wanted all of them in this one")
        element = _DOMAIN.get((kind, number))
        if not element and number not in nested:
            continue
        if not isinstance(value, memoryview):
            raise BundleError(f"no ONNX model: field {number} of {kind} has wire type {wire}, wanted {LENGTH}")
        if element:
            _check_domain(str(bytes(value), "utf-8", "replace"), element)
        else:
            _walk(value, nested[number], depth + 1)
    return numbers


def _check_domain(domain: str, element: str) -> None:
    if domain not in DOMAINS:
        raise BundleError(f"{element} of the domain {domain!r}, wanted only onnx's own (ai.onnx)")


def _fields(message: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value of each field; the value is a number, or the bytes of a
    field with a length."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        value: int | memoryview
        if wire == VARINT:
            value, place = _varint(message, place)
        elif wire in (FIXED64, FIXED32, LENGTH):
            size, place = _varint(message, place) if wire == LENGTH else ((8 if wire == FIXED64 else 4), place)
            if size > len(message) - place:
                raise BundleError(f"no ONNX model: a field of {size} bytes where {len(message) - place} are left")
            value, place = message[place : place + size], place + size
        else:
            raise BundleError(f"no ONNX model: found the wire type {wire}, which protobuf does not use any more")
        if not 0 < number < 1 << 29:
            raise BundleError(f"no ONNX model: found a field of the number {number}")
        yield number, wire, value


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise BundleError("no ONNX model: it ends in the middle of a number")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise BundleError("no ONNX model: found a number of more than ten bytes")
