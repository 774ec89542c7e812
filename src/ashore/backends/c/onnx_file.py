"""ONNX files without the ``onnx`` package, so that a robot with numpy and a C compiler can compile a package.

Reads what a graph of tensors needs: nodes with their attributes, weights, ports, and where a node came from. What a
policy's file has no use for (sparse tensors, graphs for training) is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ashore.errors import BackendError
from ashore.package import Array
from ashore.runtime.protobuf import every_field, varints

DTYPES: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
"""ONNX's number of a dtype -> its name."""

_MAX_DEPTH = 8
_SOURCE_LINE = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class FileNode:
    """A node as a file has it."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    """Empty names are inputs that are left out."""

    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    line: str | None
    """``file.py:line`` of the code that it came from, where the file says so."""


@dataclass(frozen=True)
class FileGraph:
    """A graph as a file has it."""

    nodes: tuple[FileNode, ...]
    weights: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int = 0


@dataclass
class _Attribute:
    name: str = ""
    kind: int = 0
    scalar: Any = None
    items: list[Any] = field(default_factory=list[Any])


def read_graph(model: bytes, where: str) -> FileGraph:
    """Read an ONNX file.

    Args:
        model: the whole file, weights inside.
        where: what to call it in an error.
    """
    try:
        return _model(memoryview(model), where)
    except (IndexError, UnicodeDecodeError, ValueError, struct.error) as error:
        raise BackendError(f"{where}: not a readable ONNX file: {error}") from error


def _model(model: memoryview, where: str) -> FileGraph:
    opsets: dict[str, int] = {}
    graph: memoryview | None = None
    for number, value in every_field(model):
        if number == 7:
            graph = _bytes(value)
        elif number == 8:
            domain, version = "", 0
            for inner, part in every_field(_bytes(value)):
                if inner == 1:
                    domain = _text(part)
                elif inner == 2:
                    version = _int(part)
            opsets["" if domain == "ai.onnx" else domain] = version
        elif number == 25:
            raise BackendError(f"{where}: has functions of its own; export it with its functions inlined")
    if graph is None:
        raise BackendError(f"{where}: holds no graph")
    return _graph(graph, where, opsets.get("", 0), 0)


def _graph(graph: memoryview, where: str, opset: int, depth: int) -> FileGraph:
    if depth > _MAX_DEPTH:
        raise BackendError(f"{where}: graphs nested more than {_MAX_DEPTH} deep")
    nodes: list[FileNode] = []
    weights: dict[str, Array] = {}
    inputs: list[str] = []
    outputs: list[str] = []
    for number, value in every_field(graph):
        if number == 1:
            nodes.append(_node(_bytes(value), where, opset, depth))
        elif number == 5:
            name, array = _tensor(_bytes(value), where)
            weights[name] = array
        elif number == 11:
            inputs.append(_name(_bytes(value)))
        elif number == 12:
            outputs.append(_name(_bytes(value)))
        elif number == 15:
            raise BackendError(f"{where}: has sparse weights, which the backend 'c' does not read")
    ports = tuple(name for name in inputs if name not in weights)
    return FileGraph(tuple(nodes), weights, ports, tuple(outputs), opset)


def _node(node: memoryview, where: str, opset: int, depth: int) -> FileNode:
    inputs: list[str] = []
    outputs: list[str] = []
    texts = {3: "", 4: "", 6: "", 7: ""}
    attributes: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for number, value in every_field(node):
        if number == 1:
            inputs.append(_text(value))
        elif number == 2:
            outputs.append(_text(value))
        elif number in texts:
            texts[number] = _text(value)
        elif number == 5:
            name, content = _attribute(_bytes(value), where, opset, depth)
            attributes[name] = content
        elif number == 9:
            pair = {inner: _text(part) for inner, part in every_field(_bytes(value))}
            notes[pair.get(1, "")] = pair.get(2, "")
    domain = "" if texts[7] == "ai.onnx" else texts[7]
    line = _line(notes, texts[6])
    return FileNode(texts[4], domain, texts[3], tuple(inputs), tuple(outputs), attributes, line)


def _line(notes: Mapping[str, str], doc: str) -> str | None:
    """The innermost line of code in what a file says of a node."""
    for text in (notes.get("ashore.line", ""), *(notes[key] for key in notes if key.endswith("stack_trace")), doc):
        found = _SOURCE_LINE.findall(text)
        if found:
            path, line = found[-1]
            return f"{path}:{line}"
        if text and re.fullmatch(r"\S+:\d+", text):
            return text
    return None


def _attribute(attribute: memoryview, where: str, opset: int, depth: int) -> tuple[str, Any]:
    made = _Attribute()
    for number, value in every_field(attribute):
        match number:
            case 1:
                made.name = _text(value)
            case 20:
                made.kind = _int(value)
            case 2:
                made.scalar = _float(value)
            case 3:
                made.scalar = _int(value)
            case 4:
                made.scalar = bytes(_bytes(value)).decode(errors="replace")
            case 5:
                made.scalar = _tensor(_bytes(value), where)[1]
            case 6:
                made.scalar = _graph(_bytes(value), where, opset, depth + 1)
            case 7:
                made.items += [_float(value)] if isinstance(value, int) else _floats(value)
            case 8:
                made.items += _ints(value)
            case 9:
                made.items.append(bytes(_bytes(value)).decode(errors="replace"))
            case 10:
                made.items.append(_tensor(_bytes(value), where)[1])
            case 21:
                raise BackendError(
                    f"{where}: an attribute refers to one of a function, which the backend does not know"
                )
            case _:
                pass
    # Zero is left out of the file, so the kind decides what nothing means.
    empty: dict[int, Any] = {1: 0.0, 2: 0, 3: ""}
    if made.kind in (6, 7, 8, 9):
        return made.name, tuple(made.items)
    if made.scalar is None:
        return made.name, tuple(made.items) if made.items else empty.get(made.kind)
    return made.name, made.scalar


def _tensor(tensor: memoryview, where: str) -> tuple[str, Array]:
    name, shape, kind = "", list[int](), 0
    raw: memoryview | None = None
    floats: list[float] = []
    doubles: list[float] = []
    whole: list[int] = []
    for number, value in every_field(tensor):
        match number:
            case 1:
                shape += _ints(value)
            case 2:
                kind = _int(value)
            case 4:
                floats += [_float(value)] if isinstance(value, int) else _floats(value)
            case 5 | 7 | 11:
                whole += _ints(value)
            case 8:
                name = _text(value)
            case 9:
                raw = _bytes(value)
            case 10:
                doubles += _doubles(value)
            case 13:
                raise BackendError(f"{where}: keeps weights outside the file; save it with its weights inside")
            case _:
                pass
    name = name or "of a node"
    if kind not in DTYPES:
        raise BackendError(
            f"{where}: the constant {name!r} has the ONNX dtype {kind}, which the backend 'c' does not know"
        )
    dtype = np.dtype(DTYPES[kind])
    if raw is not None:
        array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)
    elif dtype == np.float16:
        array = np.array(whole, np.uint16).view(np.float16)
    elif dtype == np.float32:
        array = np.array(floats, np.float32)
    elif dtype == np.float64:
        array = np.array(doubles, np.float64)
    else:
        array = np.array(whole, np.int64 if dtype != np.uint64 else object).astype(dtype)
    return name, array.reshape(shape)


def _name(value: memoryview) -> str:
    return next((_text(part) for number, part in every_field(value) if number == 1), "")


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise IndexError("expected bytes, got a number")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_bytes(value)).decode()


def _int(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise IndexError("expected a number, got bytes")
    return value - (1 << 64) if value >= 1 << 63 else value


def _float(value: int | memoryview) -> float:
    return struct.unpack("<f", struct.pack("<I", _int(value)))[0]


def _floats(value: memoryview) -> list[float]:
    return np.frombuffer(value, "<f4").tolist()


def _doubles(value: int | memoryview) -> list[float]:
    if isinstance(value, int):
        return [struct.unpack("<d", struct.pack("<Q", value))[0]]
    return np.frombuffer(value, "<f8").tolist()


def _ints(value: int | memoryview) -> list[int]:
    if isinstance(value, int):
        return [_int(value)]
    return [_int(number) for number in varints(value)]
