"""Tensors on the wire: reads and writes the Open Inference Protocol's JSON and its binary tensor
extension.

    github.com/kserve/open-inference-protocol, specification/protocol/inference_rest.md
    github.com/triton-inference-server/server, docs/protocol/extension_binary_data.md

A body is a JSON object. If `Inference-Header-Content-Length` ends it before the body does, the rest
are the raw little-endian values of the inputs that name a `binary_data_size`, one after the other.
Parsing JSON numbers takes longer than running the graph, so machines should send raw values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json, to_json

from dashboards.ops.http.bodies import whole_number

HEADER_LENGTH = "Inference-Header-Content-Length"
JSON, BINARY = "application/json", "application/octet-stream"
OUTPUT = "quantiles"
DATATYPES: Mapping[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "INT32": np.dtype("<i4")}
LARGEST_JSON = 16 << 20  # bytes; the numbers read from it take ten times as much
MOST_LISTS = 1 << 20  # even an empty list takes more memory than its three bytes of JSON
MOST_INPUTS = 16
MOST_DIMENSIONS = 8
ELSEWHERE = ("classification", "shared_memory_region")  # parameters of an output that request unsupported extensions
Value = TypeVar("Value")
_LONGEST = 80  # characters of input repeated in a message
_NUMBERS: Mapping[str, set[type]] = {
    "f": {int, float, type(None)},
    "i": {int},
}  # JSON types by array kind; null is an unknown value


class Malformed(Exception):
    """A request that cannot be read; the message states the found and the expected value."""


@dataclass(frozen=True)
class InferRequest:
    """An inference request: its arrays by name, and the format of each output."""

    arrays: Mapping[str, NDArray[Any]]
    rows: int
    request_id: str | None
    outputs: tuple[bool, ...]  # for each requested output (always the same tensor), True if raw


def read(body: bytes, header_length: str | None, datatypes: Mapping[str, str]) -> InferRequest:
    """Parse the request in a body; `datatypes` names the model's inputs. Raises Malformed.

    Each array has its claimed size; `input_checks` checks that the arrays fit the model.
    """
    size = _header_size(body, header_length)
    content = _content(body, size)
    inputs = content.get("inputs")
    if not isinstance(inputs, list) or not 0 < len(inputs) <= MOST_INPUTS:
        raise Malformed(f"inputs: wanted a list of 1 to {MOST_INPUTS} tensors")
    arrays: dict[str, NDArray[Any]] = {}
    place = size
    for tensor in inputs:
        name, shape, dtype = _head_of(tensor, datatypes)
        if name in arrays:
            raise Malformed(f"input '{name}' comes twice")
        if (raw_size := _parameter(tensor, "binary_data_size", int)) is not None:
            arrays[name] = _raw(body, place, raw_size, name, shape, dtype)
            place += raw_size
        else:
            arrays[name] = _numbers(tensor.get("data"), name, shape, dtype)
    if place != len(body):
        raise Malformed(f"found {len(body) - size} bytes after the JSON, wanted {place - size}, as the inputs say")
    return InferRequest(arrays, _rows(arrays), _request_id(content), _outputs(content))


def write(quantiles: NDArray[Any], request: InferRequest, model: str, version: str) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of an answer with these quantiles (rows, days, levels)."""
    head: dict[str, Any] = {"model_name": model, "model_version": version}
    if request.request_id is not None:
        head["id"] = request.request_id
    values = np.ascontiguousarray(quantiles, "<f4")
    outputs: list[dict[str, Any]] = []
    for raw in request.outputs:
        tensor: dict[str, Any] = {"name": OUTPUT, "datatype": "FP32", "shape": list(values.shape)}
        outputs.append(
            tensor | ({"parameters": {"binary_data_size": values.nbytes}} if raw else {"data": values.ravel().tolist()})
        )
    content = to_json(head | {"outputs": outputs})
    if not any(request.outputs):
        return content, {"Content-Type": JSON}
    parts = [values.tobytes() for raw in request.outputs if raw]
    return b"".join([content, *parts]), {"Content-Type": BINARY, HEADER_LENGTH: str(len(content))}


def _content(body: bytes, size: int) -> dict[str, Any]:
    """Return the JSON object in the first `size` bytes of a body."""
    if size > LARGEST_JSON:
        raise Malformed(f"found {size:,} bytes of JSON, wanted {LARGEST_JSON:,} at most; send raw numbers")
    if body.count(b"[", 0, size) + body.count(b"{", 0, size) > MOST_LISTS:
        raise Malformed(f"found more than {MOST_LISTS:,} lists in the JSON, wanted data that are flat, or raw")
    try:
        content = from_json(body[:size] if size < len(body) else body, allow_inf_nan=True)
    except ValueError as error:
        raise Malformed(f"the body is no JSON: {str(error)[:_LONGEST]}") from None
    if not isinstance(content, dict):
        raise Malformed("found no JSON object, wanted one with inputs")
    return content


def _header_size(body: bytes, header_length: str | None) -> int:
    if header_length is None:
        return len(body)
    if (size := whole_number(header_length, 0, len(body))) is None:
        raise Malformed(
            f"{HEADER_LENGTH}: found {header_length[:_LONGEST]!r}, wanted a number of bytes, {len(body)} at most"
        )
    return size


