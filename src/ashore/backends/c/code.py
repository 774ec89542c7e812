"""Pieces of C: numbers, types, names, and the functions that generated code calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ashore.package import Array

C_TYPES: Mapping[str, str] = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
}
"""Dtype -> the type of its elements in C; float16 has none."""

_KEYWORDS = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "compl",
        "concept",
        "const",
        "constexpr",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "dynamic_cast",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "nullptr",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "requires",
        "reinterpret_cast",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "static_assert",
        "static_cast",
        "struct",
        "switch",
        "template",
        "this",
        "thread_local",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "typeof",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "I",
        "INFINITY",
        "NAN",
        "NULL",
        "errno",
        "linux",
        "unix",
    ]
)
_CHUNK = 4096
_PIECE = re.compile(r"/\*@ (\w+)(?: : ([\w ]+))? \*/\n")
_WORD = re.compile(r"\bnative_\w+")


def identifier(name: str, taken: Iterable[str] = ()) -> str:
    """A name as C can have it, and as nothing in `taken` is called."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if made[0].isdigit() or made[0] == "_" or made in _KEYWORDS:
        made = f"x{made}" if made[0] == "_" or made[0].isdigit() else f"{made}_"
    known, unique, index = set(taken), made, 2
    while unique in known:
        unique, index = f"{made}_{index}", index + 1
    return unique


def text(value: str | None) -> str:
    """A string literal, or NULL."""
    if value is None:
        return "NULL"
    made = ""
    for byte in value.encode():
        char = chr(byte)
        if char in '"\\?':
            made += f"\\{char}"
        else:
            made += char if 32 <= byte < 127 else f"\\{byte:03o}"
    return f'"{made}"'


def comment(value: str) -> str:
    """A text that may stand in a comment."""
    shown = "".join(char if char.isprintable() else " " for char in value)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/").rstrip("\\")


def number(value: Any, dtype: np.dtype[Any]) -> str:
    """A literal that is exactly this value."""
    match dtype.name:
        case "bool":
            return "1" if value else "0"
        case "float32" | "float64":
            return _real(float(value), dtype)
        case "int64":
            whole = int(value)
            return "INT64_MIN" if whole == -(1 << 63) else f"INT64_C({whole})"
        case "uint64":
            return f"UINT64_C({int(value)})"
        case "uint32":
            return f"{int(value)}u"
        case "int32":
            whole = int(value)
            return "INT32_MIN" if whole == -(1 << 31) else str(whole)
        case _:
            return str(int(value))


def _real(value: float, dtype: np.dtype[Any]) -> str:
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    # So many digits bring back the same number.
    shown = f"{value:.9g}" if dtype.name == "float32" else f"{value:.17g}"
    if not set(shown) & set(".e"):
        shown += ".0"
    return f"{shown}f" if dtype.name == "float32" else shown


def numbers(data: Array) -> str:
    """The elements of an array, as lines of an initialiser."""
    lines, line = list[str](), "   "
    for entry in _written(data):
        if len(line) + len(entry) > 118:
            lines.append(line)
            line = "   "
        line += f" {entry},"
    return "\n".join((*lines, line))


def _written(data: Array) -> Iterator[str]:
    flat, dtype = data.reshape(-1), data.dtype
    plain = dtype == np.float32 and bool(np.isfinite(flat).all())
    for start in range(0, flat.size, _CHUNK):  # as Python's numbers, all of them at once would take ten times the room
        for value in flat[start : start + _CHUNK].tolist():
            if plain:
                shown = f"{value:.9g}"
                yield f"{shown}f" if "." in shown or "e" in shown else f"{shown}.0f"
            else:
                yield number(value, dtype)


def indent(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Lines moved to the right."""
    return [f"{'    ' * depth}{line}" if line and not line.startswith("#") else line for line in lines]


@cache
def read_text(name: str) -> str:
    """A file beside this one."""
    return (files("ashore.backends.c") / "texts" / name).read_text(encoding="utf-8")


def policy_name(name: str) -> str:
    """What the symbols of a package are called after ``ashore_``: its own name, unless something else is called so."""
    made = re.sub(r"[^a-z0-9_]", "_", name.lower())
    taken = re.findall(r"\bashore_\w+", read_text("ashore.h"))
    return f"{made}_policy" if f"ashore_{made}" in taken else made


@cache
def _pieces() -> dict[str, tuple[tuple[str, ...], str]]:
    """Name -> what it needs, and its text, in the order of the file."""
    parts = _PIECE.split(read_text("kernels.c"))
    return {
        parts[index]: (tuple((parts[index + 1] or "").split()), parts[index + 2]) for index in range(1, len(parts), 3)
    }


def functions_for(code: str) -> str:
    """The functions that generated code calls, and those that they call."""
    pieces = _pieces()
    waiting = [name for name in dict.fromkeys(_WORD.findall(code)) if name in pieces]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += pieces[name][0]
    return "\n".join(body.strip("\n") + "\n" for name, (_, body) in pieces.items() if name in needed)
