"""From a package to one ONNX file that a controller runs tick after tick.

The file is checked before it is put in its place: by ONNX's own checker, by opening it, and by replaying the golden
rollout of the package, if it has one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import onnx
import onnx.checker
from google.protobuf.message import EncodeError

from ashore.errors import BackendError, ExportError, PackageError
from ashore.interop.exploy.assembling import DEFAULT, PROCESS_ACTIONS, assemble
from ashore.interop.exploy.layout import Layout, batch_problems, name_problems, plan, warnings
from ashore.interop.exploy.note import make_note
from ashore.interop.exploy.placing import check_place, place
from ashore.interop.exploy.properties import GROUPS, properties
from ashore.interop.exploy.replaying import Replayed, replay
from ashore.interop.exploy.stages import load_stages, refuse
from ashore.package import Arrays, Golden, Package
from ashore.runtime import Options
from ashore.runtime.one_file import NOTE, memory_in, memory_out
from ashore.runtime.onnx import describe, open_session
from ashore.spec import Manifest

EXPLOY_VERSION = "0.1.0"
"""The version whose controller reads what is written here."""

SUFFIX = ".onnx"


class Written(NamedTuple):
    """A file, and what is in it."""

    path: Path
    size: int
    """Bytes of the file."""

    debug: tuple[Path, ...]
    """The two graphs as files of their own, if they were asked for."""

    inputs: tuple[str, ...]
    """Every input, in order: the count of ticks, those of the package, the memory."""

    outputs: tuple[str, ...]
    memory: dict[str, tuple[str, str]]
    """State -> the input that it is read from, and the output that it is written to."""

    decimation: int
    replayed_ticks: int
    """How many ticks of the golden rollout agreed; 0 where the package has none."""

    max_abs_error: float
    """The largest difference among them."""

    warnings: tuple[str, ...]


def to_exploy(
    package: Package,
    out: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    groups: Mapping[str, Any] | None = None,
    model_source: Any = None,
    date: datetime | None = None,
    exploy_version: str = EXPLOY_VERSION,
    debug: bool = False,
) -> Written:
    """Write a package as one ONNX file. The same package, with the same arguments, gives the same bytes.

    Args:
        package: what to write; every stage needs an ONNX artifact.
        out: the file, whose name ends in ``.onnx``. One that is there is replaced.
        metadata: what else the file says of itself: text as it is, other values as JSON.
        groups: group of ports -> what is said of it, as JSON; by default ``manifest.metadata["groups"]``.
        model_source: where the policy comes from, as JSON.
        date: when it was exported; left out, the file does not say.
        exploy_version: what the file says of the exporter's version.
        debug: also write the two graphs as files of their own, into ``debug/`` beside the file.

    Returns:
        Where it is, what its ports are, and what a controller will do otherwise than the package.

    Raises:
        ExportError: the package cannot be such a file, or the file would not compute the same. Nothing was written.
    """
    target, manifest = Path(out), package.manifest
    if target.suffix != SUFFIX or not target.stem:
        raise PackageError(f"{target}: the name of an ONNX file ends in {SUFFIX}")
    layout = plan(manifest)
    refuse(package, [*name_problems(manifest), *batch_problems(manifest, layout)])
    said = properties(
        manifest,
        layout,
        metadata=metadata or {},
        groups=_groups(manifest) if groups is None else groups,
        model_source=model_source,
        date=date,
        version=exploy_version,
    )
    stages, initial = load_stages(package), package.initial_state()
    said[NOTE] = make_note(manifest, layout, stages, initial)
    made = assemble(manifest, layout, stages, initial)
    for key, text in said.items():
        made.whole.metadata_props.add(key=key, value=text)
    copies = {DEFAULT: made.default, PROCESS_ACTIONS: made.process_actions} if debug else {}
    contents = {target.parent / "debug" / f"{target.stem}_{name}{SUFFIX}": model for name, model in copies.items()}
    for place_at in (*contents, target):
        check_place(place_at)
    proof = _Proof(target, manifest, layout, initial, package.golden())
    place({path: _bytes(model, path) for path, model in (*contents.items(), (target, made.whole))}, proof.check)
    return Written(
        path=target,
        size=target.stat().st_size,
        debug=tuple(contents),
        inputs=tuple(port.name for port in made.whole.graph.input),
        outputs=tuple(port.name for port in made.whole.graph.output),
        memory={name: (memory_in(name), memory_out(name)) for name in manifest.states},
        decimation=layout.decimation,
        replayed_ticks=proof.replayed.ticks,
        max_abs_error=proof.replayed.max_abs_error,
        warnings=(*warnings(manifest), *proof.warnings()),
    )


def _groups(manifest: Manifest) -> dict[str, Any]:
    groups = manifest.metadata.get(GROUPS, {})
    if not isinstance(groups, dict):
        raise ExportError(f"metadata.{GROUPS}: expected a mapping from group to what is said of it, got {groups!r}")
    return cast("dict[str, Any]", groups)


def _bytes(model: onnx.ModelProto, path: Path) -> bytes:
    try:
        return model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ExportError(f"{path}: is too large for one ONNX file: {error}; nothing was written") from error


class _Proof:
    """That what lies on the disk is an ONNX file, can be opened, and computes what was recorded."""

    def __init__(
        self, target: Path, manifest: Manifest, layout: Layout, initial: Arrays, golden: Golden | None
    ) -> None:
        self._target, self._manifest, self._layout = target, manifest, layout
        self._initial, self._golden = initial, golden
        self.replayed = Replayed(0, 0.0)

    def check(self, file: Path, final: Path) -> None:
        """Raise `ExportError` unless a file may take its place."""
        data, where = file.read_bytes(), str(final)
        try:
            onnx.checker.check_model(data)
            session = open_session(data, Options(), where)
            describe(session, where)
        except (onnx.checker.ValidationError, ValueError, BackendError) as error:
            raise ExportError(f"{where}: what was written is no ONNX file that runs: {error}") from error
        if final == self._target and self._golden is not None:
            self.replayed = replay(session, self._manifest, self._layout, self._initial, self._golden)

    def warnings(self) -> list[str]:
        """What could not be proven, though there was something to prove it by."""
        if self._golden is None or self.replayed.ticks:
            return []
        return ["no tick of the golden rollout could be replayed: the file decides and acts on the same inputs at once"]
