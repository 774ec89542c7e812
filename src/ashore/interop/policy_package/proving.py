"""That a directory which was written can be read, and that what is read computes what the package recorded."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from ashore.errors import AshoreError, ExportError, PackageError
from ashore.interop.policy_package.reading import convert
from ashore.package import Array, Package, decode_text, encode_text, write
from ashore.runtime import load
from ashore.spec import NOISE, TEXT, Manifest, Port
from ashore.verify.replay import DEFAULT_ATOL, DEFAULT_RTOL


class Proof:
    """The check of one directory, and what it found."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self.steps, self.max_abs_error = 0, 0.0

    def check(self, folder: Path) -> None:
        """Raise `ExportError` unless a directory may be kept."""
        try:
            contents = convert(folder)
            with tempfile.TemporaryDirectory() as scratch:
                back = write(Path(scratch) / "back", contents.manifest, files=contents.files, initial=contents.initial)
                self._replay(back)
        except ExportError:
            raise
        except AshoreError as error:
            raise ExportError(f"what was written cannot be read back, so it was not kept: {error}") from error

    def _replay(self, back: Package) -> None:
        golden = self._package.golden()
        if golden is None:
            return
        names = _inputs_of(self._package.manifest, back.manifest)
        proof = self._package.manifest.verification
        passed = proof is not None and proof.status == "passed"
        atol = proof.atol if proof and passed and proof.atol is not None else DEFAULT_ATOL
        rtol = proof.rtol if proof and passed and proof.rtol is not None else DEFAULT_RTOL
        policy = load(back)
        for tick in golden.ticks:
            if tick.reset:
                policy.reset()
            given = {names[name]: _for_one(value, policy.inputs[names[name]]) for name, value in tick.inputs.items()}
            (got,) = policy.step(given).values()
            (wanted,) = (value[: len(got)] for value in tick.outputs.values())
            if got.shape != wanted.shape or not np.allclose(got, wanted, rtol=rtol, atol=atol):
                raise ExportError(
                    f"step {tick.index} of the golden rollout: expected {wanted.ravel()[:4]}, and what was written "
                    f"computes {got.ravel()[:4]}; nothing was kept"
                )
            self.max_abs_error = max(self.max_abs_error, float(np.abs(got - wanted).max(initial=0.0)))
            self.steps += 1


def _inputs_of(manifest: Manifest, back: Manifest) -> dict[str, str]:
    """Input of a package -> what it is called in what was read back: noise has no name in that format."""
    noise = [name for name, port in back.inputs.items() if port.kind == NOISE]
    names: dict[str, str] = {}
    for name, port in manifest.inputs.items():
        if port.kind == NOISE and noise:
            names[name] = noise[0]
        elif name in back.inputs:
            names[name] = name
        else:
            raise PackageError(f"the input {name!r} was lost")
    return names


def _for_one(value: Array, port: Port) -> Array:
    """What one robot gives, of what one or several gave: that format serves one, and texts may be longer there."""
    first = value[: int(port.shape[0])]
    if port.kind != TEXT:
        return first
    return encode_text([decode_text(row) for row in first], int(port.shape[1]))
