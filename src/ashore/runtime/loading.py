"""From a path to a policy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ashore.errors import BackendError, InputError
from ashore.package import Arrays, Package, load_arrays, read
from ashore.processors import Transform, build
from ashore.runtime.backend import Options, Provider, Session, Signature, find_backend
from ashore.runtime.plan import Plan, Transforms
from ashore.runtime.policy import Policy
from ashore.spec import BATCH, Manifest, Port, Processor


def load(
    path: str | os.PathLike[str] | Package,
    *,
    backend: str = "onnx",
    threads: int = 1,
    providers: Sequence[Provider] | None = None,
    batch: int = 1,
    check_finite: bool = True,
) -> Policy:
    """Open a package and make it ready to run.

    Args:
        path: a package directory, an ``.ashore`` file, or a package that was already read.
        backend: what runs the stages.
        threads: threads within one operation.
        providers: execution providers of ONNX Runtime, most wanted first; one that is missing is an error.
        batch: the length of the symbolic batch axis, for packages that have one.
        check_finite: refuse NaN and infinities in inputs, outputs and states.

    Returns:
        A policy in its initial state.
    """
    package = path if isinstance(path, Package) else read(path)
    manifest = package.manifest
    _check_batch(manifest, batch)
    plan = Plan(
        manifest,
        _open_stages(package, backend, Options(threads=threads, providers=providers)),
        transforms=_build_transforms(package),
        batch=batch,
        check_finite=check_finite,
    )
    return Policy(manifest, plan, package.initial_state(), backend=backend, batch=batch)


def _check_batch(manifest: Manifest, batch: int) -> None:
    if batch < 1:
        raise InputError(f"batch: expected at least 1, got {batch}")
    symbolic = any(BATCH in port.shape for port in (*manifest.inputs.values(), *manifest.outputs.values()))
    if batch != 1 and not symbolic:
        raise InputError(f"batch: this package was exported for a fixed batch; it cannot be loaded with batch={batch}")


def _open_stages(package: Package, backend: str, options: Options) -> dict[str, Session]:
    opener = find_backend(backend)
    sessions: dict[str, Session] = {}
    for name, stage in package.manifest.stages.items():
        artifact = stage.artifacts.get(backend)
        if artifact is None:
            raise BackendError(f"stage {name!r} has no artifact for {backend!r}; it has {sorted(stage.artifacts)}")
        signature = Signature(stage.inputs, stage.outputs)
        where = f"stage {name!r} ({artifact.path})"
        sessions[name] = opener.open(package.read(artifact.path), signature, options, where)
    return sessions


def _build_transforms(package: Package) -> Transforms:
    manifest = package.manifest
    return Transforms(
        _chains(package, manifest.preprocessors, manifest.inputs),
        _chains(package, manifest.postprocessors, manifest.outputs),
    )


def _chains(
    package: Package, processors: Sequence[Processor], ports: Mapping[str, Port]
) -> dict[str, tuple[Transform, ...]]:
    chains: dict[str, tuple[Transform, ...]] = {}
    for processor in processors:
        path = processor.artifact
        arrays: Arrays = {} if path is None else load_arrays(package.read(path), path)
        transform = build(processor, ports[processor.port], arrays)
        chains[processor.port] = (*chains.get(processor.port, ()), transform)
    return chains
