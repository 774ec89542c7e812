"""What has to hold for each port and each state by itself: names, shapes, kinds, units, element names, limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from ashore.errors import is_printable, suggestion
from ashore.spec.kinds import JOINT_KINDS, POSE_KINDS, QUATERNION_KINDS, kind_problem
from ashore.spec.manifest import BATCH, Limits, Manifest, Port, State

MAX_ARRAY_BYTES = 1 << 30
"""No single array of a package may be larger than this (1 GiB); a shape beyond it is a mistake or an attack."""

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
_MAX_AXES = 8
_QUATERNIONS = (tuple("wxyz"), tuple("xyzw"), ("qw", "qx", "qy", "qz"), ("qx", "qy", "qz", "qw"))


def names_its_order(port: Port, kind: str) -> bool:
    """Whether a port names its elements as far as that kind needs it: joints, quaternions and poses have an order."""
    names = port.element_names[-1] if port.element_names else None
    if kind in QUATERNION_KINDS and port.shape and port.shape[-1] == 4:
        return names in _QUATERNIONS
    return names is not None or kind not in JOINT_KINDS | POSE_KINDS


def port_problems(manifest: Manifest) -> Iterator[str]:
    """Yield what is wrong with the ports of the package, of its stages, and with its states."""
    joints = {joint.name for joint in manifest.joints}
    for path, ports in _port_groups(manifest):
        for name, port in ports.items():
            if problem := name_problem(name):
                yield f"{path}: {problem}"
            yield from _array(f"{path}.{name}", port)
            yield from _meaning(f"{path}.{name}", port, joints)
    for name, state in manifest.states.items():
        if problem := name_problem(name):
            yield f"states: {problem}"
        yield from _array(f"states.{name}", state)


def name_problem(name: str) -> str | None:
    """Say why a text is no name for a port, a state, a joint or an element, or None."""
    if not name or len(name) > 200 or name != name.strip() or "\n" in name or "\t" in name or not is_printable(name):
        return f"{name[:80]!r} is no name: 1 to 200 printable characters without blanks around them"
    if name == "__metadata__":
        return f"{name!r} is no name: it means something else in a safetensors file"
    return None


def _port_groups(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Port]]]:
    yield "inputs", manifest.inputs
    yield "outputs", manifest.outputs
    for name, stage in manifest.stages.items():
        yield f"stages.{name}.inputs", stage.inputs
        yield f"stages.{name}.outputs", stage.outputs


def _array(path: str, array: Port | State) -> Iterator[str]:
    if len(array.shape) > _MAX_AXES:
        yield f"{path}.shape: {len(array.shape)} axes; at most {_MAX_AXES} are supported"
    for axis, dim in enumerate(array.shape):
        if dim != BATCH and dim < 1:
            yield f"{path}.shape[{axis}]: expected a positive length or {BATCH!r}, got {dim}"
    if array.shape.count(BATCH) > 1:
        yield f"{path}.shape: {BATCH!r} stands more than once"
    lengths = [dim for dim in array.shape if dim != BATCH]
    if math.prod(lengths) * DTYPE_BYTES[array.dtype] > MAX_ARRAY_BYTES:
        yield f"{path}.shape: {list(array.shape)} of {array.dtype} is over {MAX_ARRAY_BYTES} bytes"


def _meaning(path: str, port: Port, joints: set[str]) -> Iterator[str]:
    last = port.shape[-1] if port.shape else 1
    units = (port.unit,) if isinstance(port.unit, str) else (port.unit or ())
    if not all(units):
        yield f"{path}.unit: a unit is empty; leave the key out, or write '1' for a value without unit"
    if isinstance(port.unit, tuple) and len(port.unit) != last:
        yield f"{path}.unit: {len(port.unit)} units for a last axis of {last}"
    if port.kind is not None and (problem := kind_problem(port.kind, units)):
        yield f"{path}.kind: {problem}"
    yield from _element_names(path, port)
    yield from _order(path, port, joints)
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
            if problem := name_problem(name):
                yield f"{path}.element_names[{axis}]: {problem}"
            if count > 1:
                yield f"{path}.element_names[{axis}]: {name!r} stands {count} times"


def _order(path: str, port: Port, joints: set[str]) -> Iterator[str]:
    """Where the order of elements decides what a robot does, it must be named."""
    names = port.element_names[-1] if port.element_names else None
    last = port.shape[-1] if port.shape else 1
    if port.kind in JOINT_KINDS:
        if names is None:
            yield f"{path}.element_names: a port of kind {port.kind!r} must name its joints, in order"
        elif joints:
            for name in names:
                if name not in joints:
                    yield f"{path}.element_names: joint {name!r} does not exist{suggestion(name, joints)}"
    if port.kind in QUATERNION_KINDS and last == 4 and names not in _QUATERNIONS:
        yield f"{path}.element_names: a quaternion must name its order, [w, x, y, z] or [x, y, z, w]"
    if port.kind in POSE_KINDS and names is None:
        yield f"{path}.element_names: a pose must name its elements, e.g. [x, y, z, qw, qx, qy, qz]"


def _limits(path: str, limits: Limits, last: int | str) -> Iterator[str]:
    for side, bound in (("lower", limits.lower), ("upper", limits.upper)):
        if isinstance(bound, tuple) and len(bound) != last:
            yield f"{path}.{side}: {len(bound)} numbers for a last axis of {last}"
            return
    width = last if isinstance(last, int) else 1
    lower, upper = (bound if isinstance(bound, tuple) else (bound,) * width for bound in (limits.lower, limits.upper))
    for low, high in zip(lower, upper, strict=True):
        if low is not None and high is not None and low > high:
            yield f"{path}: the lower limit {low} is above the upper limit {high}"
            return
