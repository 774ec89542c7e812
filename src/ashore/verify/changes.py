"""What is different between two contracts, said the way a person would look for it.

Joints are compared by their names, wires by where they end, ports by what they are called: a joint that lost its gain
is one line, not twelve lines of numbers that moved up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from ashore.package import contract_of
from ashore.spec import Manifest, Wire

_SIDES = ("inputs", "outputs")


@dataclass(frozen=True)
class Change:
    """One difference."""

    where: str
    """A path such as ``joints/FR_hip/kp`` or ``inputs/joint_pos/element_names``."""

    what: Literal["added", "removed", "changed"]
    before: Any
    """JSON; None where it was added."""

    after: Any
    """JSON; None where it was removed."""

    detail: str = ""
    """What it comes to, where the two values alone are hard to read."""

    @property
    def message(self) -> str:
        """One line: where, what it was, what it is."""
        if self.detail:
            return f"{self.where}: {self.detail}"
        if self.what == "changed":
            return f"{self.where}: was {_shown(self.before)}, is {_shown(self.after)}"
        return f"{self.where}: {self.what}"


def changes(before: Manifest, after: Manifest) -> list[Change]:
    """Every difference between two manifests in what counts; files are left out, and so is what is only said.

    Args:
        before: the one that the differences are told from.
        after: the other.
    """
    old, new = (_plain(contract_of(manifest)) for manifest in (before, after))
    found = list(_compared("name", old.pop("name"), new.pop("name")))
    for side in _SIDES:
        found += _members(side, old.pop(side), new.pop(side))
    found += _joints(old.pop("joints", []), new.pop("joints", []))
    found += _wires(before.wires, after.wires)
    for document in (old, new):
        for name in ("wires", "files", "format", "schema_version"):
            document.pop(name, None)
    for name in dict.fromkeys((*old, *new)):
        both = old.get(name), new.get(name)
        if name in ("stages", "states"):
            found += _members(name, both[0] or {}, both[1] or {})
        else:
            found += _compared(name, *both)
    return found


def changed_files(before: Manifest, after: Manifest) -> list[Change]:
    """The files of stages whose bytes are different, by the stage and its backend."""
    old, new = (dict(_stage_files(manifest)) for manifest in (before, after))
    found: list[Change] = []
    for where, path in new.items():
        if where not in old:
            continue
        digests = [
            manifest.files[name].sha256 if name in manifest.files else None
            for manifest, name in ((before, old[where]), (after, path))
        ]
        if digests[0] != digests[1]:
            found.append(Change(where, "changed", *digests, detail=f"{path} is not the same file"))
    return found


def _stage_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for name, stage in manifest.stages.items():
        for backend, artifact in stage.artifacts.items():
            yield f"stages/{name}/{backend}", artifact.path
            yield from ((f"stages/{name}/{backend}/data[{number}]", path) for number, path in enumerate(artifact.data))
        for path in stage.processor.assets if stage.processor else ():
            yield f"stages/{name}/{path.rpartition('/')[2]}", path


def _plain(manifest: Manifest) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(manifest)
    return document


def _compared(where: str, before: Any, after: Any) -> Iterator[Change]:
    """The differences between two JSON values, as deep as both are objects."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _members(where, cast("dict[str, Any]", before), cast("dict[str, Any]", after))
    elif before != after:
        if where.endswith("/element_names"):
            yield Change(where, "changed", before, after, _reordered(before, after))
        else:
            yield Change(where, "changed", before, after)


def _members(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *after)):
        path = f"{where}/{name}"
        if name not in after:
            yield Change(path, "removed", before[name], None)
        elif name not in before:
            yield Change(path, "added", None, after[name])
        else:
            yield from _compared(path, before[name], after[name])


def _joints(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    old, new = ({joint["name"]: dict(joint) for joint in joints} for joints in (before, after))
    yield from _members("joints", old, new)
    orders = [[name for name in one if name in other] for one, other in ((old, new), (new, old))]
    if orders[0] != orders[1]:
        yield Change("joints", "changed", *orders, detail=_moved(*orders))


def _wires(before: Sequence[Wire], after: Sequence[Wire]) -> Iterator[Change]:
    feeds = [_feeds(wires) for wires in (before, after)]
    for target in dict.fromkeys((*feeds[0], *feeds[1])):
        old, new = (feed.get(target, []) for feed in feeds)
        if old != new:
            detail = f"was fed by {' and '.join(old) or 'nothing'}, is fed by {' and '.join(new) or 'nothing'}"
            yield Change(f"wires to {target}", "changed", old, new, detail)


def _feeds(wires: Sequence[Wire]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for wire in wires:
        found.setdefault(wire.target, []).append(wire.source)
    return {target: sorted(sources) for target, sources in found.items()}


def _reordered(before: Any, after: Any) -> str:
    """Which element has which name now; empty where the two cannot be laid side by side."""
    if not before or not after or len(before) != len(after):
        return ""
    for axis, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new and old and new and len(old) == len(new):
            return f"axis {axis}: {_moved(old, new)}"
    return ""


def _moved(before: Sequence[str], after: Sequence[str]) -> str:
    moved = [(place, old, new) for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    shown = "; ".join(f"element {place} was {old!r}, is {new!r}" for place, old, new in moved[:4])
    return shown + (f"; and {len(moved) - 4} more" if len(moved) > 4 else "")


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
