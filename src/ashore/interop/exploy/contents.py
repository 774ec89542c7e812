"""A package that was read from one file, and is not written yet."""

from __future__ import annotations

from typing import NamedTuple

from ashore.errors import ManifestError
from ashore.package import Array
from ashore.runtime import Options
from ashore.runtime.onnx import OnnxBackend
from ashore.spec import Manifest, decode, encode


class Contents(NamedTuple):
    """What `ashore.package.write` takes."""

    manifest: Manifest
    files: dict[str, bytes]
    initial: dict[str, Array]


def check_contents(contents: Contents, where: str) -> None:
    """Raise unless the package could be loaded once it is written."""
    try:
        decode(encode(contents.manifest))
    except ManifestError as error:
        raise ManifestError(f"{where}: makes no package: {error}") from error
    for name, stage in contents.manifest.stages.items():
        artifact = stage.artifacts["onnx"]
        OnnxBackend().open(f"{where}: {name}", artifact, [contents.files[artifact.path]], stage, Options())
