"""YAML as data: what a file may say is what JSON can say, and reading it takes no longer than its length deserves.

PyYAML's safe loader builds no objects, but it takes the last of two equal keys, turns dates into dates, and lets a few
hundred bytes of aliases stand for gigabytes. So a document is composed first, looked at, and only then constructed.
"""

from __future__ import annotations

import importlib
from typing import Any

from ashore.errors import BackendError, PackageError

MAX_YAML_BYTES = 1 << 20
"""A file with a thousand named joints has a tenth of this."""

_MAX_VALUES = 200_000
"""Values after aliases have been followed; more than a file of that length could hold without them."""

_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null")}


def load_yaml(data: bytes, where: str) -> Any:
    """Read a YAML document made of mappings, lists, text, numbers, booleans and nulls.

    Args:
        data: the whole file, at most `MAX_YAML_BYTES`.
        where: what to call it in an error.

    Raises:
        PackageError: it is too long, no YAML, or says more than JSON could.
    """
    if len(data) > MAX_YAML_BYTES:
        raise PackageError(f"{where}: is longer than {MAX_YAML_BYTES} bytes")
    yaml = _yaml()
    try:
        # The loader in Python, not the one in C: the latter has no end to how deep it recurses.
        loader = yaml.SafeLoader(_text(data, where))
        root = loader.get_single_node()
        if root is None:
            return None
        _Counter(yaml, where).count(root)
        return loader.construct_document(root)
    except yaml.YAMLError as error:
        raise PackageError(f"{where}: is no YAML that can be read: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise PackageError(f"{where}: is nested too deep") from None
    except ValueError as error:  # numbers that Python refuses
        raise PackageError(f"{where}: holds a value that cannot be read: {error}") from error


def dump_yaml(document: Any) -> bytes:
    """Write a document so that any YAML reader gets it back: plain ASCII, no anchors, floats to the bit."""
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - it is called with it
            return True

        def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
            flat = not any(isinstance(value, list | dict) for value in sequence)
            return super().represent_sequence(tag, sequence, flow_style=flow_style or flat)

    text = yaml.dump(document, Dumper=Dumper, sort_keys=False, default_flow_style=False, width=120)
    return text.encode("ascii")


def _yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ModuleNotFoundError as error:
        raise BackendError("LEAPP files are YAML, which needs PyYAML; install it with ashore[leapp]") from error


def _text(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PackageError(f"{where}: is no UTF-8 text: {error}") from error
    return text


class _Counter:
    """Walks a composed document once, each shared part too, and counts it as often as it is referred to."""

    def __init__(self, yaml: Any, where: str) -> None:
        self._mapping, self._scalar = yaml.MappingNode, yaml.ScalarNode
        self._where = where
        self._sizes: dict[int, int | None] = {}
        """Node -> how many values it stands for; None while it is being counted."""

    def count(self, node: Any) -> int:
        key = id(node)
        if key in self._sizes:
            size = self._sizes[key]
            if size is None:
                raise PackageError(f"{self._at(node)}: an alias refers to a value that it is part of")
            return size
        if node.tag not in _PLAIN:
            raise PackageError(f"{self._at(node)}: a value tagged {node.tag!r}; expected what JSON has")
        self._sizes[key] = None
        size = 1 + sum(self.count(child) for child in self._children(node))
        if size > _MAX_VALUES:
            raise PackageError(f"{self._at(node)}: stands for more than {_MAX_VALUES} values")
        self._sizes[key] = size
        return size

    def _children(self, node: Any) -> list[Any]:
        if isinstance(node, self._scalar):
            return []
        if not isinstance(node, self._mapping):
            return node.value
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, self._scalar) or not key.tag.endswith(":str"):
                raise PackageError(f"{self._at(key)}: a key that is no text")
            if key.value in seen:
                raise PackageError(f"{self._at(key)}: the key {key.value!r} stands twice")
            seen.add(key.value)
        return [child for pair in node.value for child in pair]

    def _at(self, node: Any) -> str:
        return f"{self._where}, line {node.start_mark.line + 1}"
