"""Where the bodies, sites and entities of a MuJoCo model are, and how they move, each as a signal with its reader.

What belongs to an entity is called as training environments call it: ``cube.root_link_pos_w`` is the position of the
root of ``cube`` in the world. The words in between:

- ``root`` is the first body of the entity; ``body``, ``site`` have a row for each that has a name.
- ``link`` is the frame of a body, ``com`` its centre of mass (with its principal axes). mjlab always says which. Where
  neither is said, as in Isaac Lab, poses are of the link and velocities of the centre of mass.
- ``_w`` is in the world, ``_b`` in the axes of the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ashore.deploy.mujoco.engine import WXYZ, XYZ, Data, Model, Reader, engine
from ashore.deploy.mujoco.model import BASE, gravity_direction, turn_back
from ashore.deploy.mujoco.names import Entity, Names, find_entities, members
from ashore.package import Array
from ashore.runtime.robot import Signal

_POSE = (*XYZ, *(f"q{one}" for one in WXYZ))
_TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
_PARTS: dict[str, tuple[str, tuple[str, ...], str | tuple[str, ...]]] = {
    "pos": ("state/body/position", XYZ, "m"),
    "quat": ("state/body/rotation", WXYZ, "1"),
    "pose": ("state/body/pose", _POSE, ("m",) * 3 + ("1",) * 4),
    "lin_vel": ("state/body/linear_velocity", XYZ, "m/s"),
    "ang_vel": ("state/body/angular_velocity", XYZ, "rad/s"),
    "vel": ("state/body/velocity", _TWIST, ("m/s",) * 3 + ("rad/s",) * 3),
}
"""Part -> kind, names, units."""

_SIMPLE = ("pos", "quat", "lin_vel", "ang_vel")
_Read = Callable[[Data], Array]


class Frames(NamedTuple):
    """Some of the frames of a model, and how they are read."""

    names: tuple[str, ...]
    pos: _Read
    """In the world, shape [n, 3]."""

    quat: _Read
    """w x y z, shape [n, 4]."""

    vel: _Read
    """Linear, then angular, in the world, shape [n, 6]."""

    def part(self, name: str) -> _Read:
        """How a part of them is read."""
        readers: dict[str, _Read] = {
            "pos": self.pos,
            "quat": self.quat,
            "pose": lambda data: np.concatenate([self.pos(data), self.quat(data)], axis=1),
            "lin_vel": lambda data: self.vel(data)[:, :3],
            "ang_vel": lambda data: self.vel(data)[:, 3:],
            "vel": self.vel,
        }
        return readers[name]


def _velocity(model: Model, bodies: Array, pos: _Read) -> _Read:
    """The velocity of points that are fixed to bodies. MuJoCo keeps it for the centre of mass of the whole tree."""
    roots = model.body_rootid[bodies]

    def read(data: Data) -> Array:
        moving = data.cvel[bodies]
        around = np.cross(moving[:, :3], pos(data) - data.subtree_com[roots])
        return np.concatenate([moving[:, 3:] + around, moving[:, :3]], axis=1)

    return read


def _take(field: str, at: Array) -> _Read:
    return lambda data: getattr(data, field)[at]


def links(model: Model, ids: Mapping[str, int]) -> Frames:
    """The frames of bodies."""
    at = np.array([*ids.values()], np.intp)
    pos = _take("xpos", at)
    return Frames(tuple(ids), pos, _take("xquat", at), _velocity(model, at, pos))


def centres(model: Model, ids: Mapping[str, int]) -> Frames:
    """The centres of mass of bodies, with their principal axes."""
    at = np.array([*ids.values()], np.intp)
    pos, turned = _take("xipos", at), model.body_iquat[at].copy()
    return Frames(tuple(ids), pos, lambda data: _product(data.xquat[at], turned), _velocity(model, at, pos))


def sites(model: Model, ids: Mapping[str, int]) -> Frames:
    """The frames of sites. Of the two quaternions of a rotation, it is the one whose largest element is positive."""
    at = np.array([*ids.values()], np.intp)
    pos, matrices = _take("site_xpos", at), _take("site_xmat", at)
    velocity = _velocity(model, model.site_bodyid[at], pos)
    return Frames(tuple(ids), pos, lambda data: _quaternions(matrices(data)), velocity)


def frame_readers(model: Model, known: Names) -> dict[str, Reader]:
    """Poses and velocities of everything that has a name, in the world."""
    made: dict[str, Reader] = {}
    bodies = {name: index for name, index in known.all("body").items() if index}  # the world does not move
    for place, frames in (("body", links(model, bodies)), ("site", sites(model, known.all("site")))):
        if frames.names:
            made |= {f"{place}_{part}": _rows(frames, part) for part in _SIMPLE}
    return made


def entity_readers(model: Model, known: Names, robot: int | None) -> dict[str, Reader]:
    """Poses and velocities of every entity, by names as ``cube.root_link_pos_w``.

    Args:
        model: whose entities these are.
        known: its names.
        robot: the root body of the robot, if there is one.
    """
    made: dict[str, Reader] = {}
    for entity in find_entities(model, known, robot):
        bodies, root = members(model, known, "body", entity), {"root": entity.bodies[0]}
        places = [("site", sites(model, members(model, known, "site", entity)))]
        for point, pose, moving in (("_link", links, links), ("_com", centres, centres), ("", links, centres)):
            of = [frames(model, bodies) for frames in (pose, moving)]
            places.append((f"body{point}", of[0]._replace(vel=of[1].vel)))
            of = [frames(model, root) for frames in (pose, moving)]
            made |= _root_readers(f"{entity.name}.root{point}", of[0]._replace(vel=of[1].vel), entity)
        made |= {
            f"{entity.name}.{place}_{part}_w": _rows(frames, part, by_name=True)
            for place, frames in places
            for part in _PARTS
            if frames.names
        }
        if (down := gravity_direction(model)) is not None:
            made[f"{entity.name}.projected_gravity_b"] = _gravity(entity.bodies[0], down)
    return made


def _rows(frames: Frames, part: str, *, by_name: bool = False) -> Reader:
    kind, names, unit = _PARTS[part]
    signal = Signal(kind, names, unit, "world", rows=frames.names, by_name=by_name)
    return Reader(signal, frames.part(part), derived=True)


def _root_readers(place: str, frames: Frames, entity: Entity) -> dict[str, Reader]:
    """Of one frame, in the world, and its velocities in the axes of the root."""
    made: dict[str, Reader] = {}
    for part, (kind, names, unit) in _PARTS.items():
        read = frames.part(part)
        made[f"{place}_{part}_w"] = Reader(Signal(kind, names, unit, "world", by_name=True), _first(read), derived=True)
        if part.endswith("vel"):
            signal = Signal(kind, names, unit, BASE, by_name=True)
            made[f"{place}_{part}_b"] = Reader(signal, _turned(read, entity.bodies[0]), derived=True)
    return made


def _first(read: _Read) -> _Read:
    return lambda data: read(data)[0].copy()


def _turned(read: _Read, root: int) -> _Read:
    return lambda data: np.concatenate([turn_back(data.xquat[root], vector) for vector in read(data)[0].reshape(-1, 3)])


def _gravity(root: int, down: Array) -> Reader:
    signal = Signal("state/body/gravity", XYZ, "1", BASE, by_name=True)
    return Reader(signal, lambda data: turn_back(data.xquat[root], down), derived=True)


def _product(left: Array, right: Array) -> Array:
    """Quaternions w x y z, one after the other; both of shape [n, 4]."""
    made, multiply = np.empty_like(left), engine().mju_mulQuat
    for index in range(len(left)):
        multiply(made[index], left[index], right[index])
    return made


def _quaternions(matrices: Array) -> Array:
    """Rotation matrices of shape [n, 9] as quaternions w x y z of shape [n, 4]."""
    made, convert = np.empty((len(matrices), 4)), engine().mju_mat2Quat
    for quat, matrix in zip(made, matrices, strict=True):
        convert(quat, matrix)
    largest = np.abs(made).argmax(axis=1)[:, None]
    return np.asarray(made * np.sign(np.take_along_axis(made, largest, axis=1)))
