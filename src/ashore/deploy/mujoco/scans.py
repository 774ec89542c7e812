"""Height scans: how far it is from a robot to what is around it, along rays, and where the rays end."""

from __future__ import annotations

import math

import numpy as np

from ashore.deploy.mujoco.engine import XYZ, Data, Model, Reader, engine
from ashore.deploy.mujoco.names import Names
from ashore.deploy.mujoco.orders import ScanOrder, group_flags, read_order
from ashore.errors import BindError, suggestion
from ashore.package import Array
from ashore.runtime.robot import Signal
from ashore.spec import Port, concrete

_DISTANCES, _POINTS, _FRAME = "height_scan", "scan_points", "scan_frame_pos"
SCANS = {
    _DISTANCES: Signal("sensor/height_scan", unit="m", to_order="scan"),
    _POINTS: Signal("custom/scan/points", unit="m", frame="world", to_order="scan"),
    _FRAME: Signal("state/body/position", unit="m", frame="world", by_name=True, to_order="scan"),
}
"""The distance along each ray, the point where each ends (a miss where it starts), and where the frame is."""

_LEVEL = 0.1
"""A forward axis that is shorter than this from above says little about where forward is; then the left one does."""


def make_scan(model: Model, known: Names, name: str, port: Port) -> Reader:
    """What a port asks for of a scan, in metres, of the port's shape.

    Args:
        model: in which rays are cast.
        known: its names.
        name: one of `SCANS`.
        port: whose metadata say how.

    Raises:
        BindError: the port does not say enough, or something that the model does not have.
    """
    order = read_order(name, port, "scan", ScanOrder)
    shape, rays = concrete(port.shape, 1), len(order.offsets)
    if port.unit != "m" or not port.dtype.startswith("float"):
        raise BindError(f"{name!r}: expected a port of floats in 'm', got {port.dtype} in {port.unit!r}")
    expected = {_DISTANCES: (rays,), _POINTS: (rays, 3), _FRAME: (3,)}[name]
    if math.prod(shape) != math.prod(expected) or shape[-len(expected) :] != expected:
        raise BindError(f"{name!r}: its shape is {list(port.shape)}, expected {[1, *expected]} for {rays} offsets")
    names = port.element_names[-1] if port.element_names else None
    if name != _DISTANCES and names not in (None, XYZ):
        raise BindError(f"{name!r}: its elements are {list(names or ())}, expected {list(XYZ)}")
    kind, index = _find_frame(known, name, order)
    body = index if kind == "body" else int(model.site_bodyid[index])
    hidden = np.flatnonzero(np.isin(model.geom_bodyid, _excluded(model, body, order.exclude)))
    offsets, direction = np.array(order.offsets), np.array(order.direction)
    length = float(np.linalg.norm(direction))
    if length == 0:
        raise BindError(f"{name!r}: direction: expected a vector that goes somewhere, got {[*order.direction]}")
    groups, most = group_flags(order.geom_groups), order.max_distance
    miss = most if order.miss is None else order.miss
    at, turned = ("xpos", "xmat") if kind == "body" else ("site_xpos", "site_xmat")

    def read(data: Data) -> Array:
        start = getattr(data, at)[index]
        if name == _FRAME:
            return start.reshape(shape)
        turn = _alignment(getattr(data, turned)[index].reshape(3, 3), order.alignment)
        starts, way = start + offsets @ turn.T, turn @ (direction / length)
        found = _cast(model, data, starts, way, groups, hidden)
        missed = (found < 0) | (found > most)
        if name == _POINTS:
            return (starts + np.where(missed, 0, found)[:, None] * way).reshape(shape)
        return np.where(missed, miss, found).reshape(shape)

    return Reader(SCANS[name], read, derived=True)


def _find_frame(known: Names, scan: str, order: ScanOrder) -> tuple[str, int]:
    name = order.frame.removeprefix(known.prefix)
    found = {kind: known.all(kind) for kind in ("body", "site") if order.frame_type in (None, kind)}
    kinds = [kind for kind, there in found.items() if name in there]
    if len(kinds) > 1:
        raise BindError(f"{scan!r}: frame: {name!r} is a body and a site; say which with frame_type")
    if not kinds:
        there = [one for names in found.values() for one in names]
        hint = suggestion(name, there, f"; there are {there}")
        raise BindError(f"{scan!r}: frame: the model has no {' or '.join(found)} {name!r}{hint}")
    return kinds[0], found[kinds[0]][name]


def _excluded(model: Model, body: int, how: str) -> list[int]:
    """The bodies that a ray passes through."""
    if how == "none" or body == 0:
        return []
    if how == "body":
        return [body]
    return np.flatnonzero(model.body_rootid == model.body_rootid[body]).tolist()


def _alignment(turned: Array, how: str) -> Array:
    """The rotation of offsets and directions, of that of the frame."""
    if how == "base":
        return turned
    if how == "world":
        return np.eye(3)
    x, y = turned[:2, 0]
    if math.hypot(x, y) < _LEVEL:  # it looks straight up or down
        x, y = turned[1, 1], -turned[0, 1]
    length = max(math.hypot(x, y), 1e-6)
    c, s = x / length, y / length
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def _cast(model: Model, data: Data, starts: Array, direction: Array, groups: Array | None, hidden: Array) -> Array:
    """The distance along each ray, -1 where it hits nothing."""
    ray, hit = engine().mj_ray, np.zeros(1, np.int32)
    # MuJoCo can leave out one body; what cannot be seen, it leaves out as well.
    colours, materials = model.geom_rgba[hidden], model.geom_matid[hidden]
    try:
        model.geom_rgba[hidden, 3], model.geom_matid[hidden] = 0, -1
        return np.array([ray(model, data, start, direction, groups, 1, -1, hit) for start in starts])
    finally:
        model.geom_rgba[hidden], model.geom_matid[hidden] = colours, materials
