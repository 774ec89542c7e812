"""Just enough of the protobuf wire format to see what runtimes do not say of an ONNX file.

First, whether it reads weights from other files. Runtimes follow such references when they open it. A package's files
are known by their digests, so a reference out of them must be found first, and the ``onnx`` package is not there at run
time. Second, which inputs it has, since OpenVINO drops those that nothing reads. `ashore.verify.onnx_file` reads the
rest of a file with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ashore.errors import BackendError

# Field numbers of onnx.proto.
_MODEL_GRAPH = 7
_MODEL_TRAINING = 20
_MODEL_FUNCTIONS = 25
_TRAINING_GRAPHS = (1, 2)
_GRAPH_NODE = 1
_GRAPH_INITIALIZER = 5
_GRAPH_INPUT = 11
_GRAPH_SPARSE_INITIALIZER = 15
_VALUE_NAME = 1
_FUNCTION_NODE = 7
_FUNCTION_ATTRIBUTE = 11
_SPARSE_TENSORS = (1, 2)
_NODE_ATTRIBUTE = 5
_ATTRIBUTE_TENSORS = (5, 10)
_ATTRIBUTE_GRAPHS = (6, 11)
_ATTRIBUTE_SPARSE_TENSORS = (22, 23)
_TENSOR_EXTERNAL_DATA = 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2

_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
_MAX_DEPTH = 64


def external_data(model: bytes) -> str | None:
    """The first file outside `model` that it keeps weights in, or None."""
    try:
        return next(_locations_in_model(memoryview(model)), None)
    except (IndexError, UnicodeDecodeError, RecursionError) as error:
        raise BackendError(f"not a readable ONNX file: {error}") from error


def refuse_external_data(model: bytes, where: str) -> None:
    """Raise `BackendError` if an ONNX file keeps weights in other files."""
    if (outside := external_data(model)) is not None:
        raise BackendError(f"{where}: keeps weights outside the file, in {outside!r}; save it with its weights inside")


def input_names(model: bytes) -> set[str]:
    """The inputs of an ONNX file, and in old ones also its weights."""
    try:
        return {
            bytes(name).decode()
            for number, graph in _fields(memoryview(model))
            if number == _MODEL_GRAPH
            for inner, value in _fields(graph)
            if inner == _GRAPH_INPUT
            for part, name in _fields(value)
            if part == _VALUE_NAME
        }
    except (IndexError, UnicodeDecodeError) as error:
        raise BackendError(f"not a readable ONNX file: {error}") from error


def _locations_in_model(model: memoryview) -> Iterator[str]:
    for number, value in _fields(model):
        if number == _MODEL_GRAPH:
            yield from _locations_in_graph(value, 0)
        elif number == _MODEL_FUNCTIONS:
            for inner, part in _fields(value):
                if inner == _FUNCTION_NODE:
                    yield from _locations_in_node(part, 0)
                elif inner == _FUNCTION_ATTRIBUTE:
                    yield from _locations_in_attribute(part, 0)
        elif number == _MODEL_TRAINING:
            for inner, graph in _fields(value):
                if inner in _TRAINING_GRAPHS:
                    yield from _locations_in_graph(graph, 0)


def _locations_in_graph(graph: memoryview, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise BackendError(f"not a readable ONNX file: graphs nested more than {_MAX_DEPTH} deep")
    for number, value in _fields(graph):
        if number == _GRAPH_NODE:
            yield from _locations_in_node(value, depth)
        elif number == _GRAPH_INITIALIZER:
            yield from _locations_in_tensor(value)
        elif number == _GRAPH_SPARSE_INITIALIZER:
            yield from _locations_in_sparse(value)


def _locations_in_node(node: memoryview, depth: int) -> Iterator[str]:
    for number, attribute in _fields(node):
        if number == _NODE_ATTRIBUTE:
            yield from _locations_in_attribute(attribute, depth)


def _locations_in_attribute(attribute: memoryview, depth: int) -> Iterator[str]:
    for number, value in _fields(attribute):
        if number in _ATTRIBUTE_TENSORS:
            yield from _locations_in_tensor(value)
        elif number in _ATTRIBUTE_GRAPHS:
            yield from _locations_in_graph(value, depth + 1)
        elif number in _ATTRIBUTE_SPARSE_TENSORS:
            yield from _locations_in_sparse(value)


def _locations_in_sparse(sparse: memoryview) -> Iterator[str]:
    for number, value in _fields(sparse):
        if number in _SPARSE_TENSORS:
            yield from _locations_in_tensor(value)


def _locations_in_tensor(tensor: memoryview) -> Iterator[str]:
    for number, entry in _fields(tensor):
        if number == _TENSOR_EXTERNAL_DATA:
            pair = {inner: bytes(value).decode() for inner, value in _fields(entry)}
            if pair.get(_ENTRY_KEY) == "location":
                yield pair.get(_ENTRY_VALUE, "")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The length-delimited fields of a message, as (field number, content); others are passed over."""
    for number, value in every_field(message):
        if not isinstance(value, int):
            yield number, value


def every_field(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """The fields of a message, as (field number, content): bytes, or a number, of which fixed ones are raw bits."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        # Other readers cut a tag to 32 bits; what they would then see differs from what is seen here.
        if tag >= 1 << 32 or number == 0:
            raise IndexError(f"no field has the number {number}")
        if wire_type == _BYTES:
            length, position = _varint(message, position)
            if length > len(message) - position:
                raise IndexError("a field is longer than the file")
            yield number, message[position : position + length]
            position += length
        elif wire_type == _VARINT:
            value, position = _varint(message, position)
            yield number, value
        elif wire_type in _FIXED:
            size = _FIXED[wire_type]
            if size > len(message) - position:
                raise IndexError("a field is longer than the file")
            yield number, int.from_bytes(message[position : position + size], "little")
            position += size
        else:
            raise IndexError(f"unknown wire type {wire_type}")


def varints(packed: memoryview) -> Iterator[int]:
    """The numbers of a packed field."""
    position = 0
    while position < len(packed):
        value, position = _varint(packed, position)
        yield value


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, position
    raise IndexError("a number is too long")
