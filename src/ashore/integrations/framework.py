"""What one simulator framework has to say about its environments; the rest is shared."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ashore.capture.findings import Finding
from ashore.integrations.buffers import History
from ashore.integrations.semantics import Meaning
from ashore.package import Array
from ashore.spec import Joint


@dataclass(frozen=True)
class Write:
    """A method of an entity that hands a target to its actuators."""

    kind: str
    unit: Mapping[str, str]
    names: str
    """The attribute of the entity that has the names of what is driven."""

    port: str
    """What the output is called."""

    value: tuple[str, ...]
    """The parameter with the target, as it may be called."""

    ids: tuple[str, ...]
    """The parameter with the indices, likewise."""


def joint_writes(suffixes: Sequence[str] = ("",)) -> dict[str, Write]:
    """The methods that set targets of joints, with the endings that a framework gives them."""
    made: dict[str, Write] = {}
    for what, kind, port, revolute, prismatic in (
        ("position", "target/joint/position", "joint_pos_target", "rad", "m"),
        ("velocity", "target/joint/velocity", "joint_vel_target", "rad/s", "m/s"),
        ("effort", "target/joint/effort", "joint_effort_target", "N*m", "N"),
    ):
        unit = {"revolute": revolute, "prismatic": prismatic}
        write = Write(kind, unit, "joint_names", port, (what, "target"), ("joint_ids",))
        made |= {f"set_joint_{what}_target{suffix}": write for suffix in suffixes}
    return made


def fix_terrain(scene: Any) -> None:
    """Have a scene whose ground is made at random made with the same one every time; a seed of the user's is kept."""
    generator = getattr(getattr(scene, "terrain", None), "terrain_generator", None)
    if generator is not None and getattr(generator, "seed", None) is None:
        generator.seed = 0


class Idle:
    """In place of a manager that only training needs."""

    active_terms: tuple[str, ...] = ()

    def __init__(self, env: Any) -> None:
        self._env = env

    def compute(self, *_: Any, **__: Any) -> torch.Tensor:
        """No reward."""
        return torch.zeros(self._env.num_envs, device=self._env.device)

    def reset(self, *_: Any, **__: Any) -> dict[str, float]:
        """Nothing to tell."""
        return {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None


class Framework(abc.ABC):
    """Where a framework keeps what an export needs."""

    name: ClassVar[str]
    quaternion: ClassVar[tuple[str, ...]]
    """The order in which quaternions are."""

    writes: ClassVar[Mapping[str, Write]]
    """Method of an entity -> what it sets."""

    apart: ClassVar[bool] = False
    """Whether what properties and writes do inside is the simulator's affair, and nothing to record."""

    counters: ClassVar[Sequence[str]] = ("_sim_step_counter", "common_step_counter")
    """Attributes of environments that count steps, for training."""

    @abc.abstractmethod
    def entities(self, env: Any) -> Mapping[str, Any]:
        """Name in the scene -> articulations and objects."""

    @abc.abstractmethod
    def sensors(self, env: Any) -> Mapping[str, Any]:
        """Name in the scene -> sensors."""

    @abc.abstractmethod
    def joint_types(self, env: Any, entity: Any) -> Mapping[str, str]:
        """Joint -> ``"revolute"`` or ``"prismatic"``."""

    @abc.abstractmethod
    def joints(self, env: Any, entity: Any) -> tuple[list[Joint], list[Finding]]:
        """The joints of an entity, with the gains and limits of its actuators; and what is odd about them."""

    def target_scale(self, env: Any, entity: Any, method: str, names: Sequence[str]) -> Sequence[float] | None:
        """What one of a target's own unit makes in the unit of its kind, for each joint; None where it is the same."""
        return None

    @abc.abstractmethod
    def physics_dt(self, env: Any) -> float:
        """The time step of the simulation."""

    def tensor(self, value: Any) -> torch.Tensor | None:
        """A value of a property as a tensor that shares its memory, or None where it is none."""
        return value if isinstance(value, torch.Tensor) else None

    def meaning(self, env: Any, thing: Any, name: str) -> Meaning | None:
        """What a property means that nobody described, where the framework itself knows it."""
        return None

    def metadata(self, thing: Any) -> Mapping[str, Any]:
        """What else has to be known to get what a sensor gives from a robot: how a camera sees, where rays start."""
        return {}

    def prepare(self, env: Any) -> Iterable[Finding]:
        """Switch off what only training needs; the environment is put back afterwards. Gives what stands against it."""
        for name in ("reward_manager", "metrics_manager", "curriculum_manager", "recorder_manager"):
            if hasattr(env, name):
                setattr(env, name, Idle(env))
        manager = env.observation_manager
        for terms in manager._group_obs_term_cfgs.values():
            for term in terms:
                term.noise = None
        return ()

    def foreign(self) -> Iterable[Callable[..., Any]]:
        """Functions that show memory of the simulator to torch, and do nothing else that is to be recorded."""
        return ()

    def elsewhere(self, env: Any) -> Iterable[object]:
        """What holds state of the simulation and cannot be reached from the environment, so that it is put back too."""
        return ()

    def histories(self, env: Any, groups: Sequence[str]) -> Mapping[str, History]:
        """What to call a history of observations -> its stand-in, once the environment is prepared."""
        return {}

    @abc.abstractmethod
    def state(self, env: Any) -> Mapping[str, Array]:
        """Name -> what the simulation of an environment, or of a deployment environment, is at now."""

    @abc.abstractmethod
    def snapshot(self, env: Any) -> Mapping[str, Array]:
        """Everything that the simulation of an environment integrates."""

    @abc.abstractmethod
    def put(self, deployment: Any, snapshot: Mapping[str, Array]) -> None:
        """Put the simulation of a deployment environment where a snapshot was taken."""

    def computed(self, env: Any) -> Iterable[tuple[str, Any, Callable[[], torch.Tensor], Meaning]]:
        """What actions have the simulator compute in every substep, such as Jacobians.

        Returns:
            Connection, what it belongs to, how it is computed now, and what it means.
        """
        return ()

    def arrays(self, env: Any) -> Mapping[str, torch.Tensor]:
        """Path -> arrays of the simulator that terms may read by themselves."""
        return {}
