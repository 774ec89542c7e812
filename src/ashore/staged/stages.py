"""From a module of a policy to an artifact: it is recorded like any code, alone, and checked before it is used."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch.utils._pytree import tree_leaves

from ashore.capture import record
from ashore.errors import ExportError
from ashore.package import read
from ashore.spec import Artifact, Finding, Frozen, Stage
from ashore.staged.exportable import ExportInputs

_STEPS = 4
"""How many inputs a module is recorded with: the example, and others near it."""


class Captured(NamedTuple):
    """A module as a stage of a package."""

    stage: Stage
    files: dict[str, bytes]
    constants: tuple[Frozen, ...]
    findings: tuple[Finding, ...]


def capture(name: str, module: torch.nn.Module, inputs: ExportInputs, options: Mapping[str, Any]) -> Captured:
    """Record a module, and export it alone.

    Args:
        name: of the stage.
        module: a pure function of its inputs, in evaluation mode.
        inputs: an example, and the names.
        options: of `ashore.capture.options.ExportOptions`.
    """
    if len(inputs.tensors) != len(inputs.input_names):
        raise ExportError(
            f"stage {name!r}: {len(inputs.tensors)} tensors for the inputs {list(inputs.input_names)}; expected as many"
        )
    with tempfile.TemporaryDirectory() as scratch:
        with torch.no_grad(), record(name, scratch, summary=False, picture=False, **options) as recorder:
            for tensors in variations(inputs.tensors):
                with recorder.step():
                    given = [
                        recorder.input(port, tensor) for port, tensor in zip(inputs.input_names, tensors, strict=True)
                    ]
                    results = named_results(name, module(*given), inputs.output_names)
                    for port, result in results.items():
                        recorder.output(port, result)
        package = read(Path(scratch) / name)
        manifest = package.manifest
        if manifest.states:
            raise ExportError(
                f"stage {name!r}: its module keeps {sorted(manifest.states)} from call to call; expected a pure "
                f"function"
            )
        (stage,) = manifest.stages.values()
        lost = [port for port in inputs.input_names if port not in stage.inputs]
        if lost:
            raise ExportError(f"stage {name!r}: nothing in its module reads {lost}; leave them out")
        files = {path: package.read(path) for one in stage.artifacts.values() for path in (one.path, *one.data)}
    moved = {path: f"artifacts/{name}{''.join(Path(path).suffixes)}" for path in files}
    artifacts = {backend: _moved(one, moved) for backend, one in stage.artifacts.items()}
    renamed = Stage(rate="policy", inputs=stage.inputs, outputs=stage.outputs, artifacts=artifacts)
    return Captured(
        renamed,
        {moved[path]: data for path, data in files.items()},
        manifest.constants,
        manifest.findings,
    )


def variations(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """The example, and inputs near it; what is not a floating-point number stays as it is."""
    generator = torch.Generator().manual_seed(0)

    def near(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor.clone()
        return tensor + 0.1 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)

    return [[one.clone() for one in tensors], *([near(one) for one in tensors] for _ in range(_STEPS - 1))]


def named_results(name: str, results: Any, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """What a module gave, by name: a tensor, a tuple of tensors, or nested ones in order."""
    flat = tree_leaves(results)
    if len(flat) != len(names):
        raise ExportError(f"stage {name!r}: its module gives {len(flat)} tensors; expected {list(names)}")
    return dict(zip(names, flat, strict=True))


def _moved(artifact: Artifact, places: Mapping[str, str]) -> Artifact:
    return msgspec.structs.replace(
        artifact, path=places[artifact.path], data=tuple(places[path] for path in artifact.data)
    )
