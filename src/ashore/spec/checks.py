"""What has to hold between the parts of a manifest before anything may run it.

Each rule yields problems as ``path: what is wrong``; `check` raises them together, so that a person who writes a
manifest by hand or by code sees all of them at once. The rules for single ports are in `ashore.spec.port_checks`, those
for wires in `ashore.spec.flow_checks`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import msgspec

from ashore.errors import ManifestError, is_printable, suggestion
from ashore.spec.flow_checks import flow_problems
from ashore.spec.manifest import SCHEMA_VERSION, SINGLE_PASS, Artifact, Manifest, Stage
from ashore.spec.paths import MANIFEST, STATE, path_problem
from ashore.spec.port_checks import name_problem, port_problems
from ashore.spec.wiring import RESERVED

MAX_PARTS = 10_000
"""No manifest has more ports, states, wires and joints than this together; what follows may be quadratic in them."""

MAX_TOLERANCE = 1e-2
"""A verification that allows more than this proves nothing."""

_MAX_SHOWN = 12
_IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check(manifest: Manifest) -> None:
    """Raise `ManifestError` with the problems between the parts of a well-typed manifest, or return."""
    _refuse(_problems(manifest))


def check_values(manifest: Manifest) -> None:
    """Raise `ManifestError` if a value could not be written as JSON, or could drive a terminal."""
    try:
        _refuse(_values(manifest, ""))
    except RecursionError:
        raise ManifestError("manifest.json: metadata: nested too deep") from None


def _refuse(problems: Iterator[str]) -> None:
    """Raise with the first problems; the others are not even looked for."""
    shown = list(islice(problems, _MAX_SHOWN + 1))
    if shown:
        if len(shown) > _MAX_SHOWN:
            shown[-1] = "and more"
        raise ManifestError("manifest.json: " + "\n  ".join(shown))


def _problems(manifest: Manifest) -> Iterator[str]:
    yield from _identity(manifest)
    parts = _count_parts(manifest)
    if parts > MAX_PARTS:
        yield f"top level: {parts} ports, states, wires and joints; at most {MAX_PARTS} are supported"
        return
    yield from port_problems(manifest)
    yield from _joints(manifest)
    yield from _timing(manifest)
    yield from _stages(manifest)
    yield from _files(manifest)
    yield from _constants(manifest)
    yield from _verification(manifest)
    yield from flow_problems(manifest)


def _count_parts(manifest: Manifest) -> int:
    stages = sum(len(stage.inputs) + len(stage.outputs) + len(stage.artifacts) for stage in manifest.stages.values())
    ends = len(manifest.inputs) + len(manifest.outputs) + len(manifest.states)
    return stages + ends + len(manifest.wires) + len(manifest.joints) + len(manifest.files)


def _values(value: object, path: str) -> Iterator[str]:
    """Everything is JSON that comes back as it was, and no text could drive the terminal it is shown on."""
    if isinstance(value, str):
        if not is_printable(value):
            yield f"{path}: {value[:80]!r} holds control characters"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"{path}: {value} is no JSON number"
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            yield f"{path}: {value} does not fit into 64 bits"
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _values(getattr(value, field), f"{path}.{field}" if path else field)
    elif isinstance(value, dict):
        for key, child in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                yield f"{path}: the key {key!r} is no text"
            yield from _values(key, path)
            yield from _values(child, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, child in enumerate(cast("list[object]", value)):
            yield from _values(child, f"{path}[{index}]")
    elif value is not None:
        yield f"{path}: a value of type {type(value).__name__} cannot be written as JSON"


def is_identifier(name: object) -> bool:
    """Whether a package or a stage may be called so."""
    return isinstance(name, str) and _IDENTIFIER.fullmatch(name) is not None


def _identity(manifest: Manifest) -> Iterator[str]:
    if manifest.schema_version != SCHEMA_VERSION:
        yield f"schema_version: expected {SCHEMA_VERSION}, got {manifest.schema_version}"
    if not is_identifier(manifest.name):
        yield f"name: {manifest.name!r} is not made of letters, digits, '_', '-' and '.'"
    if manifest.manifest_sha256 is not None and not _SHA256.fullmatch(manifest.manifest_sha256):
        yield "manifest_sha256: expected 64 lower-case hexadecimal digits"
    checkpoint = manifest.provenance.checkpoint
    if checkpoint is not None and not _SHA256.fullmatch(checkpoint.sha256):
        yield "provenance.checkpoint.sha256: expected 64 lower-case hexadecimal digits"


def _joints(manifest: Manifest) -> Iterator[str]:
    for name, count in Counter(joint.name for joint in manifest.joints).items():
        if problem := name_problem(name):
            yield f"joints: {problem}"
        if count > 1:
            yield f"joints: {name!r} stands {count} times"
    for index, joint in enumerate(manifest.joints):
        for field in ("kp", "kd", "effort_limit", "velocity_limit"):
            value = cast("float | None", getattr(joint, field))
            if value is not None and value < 0:
                yield f"joints[{index}].{field}: {value} of {joint.name!r} is negative"
        bounds = joint.position_limits
        if bounds is not None and not bounds.lower <= bounds.upper:
            yield f"joints[{index}].position_limits: lower {bounds.lower} is above upper {bounds.upper}"


def _timing(manifest: Manifest) -> Iterator[str]:
    timing = manifest.timing
    if timing is None:
        return
    if timing.decimation < 1:
        yield f"timing.decimation: expected at least 1, got {timing.decimation}"
    for field, value in (("policy_dt_s", timing.policy_dt_s), ("physics_dt_s", timing.physics_dt_s)):
        if value is not None and value <= 0.0:
            yield f"timing.{field}: expected a positive time in seconds, got {value}"
    if timing.physics_dt_s is not None:
        expected = timing.physics_dt_s * timing.decimation
        if timing.policy_dt_s is None:
            yield f"timing.policy_dt_s: missing, but {timing.decimation} substeps of {timing.physics_dt_s} s are stated"
        elif not math.isclose(timing.policy_dt_s, expected, rel_tol=1e-6):
            yield (
                f"timing: policy_dt_s is {timing.policy_dt_s}, but {timing.decimation} substeps of "
                f"{timing.physics_dt_s} s take {expected} s"
            )


def _stages(manifest: Manifest) -> Iterator[str]:
    if not any(stage.rate == "policy" for stage in manifest.stages.values()):
        yield "stages: no stage runs at the policy rate, so nothing would ever decide"
    if not manifest.outputs:
        yield "outputs: a package needs at least one output"
    for name, stage in manifest.stages.items():
        if not is_identifier(name) or name in RESERVED:
            yield f"stages: {name!r} is no name for a stage: letters, digits, '_', '-', '.', and not {sorted(RESERVED)}"
        for port in stage.inputs.keys() & stage.outputs.keys():
            yield f"stages.{name}: {port!r} is both an input and an output; give the two different names"
        ways = {"artifacts": stage.artifacts, "a processor": stage.processor, "a runner": stage.runner}
        found = [way for way, given in ways.items() if given]
        if len(found) != 1:
            got = " and ".join(found) or "none"
            yield f"stages.{name}: expected either artifacts, a processor or a runner, got {got}"
        if stage.rate == "substep" and manifest.timing is None:
            yield f"stages.{name}.rate: a package with substeps needs timing, to say how many belong to a decision"
        for backend, artifact in stage.artifacts.items():
            yield from _order(f"stages.{name}.artifacts.{backend}", artifact, stage)
        yield from _stage_files(manifest, name, stage)
    if manifest.runner.type == SINGLE_PASS and manifest.runner.params:
        yield f"runner.params: the runner {SINGLE_PASS!r} has none, got {sorted(manifest.runner.params)}"
    yield from _runners(manifest)


def _runners(manifest: Manifest) -> Iterator[str]:
    """A stage of a loop is run by one stage, and by nobody else."""
    stages = manifest.stages
    if manifest.runner.stages:
        yield f"runner.stages: expected none, since the wires say what is run, got {list(manifest.runner.stages)}"
    run = Counter(body for stage in stages.values() if stage.runner for body in stage.runner.stages)
    for name, stage in stages.items():
        for body in stage.runner.stages if stage.runner else ():
            if body not in stages:
                yield f"stages.{name}.runner.stages: there is no stage {body!r}{suggestion(body, stages)}"
            elif stages[body].rate != "loop":
                yield f"stages.{name}.runner.stages: {body!r} runs at {stages[body].rate!r}; expected 'loop'"
        if stage.rate == "loop" and stage.runner is not None:
            yield f"stages.{name}: a stage of a loop has no runner of its own"
        if stage.rate == "loop" and run[name] != 1:
            yield f"stages.{name}.rate: expected one stage whose runner runs this stage of a loop, got {run[name]}"


def _order(path: str, artifact: Artifact, stage: Stage) -> Iterator[str]:
    """An order of ports is one of all of them: a port that is missing or doubled would shift the others."""
    sides: tuple[tuple[str, tuple[str, ...] | None, Iterable[str]], ...] = (
        ("inputs", artifact.inputs, stage.inputs),
        ("outputs", artifact.outputs, stage.outputs),
    )
    for side, order, ports in sides:
        if order is not None and sorted(order) != sorted(ports):
            yield f"{path}.{side}: expected each of {sorted(ports)} once, in some order, got {list(order)}"


def _stage_files(manifest: Manifest, name: str, stage: Stage) -> Iterator[str]:
    if manifest.manifest_sha256 is None:
        return  # not written yet
    for backend, artifact in stage.artifacts.items():
        for path in (artifact.path, *artifact.data):
            if path not in manifest.files:
                hint = suggestion(path, manifest.files)
                yield f"stages.{name}.artifacts.{backend}: {path!r} does not exist{hint}"
    for path in stage.processor.assets if stage.processor else ():
        if path not in manifest.files:
            yield f"stages.{name}.processor.assets: {path!r} does not exist{suggestion(path, manifest.files)}"


def _files(manifest: Manifest) -> Iterator[str]:
    folded = Counter(path.lower() for path in (*manifest.files, MANIFEST))
    for path, entry in manifest.files.items():
        where = f"files[{path!r}]"
        if problem := path_problem(path):
            yield f"{where}: {problem}"
        if folded[path.lower()] > 1:
            yield f"{where}: another path, or the manifest's, differs from it at most by upper and lower case"
        parents = {"/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 1)}
        for parent in parents & manifest.files.keys():
            yield f"{where}: {parent!r} is a file, so nothing can lie in it"
        if not _SHA256.fullmatch(entry.sha256):
            yield f"{where}.sha256: expected 64 lower-case hexadecimal digits"
        if entry.size < 0:
            yield f"{where}.size: expected a length in bytes, got {entry.size}"
    if manifest.manifest_sha256 is not None and (STATE in manifest.files) != bool(manifest.states):
        there = "there are states" if manifest.states else "there are no states"
        yield f"files: {there}, but {STATE!r} is {'not ' if manifest.states else ''}listed"


def _constants(manifest: Manifest) -> Iterator[str]:
    for index, constant in enumerate(manifest.constants):
        path = f"constants[{index}]"
        if not constant.name:
            yield f"{path}.name: a constant needs a name, or the line that reads it"
        if any(dim < 0 for dim in constant.shape):
            yield f"{path}.shape: expected lengths from 0, got {list(constant.shape)}"
        elif constant.values is not None and len(constant.values) != math.prod(constant.shape):
            yield f"{path}.values: {len(constant.values)} numbers for the shape {list(constant.shape)}"
        if (constant.lowest is None) != (constant.highest is None):
            yield f"{path}: lowest and highest come together"
        elif constant.lowest is not None and constant.highest is not None:
            lowest, highest = float(constant.lowest), float(constant.highest)
            if lowest > highest:  # never true of a NaN, which has no order
                yield f"{path}: lowest {constant.lowest} is above highest {constant.highest}"


def _verification(manifest: Manifest) -> Iterator[str]:
    proof = manifest.verification
    if proof is None or proof.status == "skipped":
        return
    for field, value in (("atol", proof.atol), ("rtol", proof.rtol)):
        if value is None or not 0.0 <= value <= MAX_TOLERANCE:
            yield f"verification.{field}: expected a tolerance from 0 to {MAX_TOLERANCE:g}, got {value}"
    if not proof.results or proof.steps < 1:
        yield "verification: passed, but no backend ran a step"
