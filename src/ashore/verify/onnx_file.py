"""What an ONNX file holds, read without the ``onnx`` package: its weights, its operations and its opset.

Enough to say which weight is different between two files, not to run one. Weights kept outside of the file are refused
before anything here is called.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array
from ashore.runtime.protobuf import every_field, varints

# Field numbers of onnx.proto.
_MODEL_GRAPH, _MODEL_OPSET, _MODEL_FUNCTIONS = 7, 8, 25
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_FUNCTION_NAME, _FUNCTION_NODE = 1, 7
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATION, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH = 1, 2, 3, 5, 6
_ATTRIBUTE_FLOATS, _ATTRIBUTE_INTS = 7, 8
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9
_TENSOR_FLOATS, _TENSOR_INT32S, _TENSOR_INT64S, _TENSOR_DOUBLES, _TENSOR_UINT64S = 4, 5, 7, 10, 11

_DTYPES: Mapping[int, str] = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8",
}  # fmt: skip
_MAX_DEPTH = 32


class Node(NamedTuple):
    """An operation, and what it works on."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: bytes
    """As they are stored."""


@dataclass
class OnnxFile:
    """What a file holds."""

    opset: int | None = None
    """Of the standard operations."""

    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    """Name -> value: initializers and constants, those of inner graphs with the node in front of their names."""

    unread: list[str] = field(default_factory=list[str])
    """Names of weights of a type that numpy does not have, such as bfloat16."""

    operations: Counter[str] = field(default_factory=Counter[str])
    nodes: list[Node] = field(default_factory=list[Node])
    """Each that is no constant, in the order of the file."""


def read_onnx(model: bytes, where: str) -> OnnxFile:
    """Read a file.

    Args:
        model: the whole file.
        where: what to call it in an error.
    """
    found = OnnxFile()
    try:
        for number, value in every_field(memoryview(model)):
            if isinstance(value, int):
                continue
            if number == _MODEL_GRAPH:
                _read_graph(value, "", found, 0)
            elif number == _MODEL_FUNCTIONS:
                _read_function(value, found)
            elif number == _MODEL_OPSET:
                parts = dict(every_field(value))
                if not parts.get(_OPSET_DOMAIN):  # the standard domain has no name
                    found.opset = _number(parts.get(_OPSET_VERSION, 0))
    except (IndexError, ValueError, OverflowError, MemoryError, struct.error) as error:
        raise BackendError(f"{where}: not a readable ONNX file: {error}") from error
    return found


def _read_graph(graph: memoryview, prefix: str, found: OnnxFile, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"graphs nested more than {_MAX_DEPTH} deep")
    for number, value in every_field(graph):
        if isinstance(value, int):
            continue
        if number == _GRAPH_INITIALIZER:
            _keep(value, prefix, "", found)
        elif number == _GRAPH_NODE:
            _read_node(value, prefix, found, depth)


def _read_function(function: memoryview, found: OnnxFile) -> None:
    parts = list(every_field(function))
    name = next((_text(value) for number, value in parts if number == _FUNCTION_NAME), "")
    for number, value in parts:
        if number == _FUNCTION_NODE and not isinstance(value, int):
            _read_node(value, f"{name}/", found, 0)


def _read_node(node: memoryview, prefix: str, found: OnnxFile, depth: int) -> None:
    parts = list(every_field(node))
    operation = next((_text(value) for number, value in parts if number == _NODE_OPERATION), "")
    inputs, outputs = (
        tuple(_text(value) for number, value in parts if number == side) for side in (_NODE_INPUT, _NODE_OUTPUT)
    )
    attributes = [value for number, value in parts if number == _NODE_ATTRIBUTE and not isinstance(value, int)]
    name = outputs[0] if outputs else operation
    if operation == "Constant":
        for attribute in attributes:
            _keep_constant(attribute, prefix, name, found)
        return
    found.operations[operation] += 1
    found.nodes.append(Node(operation, inputs, outputs, b"".join(sorted(bytes(one) for one in attributes))))
    for attribute in attributes:
        for number, value in every_field(attribute):
            if number == _ATTRIBUTE_GRAPH and not isinstance(value, int):
                _read_graph(value, f"{prefix}{name}/", found, depth + 1)
            elif number == _ATTRIBUTE_TENSOR and not isinstance(value, int):
                _keep(value, prefix, name, found)


def _keep_constant(attribute: memoryview, prefix: str, name: str, found: OnnxFile) -> None:
    floats: list[float] = []
    integers: list[int] = []
    for number, value in every_field(attribute):
        if number == _ATTRIBUTE_TENSOR and not isinstance(value, int):
            _keep(value, prefix, name, found)
        elif number in (_ATTRIBUTE_FLOAT, _ATTRIBUTE_FLOATS):
            raw = value.to_bytes(4, "little") if isinstance(value, int) else bytes(value)
            floats += np.frombuffer(raw, "<f4").tolist()
        elif number in (_ATTRIBUTE_INT, _ATTRIBUTE_INTS):
            integers += [_signed(one) for one in ([value] if isinstance(value, int) else varints(value))]
    if floats or integers:
        found.weights[prefix + name] = np.array(floats, np.float32) if floats else np.array(integers, np.int64)


def _keep(tensor: memoryview, prefix: str, otherwise: str, found: OnnxFile) -> None:
    parts = list(every_field(tensor))
    name = next((_text(value) for number, value in parts if number == _TENSOR_NAME), "") or otherwise
    code = next((_number(value) for number, value in parts if number == _TENSOR_TYPE), 0)
    if code not in _DTYPES:
        found.unread.append(prefix + name)
        return
    dtype = np.dtype(_DTYPES[code])
    shape = [
        _signed(one)
        for number, value in parts
        if number == _TENSOR_DIMS
        for one in ([value] if isinstance(value, int) else varints(value))
    ]
    found.weights[prefix + name] = _values(parts, dtype).reshape(shape)


def _values(parts: list[tuple[int, memoryview | int]], dtype: np.dtype) -> Array:
    for number, value in parts:
        if number == _TENSOR_RAW and not isinstance(value, int):
            return np.frombuffer(value, dtype)
    raw = {_TENSOR_FLOATS: ("<f4", 4), _TENSOR_DOUBLES: ("<f8", 8)}
    for number, (kind, size) in raw.items():
        pieces = [
            value.to_bytes(size, "little") if isinstance(value, int) else bytes(value)
            for one, value in parts
            if one == number
        ]
        if pieces:
            return np.frombuffer(b"".join(pieces), kind).astype(dtype)
    whole = (_TENSOR_INT32S, _TENSOR_INT64S, _TENSOR_UINT64S)
    numbers = list(_whole(parts, whole))
    if dtype == np.float16:  # stored as the bits of each
        return np.array([one & 0xFFFF for one in numbers], np.uint16).view(np.float16)
    return np.array([one if dtype.kind == "u" else _signed(one) for one in numbers]).astype(dtype)


def _whole(parts: list[tuple[int, memoryview | int]], fields: tuple[int, ...]) -> Iterator[int]:
    for number, value in parts:
        if number in fields:
            yield from [value] if isinstance(value, int) else varints(value)


def _text(value: memoryview | int) -> str:
    return "" if isinstance(value, int) else bytes(value).decode()


def _number(value: memoryview | int) -> int:
    if not isinstance(value, int):
        raise ValueError("a number was expected")
    return value


def _signed(value: int) -> int:
    """A varint as the 64-bit number that it stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value
