"""What has to hold between the parts of a manifest before anything may run it.

Each rule yields problems as ``path: what is wrong``; `check` raises them together, so that a person who writes a
manifest by hand or by code sees all of them at once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec

from ashore.errors import ManifestError, suggestion
from ashore.spec.kinds import JOINT_KINDS, QUATERNION_KINDS, kind_problem
from ashore.spec.manifest import BATCH, SCHEMA_VERSION, Limits, Manifest, Port, Processor, Stage, State
from ashore.spec.paths import MANIFEST, path_problem
from ashore.spec.wiring import RESERVED, Endpoint, Wiring

MAX_PORT_BYTES = 1 << 30
"""No single array of a package may be larger than this (1 GiB); a shape beyond it is a mistake or an attack."""

MAX_AXES = 8
MAX_SHOWN = 12

DTYPE_BYTES: Mapping[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
_IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_QUATERNIONS = (frozenset("wxyz"), frozenset({"qw", "qx", "qy", "qz"}))


def check(manifest: Manifest) -> None:
    """Raise `ManifestError` with every problem between the parts of a well-typed manifest, or return."""
    _refuse(list(_problems(manifest)))


def check_values(manifest: Manifest) -> None:
    """Raise `ManifestError` if a value could not be written as JSON, or could drive a terminal."""
    try:
        _refuse(list(_values(manifest, "")))
    except RecursionError:
        raise ManifestError("manifest.json: metadata: nested too deep") from None


def _refuse(problems: list[str]) -> None:
    if problems:
        shown = problems[:MAX_SHOWN]
        if len(problems) > MAX_SHOWN:
            shown.append(f"and {len(problems) - MAX_SHOWN} more")
        raise ManifestError("manifest.json: " + "\n  ".join(shown))


def _problems(manifest: Manifest) -> Iterator[str]:
    yield from _identity(manifest)
    yield from _ports(manifest)
    yield from _processors(manifest)
    yield from _joints(manifest)
    yield from _timing(manifest)
    yield from _stages(manifest)
    yield from _files(manifest)
    graph = Wiring(manifest)
    yield from graph.problems
    yield from _flow(manifest, graph)
    yield from _agreement(graph)
    yield from _rates(manifest, graph)


def _identity(manifest: Manifest) -> Iterator[str]:
    if manifest.schema_version != SCHEMA_VERSION:
        yield f"schema_version: expected {SCHEMA_VERSION}, got {manifest.schema_version}"
    if not _IDENTIFIER.fullmatch(manifest.name):
        yield f"name: {manifest.name!r} is not made of letters, digits, '_', '-' and '.'"
    if manifest.manifest_sha256 is not None and not _SHA256.fullmatch(manifest.manifest_sha256):
        yield "manifest_sha256: expected 64 lower-case hexadecimal digits"
    checkpoint = manifest.provenance.checkpoint
    if checkpoint is not None and not _SHA256.fullmatch(checkpoint.sha256):
        yield "provenance.checkpoint.sha256: expected 64 lower-case hexadecimal digits"


def _values(value: object, path: str) -> Iterator[str]:
    """Everything is JSON that comes back as it was, and no text could drive the terminal it is shown on."""
    if isinstance(value, str):
        if not all(letter.isprintable() or letter in "\n\t" for letter in value):
            yield f"{path}: {value!r} holds control characters"
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


def _ports(manifest: Manifest) -> Iterator[str]:
    for path, ports in _port_groups(manifest):
        for name, port in ports.items():
            yield from _name(path, name)
            yield from _array(f"{path}.{name}", port)
            yield from _meaning(f"{path}.{name}", port)
    for name, state in manifest.states.items():
        yield from _name("states", name)
        yield from _array(f"states.{name}", state)


def _port_groups(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Port]]]:
    yield "inputs", manifest.inputs
    yield "outputs", manifest.outputs
    for name, stage in manifest.stages.items():
        yield f"stages.{name}.inputs", stage.inputs
        yield f"stages.{name}.outputs", stage.outputs


def _name(path: str, name: str) -> Iterator[str]:
    if not name or len(name) > 200 or name != name.strip() or not name.isprintable():
        yield f"{path}: {name!r} is no name: 1 to 200 printable characters without blanks around them"


def _array(path: str, array: Port | State) -> Iterator[str]:
    if len(array.shape) > MAX_AXES:
        yield f"{path}.shape: {len(array.shape)} axes; at most {MAX_AXES} are supported"
    lengths = [dim for dim in array.shape if dim != BATCH]
    for axis, dim in enumerate(array.shape):
        if dim != BATCH and dim < 1:
            yield f"{path}.shape[{axis}]: expected a positive length or {BATCH!r}, got {dim}"
    if array.shape.count(BATCH) > 1:
        yield f"{path}.shape: {BATCH!r} stands more than once"
    if math.prod(lengths) * DTYPE_BYTES[array.dtype] > MAX_PORT_BYTES:
        yield f"{path}.shape: {list(array.shape)} of {array.dtype} is over {MAX_PORT_BYTES} bytes"


def _meaning(path: str, port: Port) -> Iterator[str]:
    last = port.shape[-1] if port.shape else 1
    units = (port.unit,) if isinstance(port.unit, str) else (port.unit or ())
    if not all(units):
        yield f"{path}.unit: a unit is empty; leave the key out, or write '1' for a value without unit"
    if isinstance(port.unit, tuple) and len(port.unit) != last:
        yield f"{path}.unit: {len(port.unit)} units for a last axis of {last}"
    if port.kind is not None and (problem := kind_problem(port.kind, units)):
        yield f"{path}.kind: {problem}"
    yield from _element_names(path, port)
    if port.kind in QUATERNION_KINDS and last == 4:
        names = port.element_names[-1] if port.element_names else None
        if names is None or frozenset(names) not in _QUATERNIONS:
            yield f"{path}.element_names: a quaternion must name the order of its elements, e.g. [w, x, y, z]"
    if port.limits is not None:
        yield from _limits(f"{path}.limits", port.limits, last)


def _element_names(path: str, port: Port) -> Iterator[str]:
    if port.element_names is None:
        return
    if len(port.element_names) != len(port.shape):
        yield f"{path}.element_names: {len(port.element_names)} entries for {len(port.shape)} axes; null skips an axis"
        return
    for axis, (names, dim) in enumerate(zip(port.element_names, port.shape, strict=True)):
        if names is None:
            continue
        if len(names) != dim:
            yield f"{path}.element_names[{axis}]: {len(names)} names for an axis of {dim}"
        for name, count in Counter(names).items():
            yield from _name(f"{path}.element_names[{axis}]", name)
            if count > 1:
                yield f"{path}.element_names[{axis}]: {name!r} stands {count} times"


def _limits(path: str, limits: Limits, last: int | str) -> Iterator[str]:
    bounds: dict[str, tuple[float | None, ...]] = {}
    for side, bound in (("lower", limits.lower), ("upper", limits.upper)):
        values = bound if isinstance(bound, tuple) else (bound,)
        if isinstance(bound, tuple) and len(bound) != last:
            yield f"{path}.{side}: {len(bound)} numbers for a last axis of {last}"
        if not all(math.isfinite(value) for value in values if value is not None):
            yield f"{path}.{side}: not finite; null means unbounded"
        bounds[side] = values
    lower, upper = bounds["lower"], bounds["upper"]
    width = max(len(lower), len(upper))
    if {len(lower), len(upper)} <= {1, width}:
        pairs = zip(lower * (width // len(lower)), upper * (width // len(upper)), strict=True)
        for low, high in pairs:
            if low is not None and high is not None and low > high:
                yield f"{path}: the lower limit {low} is above the upper limit {high}"


def _processors(manifest: Manifest) -> Iterator[str]:
    sides: tuple[tuple[str, tuple[Processor, ...], Mapping[str, Port]], ...] = (
        ("preprocessors", manifest.preprocessors, manifest.inputs),
        ("postprocessors", manifest.postprocessors, manifest.outputs),
    )
    for side, processors, ports in sides:
        for index, processor in enumerate(processors):
            if processor.port not in ports:
                yield f"{side}[{index}].port: {_unknown(processor.port, ports)}"
            if processor.artifact is not None and manifest.files and processor.artifact not in manifest.files:
                yield f"{side}[{index}].artifact: {_unknown(processor.artifact, manifest.files)}"


def _joints(manifest: Manifest) -> Iterator[str]:
    names = [joint.name for joint in manifest.joints]
    for name, count in Counter(names).items():
        yield from _name("joints", name)
        if count > 1:
            yield f"joints: {name!r} stands {count} times"
    for index, joint in enumerate(manifest.joints):
        numbers = (joint.default_position, joint.kp, joint.kd, joint.effort_limit, joint.velocity_limit)
        if not all(math.isfinite(number) for number in numbers if number is not None):
            yield f"joints[{index}]: a number of {joint.name!r} is not finite"
        for field, value in (("kp", joint.kp), ("kd", joint.kd), ("effort_limit", joint.effort_limit)):
            if value is not None and value < 0:
                yield f"joints[{index}].{field}: {value} of {joint.name!r} is negative"
        bounds = joint.position_limits
        if bounds is not None and not bounds.lower <= bounds.upper:
            yield f"joints[{index}].position_limits: lower {bounds.lower} is above upper {bounds.upper}"
    if not names:
        return
    for path, ports in _port_groups(manifest):
        for port_name, port in ports.items():
            elements = port.element_names[-1] if port.kind in JOINT_KINDS and port.element_names else None
            for element in elements or ():
                if element not in names:
                    yield f"{path}.{port_name}.element_names: joint {_unknown(element, names)}"


def _timing(manifest: Manifest) -> Iterator[str]:
    timing = manifest.timing
    if timing is None:
        return
    if timing.decimation < 1:
        yield f"timing.decimation: expected at least 1, got {timing.decimation}"
    for field, value in (("policy_dt_s", timing.policy_dt_s), ("physics_dt_s", timing.physics_dt_s)):
        if value is not None and not 0.0 < value < math.inf:
            yield f"timing.{field}: expected a positive time in seconds, got {value}"
    if timing.physics_dt_s is not None:
        expected = timing.physics_dt_s * timing.decimation
        if not math.isclose(timing.policy_dt_s, expected, rel_tol=1e-6):
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
        if not _IDENTIFIER.fullmatch(name) or name in RESERVED:
            yield f"stages: {name!r} is no name for a stage: letters, digits, '_', '-', '.', and not {sorted(RESERVED)}"
        for port in stage.inputs.keys() & stage.outputs.keys():
            yield f"stages.{name}: {port!r} is both an input and an output; give the two different names"
        if not stage.artifacts:
            yield f"stages.{name}.artifacts: no backend has an artifact for this stage"
        for backend, artifact in stage.artifacts.items():
            if manifest.files and artifact.path not in manifest.files:
                yield f"stages.{name}.artifacts.{backend}.path: {_unknown(artifact.path, manifest.files)}"
        if stage.rate == "loop":
            yield f"stages.{name}.rate: the runner {'single_pass'!r} has no loop"
        if stage.rate == "substep" and manifest.timing is None:
            yield f"stages.{name}.rate: a package with substeps needs timing, with its decimation"


def _files(manifest: Manifest) -> Iterator[str]:
    folded = Counter(path.lower() for path in manifest.files)
    for path, entry in manifest.files.items():
        where = f"files[{path!r}]"
        if problem := path_problem(path):
            yield f"{where}: {problem}"
        if path == MANIFEST:
            yield f"{where}: the manifest does not list itself"
        if folded[path.lower()] > 1:
            yield f"{where}: another path differs from it only by upper and lower case"
        if not _SHA256.fullmatch(entry.sha256):
            yield f"{where}.sha256: expected 64 lower-case hexadecimal digits"
        if entry.size < 0:
            yield f"{where}.size: expected a length in bytes, got {entry.size}"


def _flow(manifest: Manifest, graph: Wiring) -> Iterator[str]:
    """Every input is used, everything that is read is written once, nothing ends nowhere."""
    for endpoint in _endpoints(manifest):
        into, out = graph.into(endpoint), graph.out_of(endpoint)
        match endpoint.group:
            case "inputs":
                if not out:
                    yield f"inputs.{endpoint.name}: no wire starts here, so this input would be ignored"
            case "outputs":
                if len(into) != 1:
                    yield f"outputs.{endpoint.name}: expected one wire to end here, got {len(into)}"
            case "states":
                if not out:
                    yield f"states.{endpoint.name}: no stage reads it"
                yield from _writers(manifest, endpoint, into)
            case _:
                yield from _stage_flow(manifest.stages[endpoint.group], endpoint, into, out)


def _stage_flow(stage: Stage, endpoint: Endpoint, into: list[Endpoint], out: list[Endpoint]) -> Iterator[str]:
    if endpoint.name in stage.inputs and len(into) != 1:
        path = f"stages.{endpoint.group}.inputs.{endpoint.name}"
        yield f"{path}: expected one wire to end here, got {len(into)}"
    if endpoint.name in stage.outputs and not out:
        yield f"stages.{endpoint.group}.outputs.{endpoint.name}: no wire starts here, so this output would be lost"


def _writers(manifest: Manifest, state: Endpoint, into: list[Endpoint]) -> Iterator[str]:
    if not into:
        yield f"states.{state.name}: no stage writes it"
    rates = Counter(manifest.stages[source.group].rate for source in into)
    for rate, count in rates.items():
        if count > 1:
            yield f"states.{state.name}: {count} wires of rate {rate!r} end here; a state has one writer per rate"


def _agreement(graph: Wiring) -> Iterator[str]:
    """Both ends of a wire have one dtype, one shape, one meaning."""
    for index, (source, target) in graph.wires.items():
        start, end = graph.array(source), graph.array(target)
        for field in ("dtype", "shape"):
            ours, theirs = getattr(start, field), getattr(end, field)
            if ours != theirs:
                yield f"wires[{index}]: {source} has {field} {_plain(ours)}, {target} has {_plain(theirs)}"
        if isinstance(start, State) or isinstance(end, State):
            continue
        for field in ("kind", "element_names", "unit", "frame"):
            ours, theirs = getattr(start, field), getattr(end, field)
            if ours is not None and theirs is not None and ours != theirs:
                yield f"wires[{index}]: {source} has {field} {_plain(ours)}, {target} has {_plain(theirs)}"


def _rates(manifest: Manifest, graph: Wiring) -> Iterator[str]:
    for index, (source, target) in graph.wires.items():
        if source.group in manifest.stages and target.group in manifest.stages:
            rates = manifest.stages[source.group].rate, manifest.stages[target.group].rate
            if rates[0] != rates[1]:
                yield f"wires[{index}]: {source} runs at {rates[0]!r}, {target} at {rates[1]!r}; join them by a state"
    loop = graph.cycle()
    if loop:
        yield f"wires: a cycle without a state: {' -> '.join(loop)}"


def _endpoints(manifest: Manifest) -> Iterator[Endpoint]:
    for group in RESERVED:
        names: Iterable[str] = getattr(manifest, group)
        yield from (Endpoint(group, name) for name in names)
    for name, stage in manifest.stages.items():
        yield from (Endpoint(name, port) for port in stage.inputs)
        yield from (Endpoint(name, port) for port in stage.outputs)


def _plain(value: object) -> str:
    return str(list(cast("tuple[object, ...]", value))) if isinstance(value, tuple) else repr(value)


def _unknown(name: str, known: Iterable[str]) -> str:
    return f"{name!r} does not exist{suggestion(name, known)}"
