"""The contract that a golden rollout was recorded with, kept beside its arrays.

Numbers alone cannot show that two joints changed their names, or that a gain became zero: nothing that is replayed
reads them. So the rollout carries a copy of the manifest it was recorded with, without what is only said about the
package. Whoever changes the manifest afterwards, by hand or with a tool, leaves a difference that can be named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from ashore.errors import ManifestError, PackageError
from ashore.spec import STATE, Manifest, Port, Provenance, Stage, decode, encode

UNKNOWN: Literal["unknown"] = "unknown"
Contract: TypeAlias = Manifest | Literal["unknown"] | None
"""A manifest of which only what counts is left; ``"unknown"`` where a file was written without one; None where a
rollout is not written yet."""


def contract_of(manifest: Manifest) -> Manifest:
    """A manifest without what is only said about the package: origin, findings, descriptions, and files of no stage."""
    needed = set(_needed(manifest))
    return msgspec.structs.replace(
        manifest,
        manifest_sha256=None,
        version=None,
        description=None,
        licence=None,
        provenance=Provenance(),
        inputs=_bare(manifest.inputs),
        outputs=_bare(manifest.outputs),
        stages={name: _stage(stage) for name, stage in manifest.stages.items()},
        states={
            name: msgspec.structs.replace(state, description=None) for name, state in manifest.states.items()
        },
        findings=(),
        constants=(),
        verification=None,
        files={path: entry for path, entry in manifest.files.items() if path in needed},
        metadata={},
    )  # fmt: skip


def dump_contract(manifest: Manifest) -> str:
    """The contract of a manifest as text; the same manifest gives the same text."""
    return msgspec.json.format(encode(contract_of(manifest)), indent=-1).decode()


def load_contract(text: str, where: str) -> Manifest:
    """Read what `dump_contract` wrote.

    Args:
        text: JSON.
        where: what to call it in an error.
    """
    try:
        return decode(text.encode())
    except (ManifestError, UnicodeError) as error:
        raise PackageError(f"{where}: the contract that it was recorded with: {error}") from error


def _bare(ports: dict[str, Port]) -> dict[str, Port]:
    return {name: msgspec.structs.replace(port, description=None) for name, port in ports.items()}


def _stage(stage: Stage) -> Stage:
    return msgspec.structs.replace(
        stage, inputs=_bare(stage.inputs), outputs=_bare(stage.outputs), description=None
    )  # fmt: skip


def _needed(manifest: Manifest) -> Iterator[str]:
    """The files that decide what is computed."""
    yield STATE
    for stage in manifest.stages.values():
        for artifact in stage.artifacts.values():
            yield from (artifact.path, *artifact.data)
        yield from stage.processor.assets if stage.processor else ()
