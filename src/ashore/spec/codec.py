"""Manifests to JSON and back, strictly.

Reading refuses everything a robot engineer would not want guessed: unknown keys, wrong types, NaN, keys given twice,
versions from the future. Every refusal names the path in the file. Writing keeps floats to the bit.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from ashore.errors import ManifestError
from ashore.spec.checks import check, check_values
from ashore.spec.manifest import FORMAT, SCHEMA_VERSION, Manifest
from ashore.spec.migrations import migrate

MAX_MANIFEST_BYTES = 16 * 1024 * 1024


def encode(manifest: Manifest) -> bytes:
    """Turn a manifest into the JSON that is stored, after checking that it can be read again.

    Args:
        manifest: the contract.

    Returns:
        UTF-8 JSON, indented for people. The same manifest gives the same bytes.
    """
    check_values(manifest)  # structs made by code are not checked when they are made
    try:
        compact = msgspec.json.encode(manifest)
    except TypeError as error:
        raise ManifestError(f"manifest.json: cannot be written as JSON: {error}") from error
    decode(compact)
    return msgspec.json.format(compact, indent=2) + b"\n"


def decode(data: bytes) -> Manifest:
    """Read a manifest from the bytes of ``manifest.json``.

    Args:
        data: the whole file.

    Returns:
        The manifest in the current schema version, with every rule of `ashore.spec.checks` holding.

    Raises:
        ManifestError: naming the path in the file.
    """
    document = _parse(data)
    if document.get("format") != FORMAT:
        raise ManifestError(
            f"manifest.json: format: expected {FORMAT!r}, got {document.get('format')!r}; this is not an Ashore package"
        )
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise ManifestError(f"manifest.json: schema_version: expected a whole number from 1, got {version!r}")
    if version > SCHEMA_VERSION:
        raise ManifestError(
            f"manifest.json: schema_version: this package has version {version}, and this Ashore reads up to "
            f"{SCHEMA_VERSION}; update ashore to read it"
        )
    document = migrate(document, version)
    try:
        manifest = msgspec.convert(document, Manifest)
    except msgspec.ValidationError as error:
        path, message = _locate(document, Manifest, "") or ("", str(error))
        raise ManifestError(f"manifest.json: {path.lstrip('.') or 'top level'}: {message}") from None
    check_values(manifest)
    check(manifest)
    return manifest


class _Duplicated(dict[str, Any]):
    """A JSON object in which a key stands twice; found again by a walk, which knows the path."""

    key: str = ""


def _parse(data: bytes) -> dict[str, Any]:
    duplicated = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicated
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        duplicated = True
        marked = _Duplicated(built)
        names = [key for key, _ in pairs]
        marked.key = next(key for key in names if names.count(key) > 1)
        return marked

    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"manifest.json: {len(data)} bytes; a manifest has at most {MAX_MANIFEST_BYTES}")
    try:
        text = data.decode("utf-8")
        document: object = json.loads(
            text, object_pairs_hook=build, parse_constant=_refuse_constant, parse_float=_finite
        )
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # a lone surrogate parses but is no text
    except UnicodeError as error:
        raise ManifestError(f"manifest.json: not UTF-8 text: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest.json: not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ManifestError(f"manifest.json: expected an object at the top, got {type(document).__name__}")
    found = cast("dict[str, Any]", document)
    if duplicated:
        path, key = next(_find_duplicates(found, ""))
        raise ManifestError(f"manifest.json: {path.lstrip('.') or 'top level'}: the key {key!r} is given twice")
    return found


def _refuse_constant(token: str) -> float:
    raise ValueError(f"{token} is no JSON number")


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise ValueError(f"the number {token} is too large for a float64")
    return value


def _find_duplicates(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _Duplicated):
        yield path, value.key
    for step, child in _items(value):
        yield from _find_duplicates(child, path + step)


def _items(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, child in cast("dict[str, Any]", value).items():
            yield (f".{key}" if key.isidentifier() else f"[{json.dumps(key)}]"), child
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[Any]", value)):
            yield f"[{index}]", child


def _locate(value: object, expected: Any, path: str) -> tuple[str, str] | None:
    """Find the innermost part of a document that does not fit its type.

    msgspec names a faulty entry of a mapping only as ``[...]``; a person needs the key.
    """
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        for (step, child), child_type in zip(_items(value), _child_types(value, expected), strict=False):
            found = None if child_type is None else _locate(child, child_type, path + step)
            if found is not None:
                return found
        return path, str(error).split(" - at `")[0].replace("`", "'")
    return None


def _child_types(value: object, expected: Any) -> Iterator[Any]:
    """The type of each child of `value`, in the order of `_items`; None where any value may stand."""
    origin = typing.get_origin(expected)
    if origin in (typing.Union, types.UnionType):
        fitting = [option for option in typing.get_args(expected) if _may_hold(option, value)]
        if len(fitting) == 1:
            yield from _child_types(value, fitting[0])
    elif isinstance(value, dict):
        keys = list(cast("dict[str, Any]", value))
        if isinstance(expected, type) and issubclass(expected, msgspec.Struct):
            hints = typing.get_type_hints(expected)
            yield from (hints.get(key) for key in keys)
        elif origin is dict:
            yield from [typing.get_args(expected)[1]] * len(keys)
    elif isinstance(value, list) and origin is tuple:
        yield from [typing.get_args(expected)[0]] * len(cast("list[Any]", value))


def _may_hold(expected: Any, value: object) -> bool:
    container = typing.get_origin(expected) or expected
    if isinstance(value, list):
        return container is tuple
    if not isinstance(value, dict):
        return False
    return container is dict or (isinstance(container, type) and issubclass(container, msgspec.Struct))
