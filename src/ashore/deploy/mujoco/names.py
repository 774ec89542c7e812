"""What the things in a MuJoCo model are called, and to whom they belong.

A scene that holds a robot and other things keeps them apart by prefixes: ``robot/hip``, ``cube/cube``. A package knows
its robot by the names without the prefix, and calls what stands in the scene entities.
"""

from __future__ import annotations

from typing import NamedTuple

from ashore.deploy.mujoco.engine import Model, engine
from ashore.errors import BindError

ROBOT = "robot"
"""What the robot of a model is called as an entity, whatever its prefix is."""

_COUNTS = {"body": "nbody", "camera": "ncam", "site": "nsite"}


class Names:
    """The names of a model, without the prefix of the robot. A name that is nothing but the prefix is none.

    Args:
        model: whose names these are.
        prefix: such as ``"robot/"``. None takes the one that all actuated joints have, up to their first slash.
    """

    def __init__(self, model: Model, prefix: str | None) -> None:
        self._model = model
        self.prefix = self._find_prefix(prefix)
        self.roots = sorted({int(model.body_rootid[model.jnt_bodyid[joint]]) for joint in self._actuated()})
        """The bodies in the world that carry what the robot's actuators move."""

    def full(self, kind: str, index: int) -> str:
        """The name in the file; empty if there is none."""
        return str(getattr(self._model, kind)(index).name)

    def short(self, kind: str, index: int) -> str:
        """The name by which the package knows it."""
        return self.full(kind, index).removeprefix(self.prefix)

    def all(self, kind: str) -> dict[str, int]:
        """Short name -> index, of all bodies, cameras or sites that have a name."""
        found: dict[str, int] = {}
        for index in range(int(getattr(self._model, _COUNTS[kind]))):
            if not (name := self.short(kind, index)):
                continue
            if name in found:
                raise BindError(f"without the prefix {self.prefix!r}, two of the model's {kind} names are {name!r}")
            found[name] = index
        return found

    def _actuated(self, prefix: str | None = None) -> list[int]:
        """The joints that actuators move, of the robot or of all."""
        kinds = engine().mjtTrn
        start = self.prefix if prefix is None else prefix
        ids = zip(self._model.actuator_trntype, self._model.actuator_trnid[:, 0], strict=True)
        joints = [int(joint) for kind, joint in ids if kind in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT)]
        return [joint for joint in joints if self.full("joint", joint).startswith(start)]

    def _find_prefix(self, prefix: str | None) -> str:
        joints = [self.full("joint", joint) for joint in self._actuated("")]
        found = sorted({f"{name.partition('/')[0]}/" if "/" in name else "" for name in joints})
        if prefix is None:
            if len(found) > 1 and all(found):
                raise BindError(
                    f"the model has several robots, {found}; say which is the policy's with prefix={found[0]!r}, "
                    f"or prefix='' for names as they are"
                )
            return found[0] if len(found) == 1 else ""
        if prefix and not any(name.startswith(prefix) for name in joints):
            raise BindError(f"prefix: no actuated joint begins with {prefix!r}; there are {joints}")
        return prefix


class Entity(NamedTuple):
    """A thing of the scene."""

    name: str
    prefix: str
    bodies: tuple[int, ...]
    """The root first."""


def find_entities(model: Model, names: Names, robot: int | None) -> list[Entity]:
    """Everything that has a name of its own.

    Bodies called ``cube/…`` are the entity ``cube``. Without a slash, it is a body that stands in the world, with all
    that hangs on it, by the name of that body. What the policy drives is ``robot``, also where it has another name.

    Args:
        model: whose bodies these are.
        names: of the model.
        robot: the root body of the robot, if there is one.
    """
    own = names.prefix.removesuffix("/") or ROBOT
    found: dict[str, list[int]] = {}
    for body in range(1, model.nbody):
        root, name = int(model.body_rootid[body]), names.full("body", body)
        owner = (name if "/" in name else names.full("body", root)).partition("/")[0]
        is_robot = name.startswith(names.prefix) if names.prefix else root == robot
        found.setdefault(own if is_robot else owner, []).append(body)
    found.pop("", None)
    if own in found:
        found.setdefault(ROBOT, found[own])
    return [
        Entity(name, names.prefix if bodies is found.get(own) else f"{name}/", tuple(bodies))
        for name, bodies in found.items()
    ]


def members(model: Model, names: Names, kind: str, entity: Entity) -> dict[str, int]:
    """The named bodies or sites of an entity: what it calls them -> their index."""
    owners = range(model.nbody) if kind == "body" else model.site_bodyid
    named = {index: names.full(kind, index) for index, body in enumerate(owners) if body in entity.bodies}
    return {name.removeprefix(entity.prefix): index for index, name in named.items() if name}
