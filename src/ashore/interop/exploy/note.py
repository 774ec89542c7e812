"""What Ashore notes in a one-file policy, so that the package can be had back from it.

The note is JSON, under one key of the file's metadata, which controllers hand on unread.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ashore.errors import ManifestError, PackageError
from ashore.interop.exploy.layout import Layout
from ashore.interop.exploy.stages import StageModel
from ashore.package import Array, Arrays
from ashore.runtime.one_file import NOTE, stored_array
from ashore.spec import DType, Manifest, decode, encode

_VERSION = 1


class StageNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file of a stage says of itself."""

    opsets: dict[str, int]
    ir_version: int


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array, its bytes in base64, row by row and least significant byte first."""

    dtype: DType
    shape: tuple[int, ...]
    data: str


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole note."""

    version: int = _VERSION
    root: str
    decided: str
    held: dict[str, str] = {}
    stages: dict[str, StageNote]
    initial: dict[str, Value] = {}
    manifest: dict[str, Any]
    """Without files, seal, verification, and artifacts that are not ONNX: what it is in the file's own hands."""


def make_note(manifest: Manifest, layout: Layout, stages: Mapping[str, StageModel], initial: Arrays) -> str:
    """The note of a package, as JSON."""
    note = Note(
        root=layout.root,
        decided=layout.decided,
        held=layout.held,
        stages={
            name: StageNote(opsets=dict(model.opsets), ir_version=model.ir_version) for name, model in stages.items()
        },
        initial={name: _written(value) for name, value in initial.items()},
        manifest=json.loads(encode(portable(manifest))),
    )
    return msgspec.json.encode(note).decode()


def portable(manifest: Manifest) -> Manifest:
    """A manifest without what a file of its own makes meaningless."""
    stages = {
        name: msgspec.structs.replace(stage, artifacts={"onnx": stage.artifacts["onnx"]})
        for name, stage in manifest.stages.items()
    }
    return msgspec.structs.replace(manifest, files={}, manifest_sha256=None, verification=None, stages=stages)


def read_note(text: str, where: str) -> tuple[Note, Manifest, dict[str, Array]]:
    """The note, the manifest in it, and the initial states.

    Args:
        text: the JSON.
        where: what to call the file in an error.
    """
    where = f"{where}: its {NOTE!r} note"
    try:
        version = json.loads(text)["version"]
        if type(version) is not int or version > _VERSION:
            raise PackageError(f"{where} has version {version!r}, and this Ashore reads {_VERSION}; update ashore")
        note = msgspec.json.decode(text, type=Note)
        manifest = decode(json.dumps(note.manifest).encode())
    except (ValueError, TypeError, LookupError, RecursionError, msgspec.MsgspecError, ManifestError) as error:
        raise PackageError(f"{where} cannot be read: {error}") from error
    return note, manifest, {name: _read(value, f"{where}: initial.{name}") for name, value in note.initial.items()}


def _written(value: Array) -> Value:
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes()).decode()
    return Value(dtype=cast("DType", value.dtype.name), shape=value.shape, data=data)


def _read(value: Value, where: str) -> Array:
    try:
        return stored_array(value.dtype, value.shape, value.data)
    except ValueError as error:
        raise PackageError(f"{where} cannot be read: {error}") from error
