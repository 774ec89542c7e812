"""Markup that cannot be broken into: text becomes part of a page only through `tag`, which escapes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from html import escape
from typing import Any, TypeAlias

from ashore.errors import printable

_EMPTY = frozenset({"br", "img", "input", "meta", "source", "wbr"})
"""Elements that have no end tag."""


class Markup(str):
    """HTML that was made here. Any other string is text, and is escaped where it enters a page."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"


def tag(name: str, /, *children: Child, **attributes: str | bool | int | None) -> Markup:
    """An element.

    Args:
        name: of the element.
        children: text, which is escaped; markup, which is not; lists of both; None, which is nothing.
        attributes: an underscore stands for a hyphen and a trailing one is dropped (``class_``, ``data_name``,
            ``aria_label``). True gives an attribute without a value, False and None give none.
    """
    named = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{named}>")
    return Markup(f"<{name}{named}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Several children in a row, those that are text escaped."""
    return Markup("".join(_child(child) for child in children))


def embed(document: Any, **attributes: str) -> Markup:
    """Data for scripts, as JSON in an element that nothing in it can close; NaN and infinities become null."""
    text = json.dumps(_finite(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Markup(text), type="application/json", **attributes)


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(printable(child))
    return "".join(_child(part) for part in child)


def _attribute(key: str, value: str | bool | int | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(printable(str(value)))}"'


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(child) for child in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _text(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    return printable(str(value))
