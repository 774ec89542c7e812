"""Ports, from Ashore's words to LEAPP's and back.

LEAPP has `name`, `dtype`, `shape`, `kind` and `element_names`, and hands on any other field as it is. Ashore's other
words are written as such fields, under the names they have in a manifest; a field that Ashore has no word for becomes
metadata of the port, and metadata becomes fields again.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ashore.errors import ExportError, PackageError
from ashore.interop.leapp.document import DTYPES, NOTE, PortNote
from ashore.interop.structs import as_struct
from ashore.spec import KINDS, Dim, Finding, Limits, Port, names_its_order
from ashore.spec.kinds import CUSTOM_PREFIX
from ashore.spec.manifest import Source

_Axis: TypeAlias = tuple[str, ...] | str | None
"""The names of an axis, `TEMPORAL_AXIS`, or nothing."""

TEMPORAL_AXIS = "__temporal_axis__"
"""What LEAPP writes instead of names for an axis that is time."""

_PERIOD = "temporal_period_ms"
_AXIS = "temporal_axis"
"""Where the metadata of a port keeps which axis that is."""

_REQUIRED = ("name", "dtype", "shape", "type")
_WORDS: dict[str, tuple[str, Any]] = {
    "isaaclab_connection": ("connection", str),
    "unit": ("unit", str | tuple[str, ...]),
    "frame": ("frame", str),
    "source": ("source", Source),
    "limits": ("limits", Limits),
    "finite": ("finite", bool),
    "description": ("description", str),
}
"""LEAPP field -> Ashore's field, and what it must be. What is something else stays metadata."""


class Described(NamedTuple):
    """A port as a LEAPP file describes it."""

    name: str
    port: Port
    note: PortNote


def describe(name: str, port: Port, note: PortNote) -> dict[str, Any]:
    """A port in LEAPP's words.

    Args:
        name: of the port of the stage.
        port: what is known of it, without a symbolic batch.
        note: what to find again on the way back.
    """
    known = {"name": name, "dtype": port.dtype, "shape": list(port.shape), "type": "tensor"}
    metadata = dict(port.metadata)
    names = _written_names(port, metadata)
    words = {
        "kind": port.kind,
        "element_names": names,
        **{word: msgspec.to_builtins(getattr(port, field)) for word, (field, _) in _WORDS.items()},
    }
    known |= {word: value for word, value in words.items() if value is not None and (word, value) != ("finite", True)}
    clash = (known.keys() | {NOTE}) & metadata.keys()
    if clash:
        raise ExportError(f"port {name!r}: its metadata has {sorted(clash)}, which LEAPP would take for its own fields")
    known |= metadata
    written = msgspec.to_builtins(note)
    return {**known, NOTE: written} if written else known


def _written_names(port: Port, metadata: dict[str, Any]) -> list[list[str] | str | None] | None:
    """The names per axis, from the first axis on that is not a batch of one.

    That is how LEAPP itself writes names, and where Isaac Lab's deployment environment looks for joints: it takes the
    first entry, and where that is null it would use all joints of the robot in its own order.
    """
    axes: list[_Axis] = list(port.element_names or ())
    axis = metadata.get(_AXIS)
    if isinstance(axis, int) and 0 <= axis < len(port.shape) and _PERIOD in metadata:
        del metadata[_AXIS]
        axes = axes or [None] * len(port.shape)
        axes[axis] = TEMPORAL_AXIS
    if not any(axes):
        return None
    short = list(axes)
    while short[0] is None and port.shape[len(axes) - len(short)] == 1:
        short.pop(0)
    written = short if _placements(tuple(short), port.shape) == [tuple(axes)] else axes
    return [list(entry) if isinstance(entry, tuple) else entry for entry in written]


