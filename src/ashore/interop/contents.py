"""A package that was read from a neighbour's file, and is not written yet."""

from __future__ import annotations

from typing import NamedTuple

from ashore.errors import ManifestError, PackageError
from ashore.package import Array
from ashore.processors import build
from ashore.runtime import Options
from ashore.runtime.backend import Session
from ashore.runtime.loops import Body, open_loop
from ashore.runtime.onnx import OnnxBackend
from ashore.runtime.processing import ProcessorSession
from ashore.spec import Manifest, Stage, decode, encode


class Contents(NamedTuple):
    """What `ashore.package.write` takes."""

    manifest: Manifest
    files: dict[str, bytes]
    initial: dict[str, Array]

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        if path not in self.files:
            raise PackageError(f"there is no file {path!r}")
        return self.files[path]


def check_contents(contents: Contents, where: str) -> None:
    """Raise unless the package could be loaded once it is written."""
    try:
        decode(encode(contents.manifest))
    except ManifestError as error:
        raise ManifestError(f"{where}: makes no package: {error}") from error
    stages = contents.manifest.stages
    opened = {
        name: _open(contents, f"{where}: {name}", stage) for name, stage in stages.items() if stage.runner is None
    }
    for name, stage in stages.items():
        if stage.runner is not None:
            open_loop(
                f"{where}: {name}", stage, [Body(body, stages[body], opened[body]) for body in stage.runner.stages]
            )


def _open(contents: Contents, where: str, stage: Stage) -> Session:
    if stage.processor is not None:
        return ProcessorSession(build(where, stage, contents.read))
    artifact = stage.artifacts["onnx"]
    return OnnxBackend().open(where, artifact, [contents.read(artifact.path)], stage, Options())
