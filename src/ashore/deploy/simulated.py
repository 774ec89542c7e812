"""A package in the simulator it was trained in, with scene and physics only: no managers, no training code.

Inputs are read and outputs written where the connections of the package say: ``state:robot:joint_pos`` is a property of
the data of an entity or sensor, ``command:twist`` is given by the caller or by the task's own command terms, and
``write:robot:set_joint_position_target`` is a method of an entity.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np

from ashore.deploy.arrays import follow
from ashore.errors import BindError, InputError
from ashore.package import Array, Package
from ashore.runtime import Policy, load
from ashore.runtime.ranges import Alarm, RangeWatch
from ashore.spec import BATCH, Port


class DeploymentEnv(abc.ABC):
    """A simulated scene that a package drives. Use it in a ``with`` block, or call `close`.

    Args:
        package: a package whose ports say where they are connected.
        num_envs: how many robots; more than one needs a package with an open batch.
        backend: what runs the stages, as for `ashore.load`.
    """

    def __init__(self, package: Package | str | os.PathLike[str], *, num_envs: int = 1, backend: str | None = None):
        batched = load(package, backend=backend)
        shapes = [port.shape for port in batched.inputs.values()]
        if any(BATCH in shape for shape in shapes) and num_envs != 1:
            batched = load(package, backend=backend, batch=num_envs)
        self.policy: Policy = batched
        """What decides."""

        rows = {int(shape[0]) for shape in shapes if shape and shape[0] != BATCH}
        if rows - {num_envs}:
            raise BindError(
                f"the package is for {sorted(rows)[0]} environment, and num_envs is {num_envs}; "
                f'export it with batch="dynamic" (--batch dynamic) to run several'
            )
        self.num_envs = num_envs
        self._range_watch = RangeWatch(batched.ranges())
        timing = batched.manifest.timing
        self.decimation = timing.decimation if timing else 1
        self._reads: dict[str, Callable[[], Array]] = {}
        self._writes: dict[str, Callable[[Array], object]] = {}
        self._external: set[str] = set()
        self._inputs: dict[str, Array] = {}
        self._open = True

    # --- what a simulator has to say ----------------------------------------------------------------------------------

    @abc.abstractmethod
    def element(self, name: str) -> Any:
        """The entity or sensor of a name; a `KeyError` where there is none."""

    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """What is in the scene."""

    @abc.abstractmethod
    def array(self, value: Any) -> Array | None:
        """A value of the simulator as an array, or None where it is none."""

    @abc.abstractmethod
    def writer(self, entity: Any, method: str, names: Sequence[str]) -> Callable[[Array], object]:
        """What hands a target to a method of an entity.

        Args:
            entity: the entity.
            method: its method.
            names: the joints, in the order of the target.
        """

    @abc.abstractmethod
    def physics_dt(self) -> float:
        """The time step of the simulation."""

    @abc.abstractmethod
    def advance(self) -> None:
        """One step of physics, after the targets are written."""

    @abc.abstractmethod
    def sense(self) -> None:
        """Compute what depends on the state, and what sensors see."""

    @abc.abstractmethod
    def restore(self) -> None:
        """Put the scene where an episode starts."""

    @abc.abstractmethod
    def shut(self) -> None:
        """Let go of the simulator."""

    def command(self, name: str) -> Any:  # noqa: ARG002
        """The command term of a name, or None where nobody but the caller commands."""
        return None

    def further(self, where: str, path: str) -> Callable[[], Any] | None:  # noqa: ARG002
        """How to read a connection of another kind, or None where only the caller can give it."""
        return None

    # --- driving ------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Find every port of the package in the scene, or say everything that is missing."""
        problems: list[str] = []
        for name, port in self.policy.inputs.items():
            problems += self._tried(f"input {name!r}", lambda name=name, port=port: self._connect_input(name, port))
        for name, port in self.policy.outputs.items():
            if port.connection is not None:
                problems += self._tried(
                    f"output {name!r}", lambda name=name, port=port: self._connect_output(name, port)
                )
        timing = self.policy.manifest.timing
        trained, here = timing.physics_dt_s if timing else None, self.physics_dt()
        if trained is not None and not np.isclose(trained, here, rtol=1e-6):
            problems.append(f"time step: the package was trained with {trained:g} s, the scene has {here:g} s")
        if not self._writes:
            problems.append("no output of the package says where it is written")
        if problems:
            listed = "\n".join(f"- {problem}" for problem in problems)
            raise BindError(
                f"policy {self.policy.manifest.name!r} does not fit the scene:\n{listed}\n"
                f"the scene has: {', '.join(self.names())}"
            )

    @property
    def external_inputs(self) -> frozenset[str]:
        """The inputs that nobody gives but the caller."""
        return frozenset(self._external)

    @property
    def inputs(self) -> Mapping[str, Array]:
        """What the policy was given last."""
        return MappingProxyType(self._inputs)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Inputs of decisions that were far outside of what the export saw, each once."""
        return tuple(self._range_watch.alarms)

    def reset(self) -> None:
        """Start an episode: of the scene, and of the policy's states."""
        self._check_open()
        self.restore()
        self.sense()
        self.policy.reset()

    def step(self, external_inputs: Mapping[str, Any] | None = None) -> dict[str, Array]:
        """One decision, and the physics of it.

        Args:
            external_inputs: input -> its value, with a row for each environment. Needed for what the scene does not
                have, such as commands; others may be given too, and are then not read.

        Returns:
            The outputs of the decision and of its last substep.
        """
        self._check_open()
        given = dict(external_inputs or {})
        for name in given:
            if name not in self.policy.inputs:
                raise InputError(
                    f"external_inputs: the policy has no input {name!r}; it has {list(self.policy.inputs)}"
                )
        missing = sorted(self._external - given.keys())
        if missing:
            raise InputError(f"external_inputs: expected {missing} too; nothing in the scene gives them")
        self._inputs = self._read(self.policy.step_inputs, given)
        self._range_watch.look(self._inputs)
        outputs = dict(self.policy.step(self._inputs))
        acts = any(stage.rate == "substep" for stage in self.policy.manifest.stages.values())
        for _ in range(self.decimation):
            if acts:
                outputs |= self.policy.substep(self._read(self.policy.substep_inputs, given))
            for name, write in self._writes.items():
                write(outputs[name])
            self.advance()
        self.sense()
        return outputs

    def close(self) -> None:
        """Let go of the simulator. May be called twice."""
        if self._open:
            self._open = False
            self.shut()

    def __enter__(self) -> DeploymentEnv:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- connections --------------------------------------------------------------------------------------------------

    def _connect_input(self, name: str, port: Port) -> None:
        where, _, path = (port.connection or "").partition(":")
        owner, _, prop = path.partition(":")
        if where == "command":
            term = self.command(owner)
            if term is None:
                self._external.add(name)
            else:
                self._reads[name] = self._reader(term, (prop,), port)
            return
        if where != "state":
            further = self.further(where, path)
            if further is None:
                self._external.add(name)
            else:
                self._reads[name] = self._reader(further, (), port)
            return
        element = self._find(owner)
        path_there = ("data", *prop.split(".")) if prop else ("data",)
        self._reads[name] = self._reader(element, path_there, port)

    def _reader(self, owner: Any, path: Sequence[str], port: Port) -> Callable[[], Array]:
        def get() -> Array:
            value = follow(owner, path) if path else owner()
            found = self.array(value)
            if found is None:
                raise BindError(f"{'.'.join(path)} is {type(value).__name__}, expected an array")
            return found

        try:
            shape = get().shape
        except AttributeError as error:
            raise BindError(f"there is no {'.'.join(path)}: {error}") from error
        wanted = tuple(self.num_envs if one == BATCH else int(one) for one in port.shape)
        if shape != wanted:
            raise BindError(f"expected shape {list(wanted)}, the scene has {list(shape)}; nothing is broadcast")
        orders = {
            axis: places(there, names)
            for axis, names in enumerate(port.element_names or ())
            if names is not None and (there := _names_there(owner, names)) is not None and list(names) != list(there)
        }
        return _reordered(get, orders) if orders else get

    def _connect_output(self, name: str, port: Port) -> None:
        where, _, path = (port.connection or "").partition(":")
        owner, _, method = path.partition(":")
        entity = self._find(owner)
        if where != "write" or not callable(getattr(entity, method, None)):
            raise BindError(f"{port.connection!r}: {type(entity).__name__} has no method {method!r}")
        names = port.element_names[-1] if port.element_names else None
        if names is None:
            raise BindError(f"{port.connection!r}: it does not name its elements")
        self._writes[name] = self.writer(entity, method, names)

    @staticmethod
    def _tried(what: str, connect: Callable[[], object]) -> list[str]:
        try:
            connect()
        except BindError as error:
            return [f"{what}: {error}"]
        return []

    def _find(self, name: str) -> Any:
        try:
            return self.element(name)
        except KeyError:
            raise BindError(f"there is no {name!r} in the scene") from None

    def _read(self, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Array]:
        return {name: np.asarray(given[name]) if name in given else self._reads[name]() for name in names}

    def _check_open(self) -> None:
        if not self._open:
            raise BindError("this deployment environment is closed")


def _names_there(owner: Any, names: Sequence[str]) -> Sequence[str] | None:
    """The names that an entity has for its joints, bodies or sites, where those of a port are such names."""
    kinds = [getattr(owner, f"{kind}_names", None) or () for kind in ("joint", "body", "site")]
    return next((one for one in kinds if len(one) == len(names) and set(one) & set(names)), None)


def _reordered(get: Callable[[], Array], orders: Mapping[int, Sequence[int]]) -> Callable[[], Array]:
    def taken() -> Array:
        value = get()
        for axis, order in orders.items():
            value = np.take(value, order, axis=axis)
        return value

    return taken


def places(there: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where names are in a list, or a `BindError` that lists both sides."""
    missing = [name for name in names if name not in there]
    if missing:
        raise BindError(f"{missing} are not in the scene; expected {list(names)}, it has {list(there)}")
    return [list(there).index(name) for name in names]
