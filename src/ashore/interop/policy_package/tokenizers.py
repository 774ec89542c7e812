"""The tokenizer of such a directory, and of one that is written.

Its runtime hands the directory to transformers, which chooses a class by its files. What a package holds is
``tokenizer.json`` alone, so what the other files say of it has to be known here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ashore.errors import PackageError
from ashore.interop.folders import read_inside
from ashore.interop.policy_package.document import load_json
from ashore.spec import path_problem

FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"
_SPECIAL = "special_tokens_map.json"
MAX_TOKENIZER_BYTES = 256 << 20

Side = Literal["left", "right"]


class Tokenizer(NamedTuple):
    """What a package needs of a tokenizer."""

    path: str
    """In the directory, and in the package."""

    data: bytes
    pad_id: int
    truncation_side: Side
    tokenizer_class: str | None


def read_tokenizer(folder: Path, artifact: str, where: str) -> Tokenizer:
    """Read the tokenizer that a processor names.

    Args:
        folder: the directory with the manifest.
        artifact: the directory of the tokenizer, relative to it.
        where: what to call the place that names it in an error.
    """
    if problem := path_problem(artifact):
        raise PackageError(f"{where}.artifact: {artifact!r}: {problem}")
    path = f"{artifact}/{FILE}"
    data = read_inside(folder, path, where, MAX_TOKENIZER_BYTES + 1)
    vocabulary = _object(load_json(data, f"{where}: {path}", MAX_TOKENIZER_BYTES), f"{where}: {path}")
    config = _beside(folder, f"{artifact}/{CONFIG}", where)
    special = _beside(folder, f"{artifact}/{_SPECIAL}", where)
    side = config.get("truncation_side", "right")
    if side not in ("left", "right"):
        raise PackageError(f"{where}: {artifact}/{CONFIG}: truncation_side: expected 'left' or 'right', got {side!r}")
    pad = config.get("pad_token") or special.get("pad_token")
    name = pad.get("content") if isinstance(pad, dict) else pad
    if not isinstance(name, str):
        raise PackageError(f"{where}: neither {CONFIG} nor {_SPECIAL} in {artifact!r} says the pad_token")
    number = _ids(vocabulary).get(name)
    if number is None:
        raise PackageError(f"{where}: {path} has no token {name!r}, which is the pad_token")
    kind = config.get("tokenizer_class")
    return Tokenizer(path, data, number, cast("Side", side), kind if isinstance(kind, str) else None)


def config_of(data: bytes, pad_id: int, padding_side: str, truncation_side: str, max_length: int, where: str) -> bytes:
    """A ``tokenizer_config.json`` with which transformers reads a ``tokenizer.json`` as it is."""
    names = {number: name for name, number in _ids(_object(load_json(data, where, MAX_TOKENIZER_BYTES), where)).items()}
    if pad_id not in names:
        raise PackageError(f"{where}: has no token {pad_id}, which fills texts up")
    config = {
        "model_max_length": max_length,
        "pad_token": names[pad_id],
        "padding_side": padding_side,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "truncation_side": truncation_side,
    }
    return json.dumps(config, indent=2).encode() + b"\n"


def _beside(folder: Path, path: str, where: str) -> Mapping[str, Any]:
    """A file that need not be there."""
    if not (folder / path).exists() and not (folder / path).is_symlink():
        return {}
    data = read_inside(folder, path, where, MAX_TOKENIZER_BYTES + 1)
    return _object(load_json(data, f"{where}: {path}", MAX_TOKENIZER_BYTES), f"{where}: {path}")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PackageError(f"{where}: expected an object, got {type(value).__name__}")
    return cast("dict[str, Any]", value)


def _ids(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Token -> its number, as far as the file says it in a form that is known."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    found: dict[str, int] = {}
    if isinstance(vocabulary, dict):
        found = {name: number for name, number in vocabulary.items() if type(number) is int}
    elif isinstance(vocabulary, list):  # a list of pairs, of which the place is the number
        found = {one[0]: place for place, one in enumerate(vocabulary) if _named(one)}
    added = tokenizer.get("added_tokens")
    for one in added if isinstance(added, list) else ():
        if isinstance(one, dict) and isinstance(one.get("content"), str) and type(one.get("id")) is int:
            found[one["content"]] = one["id"]
    return found


def _named(one: object) -> bool:
    return isinstance(one, list) and bool(one) and isinstance(one[0], str)
