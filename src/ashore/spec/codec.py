"""Manifests to JSON and back, strictly.

Reading refuses everything a robot engineer would not want guessed: unknown keys, wrong types, NaN, keys given twice,
versions from the future. Every refusal names the path in the file. Writing keeps floats to the bit.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections import Counter
from collections.abc import Iterator, Sequence
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
        raise ManifestError(f"manifest.json: {_spoken(path)}: {message}") from None
    check_values(manifest)
    check(manifest)
    return manifest


class _Flaw:
    """Stands in a parsed document where something must be refused; a walk finds it again, and knows its path."""

    def __init__(self, message: str) -> None:
        self.message = message


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"manifest.json: {len(data)} bytes; a manifest has at most {MAX_MANIFEST_BYTES}")
    try:
        document: object = json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant, parse_float=_number
        )
        path, flaw = next(_flaws(document, ""), ("", None))
        if flaw is None:
            json.dumps(document, ensure_ascii=False).encode("utf-8")  # a lone surrogate parses but is no text
    except UnicodeError as error:
        raise ManifestError(f"manifest.json: not UTF-8 text: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest.json: not valid JSON: {error}") from error
    if flaw is not None:
        raise ManifestError(f"manifest.json: {_spoken(path)}: {flaw}")
    if not isinstance(document, dict):
        raise ManifestError(f"manifest.json: expected an object at the top, got {type(document).__name__}")
    return cast("dict[str, Any]", document)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                built[key] = _Flaw("the key is given twice")
    return built


def _constant(token: str) -> _Flaw:
    return _Flaw(f"{token} is no JSON number")


def _number(token: str) -> float | _Flaw:
    value = float(token)
    return value if math.isfinite(value) else _Flaw(f"the number {token[:40]} is too large for a float64")


def _flaws(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _Flaw):
        yield path, value.message
    for step, child in _items(value):
        yield from _flaws(child, path + step)


def _spoken(path: str) -> str:
    return path.lstrip(".") or "top level"


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


def plain(value: Any) -> Any:
    """What JSON can say of a value: NaN and infinities, which it does not have, become text."""
    if isinstance(value, dict):
        return {key: plain(child) for key, child in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(child) for child in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