def understand(raw: dict[str, Any], where: str, findings: list[Finding]) -> Described:
    """A port from LEAPP's words.

    Args:
        raw: its description.
        where: what to call it in an error.
        findings: where to add what could not be carried over.
    """
    missing = [key for key in _REQUIRED[:3] if key not in raw]
    if missing:
        raise PackageError(f"{where}: {missing[0]!r} is missing")
    name = raw["name"]
    if not isinstance(name, str) or "/" in name:
        raise PackageError(f"{where}: {name!r} is no name for a port: expected text without a slash")
    where = f"{where} {name!r}"
    if raw.get("type", "tensor") != "tensor":
        raise PackageError(f"{where}: is of type {raw['type']!r}; expected 'tensor'")
    if raw["dtype"] not in DTYPES:
        raise PackageError(f"{where}: has dtype {raw['dtype']!r}; expected one of {', '.join(DTYPES)}")
    shape = _shape(raw["shape"], where)
    note = as_struct(raw.get(NOTE, {}), PortNote, f"{where}: {NOTE}")
    fields: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for key, value in raw.items():
        if key in (*_REQUIRED, NOTE, "kind", "element_names"):
            continue
        field, kind = _WORDS.get(key, (None, None))
        try:
            if field is None:
                metadata[key] = value
            else:
                fields[field] = msgspec.convert(value, kind)
        except msgspec.ValidationError:
            metadata[key] = value
    names, axis = _read_names(raw.get("element_names"), shape, where)
    if axis is not None:
        metadata[_AXIS] = axis
    port = Port(dtype=raw["dtype"], shape=shape, element_names=names, metadata=metadata, **fields)
    return Described(name, _with_kind(port, raw.get("kind"), name, where, findings), note)


def _shape(given: Any, where: str) -> tuple[int, ...]:
    try:
        shape = json.loads(given) if isinstance(given, str) else given  # older files have it as text
    except ValueError:
        shape = given
    if not isinstance(shape, list) or not all(type(dim) is int for dim in shape):
        raise PackageError(f"{where}: has shape {given!r}; expected a list of lengths")
    return tuple(shape)


def _read_names(
    given: Any, shape: tuple[int, ...], where: str
) -> tuple[tuple[tuple[str, ...] | None, ...] | None, int | None]:
    """The names per axis, and the axis that is time.

    LEAPP allows fewer entries than there are axes, and does not say which axes they belong to.
    """
    if given is None:
        return None, None
    entries: Any = [given] if isinstance(given, str) else given
    if not isinstance(entries, list):
        raise PackageError(f"{where}: element_names: expected a list, got {given!r}")
    if entries and all(isinstance(entry, str) for entry in entries) and TEMPORAL_AXIS not in entries:
        entries = [entries]
    for entry in entries:
        named = isinstance(entry, list) and all(isinstance(name, str) for name in entry)
        if not named and entry is not None and entry != TEMPORAL_AXIS:
            raise PackageError(f"{where}: element_names: expected a list of names, or null, per axis; got {entry!r}")
    fitting = _placements(tuple(tuple(entry) if isinstance(entry, list) else entry for entry in entries), shape)
    if len(fitting) != 1:
        why = "fit more than one way" if fitting else "do not fit"
        raise PackageError(f"{where}: element_names: {given!r} {why} shape {list(shape)}; give one entry per axis")
    axes = fitting[0]
    time = axes.index(TEMPORAL_AXIS) if TEMPORAL_AXIS in axes else None
    names = tuple(axis if isinstance(axis, tuple) else None for axis in axes)
    return names if any(names) else None, time


def _placements(entries: tuple[_Axis, ...], shape: tuple[Dim, ...]) -> list[tuple[_Axis, ...]]:
    """The ways in which entries may belong to axes: to the last ones, or to the first ones.

    Where only axes of length one would be left over before them, the last ones are meant.
    """
    short = len(shape) - len(entries)
    if short < 0:
        return []
    last = (None,) * short + entries
    if _fit(last, shape) and all(dim == 1 for dim in shape[:short]):
        return [last]
    return [axes for axes in dict.fromkeys((last, entries + (None,) * short)) if _fit(axes, shape)]


def _fit(axes: tuple[_Axis, ...], shape: tuple[Dim, ...]) -> bool:
    return all(not isinstance(axis, tuple) or len(axis) == dim for axis, dim in zip(axes, shape, strict=True))


def _with_kind(port: Port, kind: Any, name: str, where: str, findings: list[Finding]) -> Port:
    """A port with its kind, unless the kind says what cannot be bound: then it is set aside, and a finding says so."""
    if kind is None:
        return port
    if not isinstance(kind, str):
        raise PackageError(f"{where}: kind: expected text, got {kind!r}")
    if kind not in KINDS and not kind.startswith(CUSTOM_PREFIX):
        kind = CUSTOM_PREFIX + kind
    if names_its_order(port, kind):
        return msgspec.structs.replace(port, kind=kind)
    findings.append(
        Finding(
            name="kind_without_names",
            severity="warning",
            message=f"the kind {kind!r} was set aside: the LEAPP file does not name the elements of {name!r} in order",
            tensor=name,
            remedy="give element_names where the policy is annotated, and export it again",
        )
    )
    return msgspec.structs.replace(port, metadata={**port.metadata, "kind": kind})
