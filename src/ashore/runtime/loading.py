"""From a path to a policy."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ashore.errors import BackendError, InputError, ManifestError, suggestion
from ashore.package import Package, read
from ashore.processors import build
from ashore.runtime.backend import (
    BY_POSITION,
    Options,
    Provider,
    Session,
    artifact_of,
    backend_name,
    check_options,
    default_backend,
    find_backend,
)
from ashore.runtime.loops import Body, Stepped, open_loop
from ashore.runtime.plan import Plan
from ashore.runtime.policy import Policy
from ashore.runtime.processing import ProcessorSession
from ashore.runtime.queueing import ActionQueue, find_queue
from ashore.runtime.whole import check_whole_options, open_whole, whole_backend
from ashore.spec import ACTION_QUEUE, BATCH, DTYPE_BYTES, MAX_ARRAY_BYTES, SINGLE_PASS, Manifest, Stage, concrete

if TYPE_CHECKING:
    from ashore.runtime.ranges import Ranges

BackendChoice: TypeAlias = str | Mapping[str, str] | None
"""One backend for all stages, or stage -> backend. None, or a stage that is left out, is ONNX Runtime where the stage
has an ONNX artifact, else whatever it has. A backend that runs a whole package (``"c"``) is chosen for all stages."""

_MAX_THREADS = 1024


def load(
    path: str | os.PathLike[str] | Package,
    *,
    backend: BackendChoice = None,
    threads: int = 1,
    providers: Sequence[Provider] | None = None,
    device: str | None = None,
    properties: Mapping[str, Any] | None = None,
    batch: int = 1,
    check_finite: bool = True,
) -> Policy:
    """Open a package and make it ready to run.

    Args:
        path: a package directory, an ``.ashore`` file, or a package that was already read.
        backend: what runs the stages: one name, or a mapping from stage to name. By default ONNX Runtime, and for a
            stage that has no ONNX artifact whatever it has.
        threads: threads within one operation.
        providers: execution providers of ONNX Runtime, most wanted first; one that is missing is an error.
        device: where the stages run, such as ``"cpu"``, ``"cuda"`` or, on OpenVINO, ``"GPU"``; one that is not there
            is an error. None is the CPU, or what `providers` says.
        properties: properties of OpenVINO, which override those that Ashore sets.
        batch: the length of the symbolic batch axis, for packages that have one.
        check_finite: refuse NaN and infinities in inputs, outputs and states.

    Returns:
        A policy in its initial state.
    """
    options = Options(threads=threads, providers=providers, device=device, properties=properties)
    _check_arguments(path, backend, options)
    package = path if isinstance(path, Package) else read(path)
    manifest = package.manifest
    _check_batch(manifest, batch)
    if manifest.runner.type not in (SINGLE_PASS, ACTION_QUEUE):
        raise ManifestError(
            f"{package.path}: this Ashore has no runner {manifest.runner.type!r}, only {SINGLE_PASS!r} and "
            f"{ACTION_QUEUE!r}"
        )
    _check_chosen(manifest, backend)
    whole = whole_backend(package, backend)
    if whole is not None:
        check_whole_options(whole, options)
        plan = open_whole(whole, package, batch=batch, check_finite=check_finite)
        return Policy(
            manifest,
            plan,
            package.initial_state(),
            batch=batch,
            check_finite=check_finite,
            seen=partial(_ranges, package),
        )
    sessions = open_stages(package, backend, options)
    return assemble(package, sessions, batch=batch, check_finite=check_finite)


def assemble(package: Package, sessions: Mapping[str, Session], *, batch: int = 1, check_finite: bool = True) -> Policy:
    """Make a policy of a package whose stages are open.

    Args:
        package: what they belong to.
        sessions: stage -> what runs it.
        batch: the length of the symbolic batch axis.
        check_finite: refuse NaN and infinities.
    """
    manifest = package.manifest
    found = find_queue(manifest, str(package.path))
    plan = Plan(manifest if found is None else found.rest, sessions, batch=batch, check_finite=check_finite)
    queue = None if found is None else ActionQueue(found, plan, batch)
    initial = package.initial_state()
    stepped = [session for session in sessions.values() if isinstance(session, Stepped)]
    return Policy(
        manifest, plan, initial,
        batch=batch, check_finite=check_finite, queue=queue, stepped=stepped, seen=partial(_ranges, package),
    )  # fmt: skip


def _ranges(package: Package) -> Ranges | None:
    from ashore.runtime.ranges import Ranges  # a policy that is only stepped does not pay for it

    golden = package.golden()
    return None if golden is None else Ranges(golden, package.manifest)


def open_stages(package: Package, backend: BackendChoice, options: Options) -> dict[str, Session]:
    """Open every stage of a package."""
    stages = package.manifest.stages
    chosen = dict.fromkeys(stages, backend) if isinstance(backend, str) else dict(backend or {})
    _check_chosen(package.manifest, backend)
    names: dict[str, str] = {}
    for name, stage in stages.items():
        if stage.artifacts:
            asked = chosen.get(name)
            where = f"{package.path}: stage {name!r}"
            names[name] = default_backend(where, stage) if asked is None else backend_name(asked)
    check_options(options, list(names.values()))
    opened = {
        name: _open_stage(package, name, stage, names.get(name), options)
        for name, stage in stages.items()
        if stage.runner is None
    }
    for name, stage in stages.items():
        if stage.runner is not None:
            bodies = [Body(body, stages[body], opened[body]) for body in stage.runner.stages]
            opened[name] = open_loop(f"{package.path}: stage {name!r}", stage, bodies)
    return opened


def _open_stage(package: Package, name: str, stage: Stage, backend: str | None, options: Options) -> Session:
    where = f"{package.path}: stage {name!r}"
    if backend is None:
        return ProcessorSession(build(where, stage, package.read))
    artifact = artifact_of(where, stage, backend)
    if backend in BY_POSITION and (artifact.inputs is None or artifact.outputs is None):
        raise BackendError(
            f"{where} ({artifact.path}): {backend!r} takes ports by position, and the manifest does not say their "
            f"order; give the artifact its inputs and outputs"
        )
    files = [package.read(path) for path in (artifact.path, *artifact.data)]
    return find_backend(backend).open(f"{where} ({artifact.path})", artifact, files, stage, options)


def _check_arguments(path: object, backend: object, options: Options) -> None:
    if not isinstance(path, str | os.PathLike | Package):
        raise InputError(f"path: expected a path or a package, got {path!r}")
    names = cast("Mapping[Any, Any]", backend) if isinstance(backend, Mapping) else {None: None}
    if not isinstance(backend, str | None) and not all(isinstance(name, str) for name in (*names, *names.values())):
        raise InputError(f"backend: expected a name, or a mapping from stage to name, got {backend!r}")
    _check_count("threads", options.threads, _MAX_THREADS)
    providers, device, properties = cast("tuple[object, ...]", options[1:4])
    if providers is not None and not _are_providers(providers):
        raise InputError(f"providers: expected a list of names, or of (name, options) pairs, got {providers!r}")
    if device is not None and not (isinstance(device, str) and device):
        raise InputError(f"device: expected a name such as 'cpu', got {device!r}")
    if properties is not None and not _are_named(properties):
        raise InputError(f"properties: expected a mapping from name to value, got {properties!r}")


def _check_chosen(manifest: Manifest, backend: BackendChoice) -> None:
    for name in backend if isinstance(backend, Mapping) else ():
        if name not in manifest.stages:
            raise InputError(f"backend: there is no stage {name!r}{suggestion(name, manifest.stages)}")


def _are_providers(providers: object) -> bool:
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        return False
    pairs: list[Any] = [
        entry if isinstance(entry, tuple) else (entry, {}) for entry in cast("Sequence[Any]", providers)
    ]
    return bool(pairs) and all(
        len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict) for pair in pairs
    )


def _are_named(properties: object) -> bool:
    return isinstance(properties, Mapping) and all(
        isinstance(name, str) for name in cast("Mapping[Any, Any]", properties)
    )


def _check_count(name: str, value: object, most: int | None = None) -> None:
    if type(value) is not int or value < 1 or (most is not None and value > most):
        raise InputError(f"{name}: expected a whole number from 1{f' to {most}' if most else ''}, got {value!r}")


def _check_batch(manifest: Manifest, batch: int) -> None:
    _check_count("batch", batch)
    ports = [port for stage in manifest.stages.values() for port in (*stage.inputs.values(), *stage.outputs.values())]
    if batch != 1 and not any(BATCH in port.shape for port in ports):
        raise InputError(f"batch: this package was exported for a fixed batch; it cannot be loaded with batch={batch}")
    for port in ports:
        size = math.prod(concrete(port.shape, batch)) * DTYPE_BYTES[port.dtype]
        if size > MAX_ARRAY_BYTES:
            raise InputError(f"batch: with batch={batch} a port would take {size} bytes, over {MAX_ARRAY_BYTES}")