def _head_of(tensor: object, datatypes: Mapping[str, str]) -> tuple[str, tuple[int, ...], np.dtype[Any]]:
    """Return name, shape and type of an input."""
    if not isinstance(tensor, dict):
        raise Malformed("inputs: found something else, wanted objects with name, shape, datatype and data")
    name, shape, datatype = tensor.get("name"), tensor.get("shape"), tensor.get("datatype")
    if not isinstance(name, str) or name not in datatypes:
        raise Malformed(f"found the input {str(name)[:_LONGEST]!r}, wanted {', '.join(datatypes)}")
    if datatype != datatypes[name]:
        raise Malformed(f"input '{name}' has the datatype {str(datatype)[:_LONGEST]!r}, wanted {datatypes[name]}")
    return name, _shape(shape, name), DATATYPES[datatypes[name]]


def _shape(shape: object, name: str) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 31 for size in shape):
        raise Malformed(f"input '{name}': found no shape, wanted a list of whole numbers")
    if len(shape) > MOST_DIMENSIONS or math.prod(max(size, 1) for size in shape) >= 1 << 40:
        raise Malformed(f"input '{name}': found the shape {str(shape)[:_LONGEST]}, wanted a smaller one")
    return tuple(shape)


def _raw(body: bytes, place: int, size: int, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    expected_size = math.prod(shape) * dtype.itemsize
    if size != expected_size:
        raise Malformed(f"input '{name}' says {size} bytes, wanted {expected_size} for the shape {list(shape)}")
    if size > len(body) - place:
        raise Malformed(f"input '{name}' says {size} bytes, found {max(len(body) - place, 0)}")
    # Some machines would misread an address that is not a multiple of four.
    return np.require(np.frombuffer(body, dtype, math.prod(shape), place), requirements="A").reshape(shape)


def _numbers(data: object, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the numbers of a JSON array, flat or nested; null is an unknown value."""
    if not isinstance(data, list):
        raise Malformed(f"input '{name}' has no data, wanted a list of numbers, or binary_data_size in its parameters")
    is_integer = dtype.kind == "i"
    if not _types(data) <= _NUMBERS[dtype.kind]:
        raise Malformed(f"input '{name}': found something else than {'whole ' if is_integer else ''}numbers")
    values = _array(data, name, whole=is_integer)
    if values.size != math.prod(shape):
        raise Malformed(f"input '{name}': the data do not fill the shape {list(shape)}")
    if values.ndim > 1 and _without_ones(values.shape) != _without_ones(shape):
        raise Malformed(f"input '{name}': the data are nested as {list(values.shape)}, wanted {list(shape)}, or flat")
    if is_integer and not _have_32_bits(values):
        raise Malformed(f"input '{name}': found a number of more than 32 bits")
    with np.errstate(over="ignore"):  # overflow becomes infinite, which the checks report
        return values.astype(dtype).reshape(shape)


def _array(data: list[Any], name: str, *, whole: bool) -> NDArray[Any]:
    """Return the numbers with 64 bits; empty for ragged lists."""
    try:
        return np.asarray(data, np.int64 if whole else np.float64)
    except OverflowError:
        raise Malformed(f"input '{name}': found a number of more than {'32' if whole else '1,000'} bits") from None
    except (ValueError, TypeError):
        return np.empty(0)


def _have_32_bits(values: NDArray[Any]) -> bool:
    return not values.size or (values.min() >= -(1 << 31) and values.max() < 1 << 31)


def _without_ones(shape: Sequence[int]) -> list[int]:
    """Return the dimensions above 1, which alone determine the order of the numbers."""
    return [size for size in shape if size > 1]


def _types(data: list[Any]) -> set[type]:
    """Return the types in JSON lists at any depth; numpy would read `true` as 1."""
    types: set[type] = set(map(type, data))
    if list in types:
        types.remove(list)
        types.update(*(_types(part) for part in data if type(part) is list))
    return types


def _rows(arrays: Mapping[str, NDArray[Any]]) -> int:
    sizes = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(sizes) != 1 or 0 in sizes:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise Malformed(f"found {shapes}, wanted the same number of rows in each, 1 or more")
    return sizes.pop()


def _request_id(content: Mapping[str, Any]) -> str | None:
    request_id = content.get("id")
    if request_id is not None and not isinstance(request_id, str):
        raise Malformed("id: found something else, wanted a string")
    return request_id


def _outputs(content: Mapping[str, Any]) -> tuple[bool, ...]:
    default = _parameter(content, "binary_data_output", bool) or False
    outputs = content.get("outputs")
    if outputs in (None, []):
        return (default,)
    if not isinstance(outputs, list) or len(outputs) > 1 or not isinstance(outputs[0], dict):
        raise Malformed(f"outputs: wanted '{OUTPUT}' alone")
    if outputs[0].get("name") != OUTPUT:
        raise Malformed(f"found the output {str(outputs[0].get('name'))[:_LONGEST]!r}, wanted '{OUTPUT}'")
    for name in ELSEWHERE:
        if _parameter(outputs[0], name, object) is not None:
            raise Malformed(f"output '{OUTPUT}': found the parameter {name}, which is of an extension that is not here")
    raw = _parameter(outputs[0], "binary_data", bool)
    return (default if raw is None else raw,)


def _parameter(holder: Mapping[str, Any], name: str, kind: type[Value]) -> Value | None:
    """Return a parameter of a request or tensor, of the given type. Raises Malformed."""
    parameters = holder.get("parameters")
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise Malformed("parameters: found something else, wanted an object")
    value = parameters.get(name)
    if value is not None and kind is not object and type(value) is not kind:
        raise Malformed(
            f"{name}: found {str(value)[:_LONGEST]!r}, wanted {'true or false' if kind is bool else 'a number'}"
        )
    return value


def columns(datatypes: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> Sequence[Mapping[str, Any]]:
    """Return metadata of a model's tensors; -1 is any number of rows."""
    return [{"name": name, "datatype": datatypes[name], "shape": [-1, *shape[1:]]} for name, shape in shapes.items()]
