"""A robot that MuJoCo simulates: the torch-free deployment simulator."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ashore.deploy.mujoco.cameras import Cameras
from ashore.deploy.mujoco.contacts import contact_readers
from ashore.deploy.mujoco.drives import Drives
from ashore.deploy.mujoco.engine import Data, Model, Reader, engine, open_model
from ashore.deploy.mujoco.frames import entity_readers, frame_readers
from ashore.deploy.mujoco.model import base_readers, find_base, find_joints, joint_readers, sensor_readers
from ashore.deploy.mujoco.names import Names
from ashore.deploy.mujoco.scans import SCANS, make_scan
from ashore.errors import BindError, OrderError, RobotError, suggestion
from ashore.package import Array
from ashore.runtime.robot import Setup, Signal
from ashore.spec import Joint, Port, Timing


class MujocoRobot:
    """A robot of an MJCF file.

    It reads `joint_pos`, `joint_vel` and `joint_effort` of every named hinge and slide; of a floating base `base_pos`,
    `base_quat` (w x y z), `base_lin_vel`, `base_ang_vel` and `projected_gravity` (a unit vector), the last three in the
    axes of the base; and gyros, accelerometers, velocimeters and frame sensors by their own names. Bodies, sites,
    entities, contacts, cameras and height scans are in docs/deploy.md. It accepts joint targets and gains for every
    joint that a position servo or a motor moves.

    Args:
        model: an ``.xml`` or ``.mjb`` file, or a `mujoco.MjModel`, which is copied.
        prefix: what the names of the robot begin with in the model, such as ``"robot/"``; they are known without it.
            None takes what all actuated joints begin with, up to a slash; ``""`` leaves names as they are.
        base: the name of the floating body, where several carry actuators.
        idle: joints or actuators that the policy does not drive; they keep the control of the start.
        keyframe: where an episode starts. Without it: the pose of the model, with the package's default positions.
        policy_dt_s: the time between two decisions, for packages that do not say it.
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str],
        *,
        prefix: str | None = None,
        base: str | None = None,
        idle: Sequence[str] = (),
        keyframe: str | None = None,
        policy_dt_s: float | None = None,
    ) -> None:
        self.model: Model = open_model(model)
        """The `mujoco.MjModel`, with the gains of the package once it is bound."""

        self.data: Data = engine().MjData(self.model)
        """The `mujoco.MjData`."""

        self.names = Names(self.model, prefix)
        """What the things in the model are called."""

        self._joints = find_joints(self.model, self.names)
        self.base = find_base(self.model, self.names, base)
        """The floating base, or None."""

        self._drives = Drives(self.model, self.names, self._joints, idle)
        self._cameras = Cameras(self.model, self.names)
        self._readers = self._find_readers()
        self._orders = {**SCANS, **self._cameras.signals()}
        self._made: dict[str, Reader] = {}
        self._writes = self._drives.signals()
        self._policy_dt_s = policy_dt_s
        self._keyframe = self._find_keyframe(keyframe)
        self._defaults: dict[int, float] = {}
        self._steps: int | None = None
        self._stale = True

    @property
    def reads(self) -> Mapping[str, Signal]:
        """Name -> what can be read."""
        return MappingProxyType({name: reader.signal for name, reader in self._readers.items()} | self._orders)

    @property
    def writes(self) -> Mapping[str, Signal]:
        """Name -> what is accepted."""
        return MappingProxyType(self._writes)

    @property
    def time_s(self) -> float:
        """Simulated time since the reset."""
        return float(self.data.time)

    @property
    def tick_s(self) -> float:
        """The time that `advance` takes: one substep of the package."""
        return self._physics_steps() * float(self.model.opt.timestep)

    def configure(self, setup: Setup) -> None:
        """Take over gains, effort limits, default positions and rates of a package, and what it wants to see.

        Raises:
            BindError: the time step is another one, a gain makes no sense, or an image or a scan cannot be made.
        """
        self._steps = self._steps_in_a_tick(setup.timing)
        joints = {joint.name: joint for joint in setup.joints}
        self._drives.configure(joints, setup.writes)
        self._defaults = {
            int(address): joint.default_position
            for name, address in zip(self._joints.names, self._joints.qpos, strict=True)
            for joint in (joints.get(name, Joint(name=name)),)
            if joint.default_position is not None
        }
        self._made = {name: self._make(name, port) for name, port in setup.orders.items()}

    def reset(self) -> None:
        """Go to the keyframe, or to the model's pose with the default positions of the package; all is at rest."""
        mujoco = engine()
        if self._keyframe is not None:
            mujoco.mj_resetDataKeyframe(self.model, self.data, self._keyframe)
        else:
            mujoco.mj_resetData(self.model, self.data)
            for address, value in self._defaults.items():
                self.data.qpos[address] = value
        self._drives.rest(self.data)
        self._stale = True

    def read(self, names: Sequence[str]) -> dict[str, Array]:
        """What the robot measures now. Reading never changes where the simulation goes.

        Args:
            names: signals of `reads`.

        Returns:
            Signal -> array of its signal's shape and order, float64; images are of the port's shape and dtype.
        """
        readers = [self._reader(name) for name in names]
        if self._stale and any(reader.derived for reader in readers):
            self.refresh()
        return {name: reader.read(self.data) for name, reader in zip(names, readers, strict=True)}

    def write(self, values: Mapping[str, Array]) -> None:
        """Take targets and gains; they hold until the next ones come."""
        self._drives.ask(values)
        self._stale = True  # accelerations depend on what is asked for

    def advance(self) -> None:
        """Simulate one tick: as many physics steps as a substep of the package takes.

        Raises:
            RobotError: the simulation diverged.
        """
        mujoco = engine()
        for _ in range(self._physics_steps()):
            self._drives.apply(self.data)
            mujoco.mj_step(self.model, self.data)
        self._stale = True
        bad = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
        for warning in bad:
            if self.data.warning[warning].number:
                raise RobotError(
                    f"the simulation diverged at about {self.time_s:.3f} s ({warning.name[7:]}); "
                    f"look at gains, effort limits and contacts"
                )

    def refresh(self) -> None:
        """Compute what depends on positions and velocities: a step leaves that as it was before the step."""
        start = self.data.qacc_warmstart.copy()
        self._drives.apply(self.data)
        engine().mj_forward(self.model, self.data)
        self.data.qacc_warmstart[:] = start  # so that reading changes no later step
        self._stale = False

    def _find_readers(self) -> dict[str, Reader]:
        model, names, base = self.model, self.names, self.base
        root = base.body if base is not None else names.roots[0] if len(names.roots) == 1 else None
        found = joint_readers(self._joints)
        if base is not None:
            found |= base_readers(model, base)
        found |= frame_readers(model, names) | contact_readers(model, names) | entity_readers(model, names, root)
        return {**sensor_readers(model, names, base), **found}

    def _make(self, name: str, port: Port) -> Reader:
        return make_scan(self.model, self.names, name, port) if name in SCANS else self._cameras.make(name, port)

    def _reader(self, name: str) -> Reader:
        if name in self._orders and name not in self._made:
            raise OrderError(f"{name!r} is made to order, and no policy is bound that asks for it")
        return self._made[name] if name in self._orders else self._readers[name]

    def _physics_steps(self) -> int:
        if self._steps is None:
            raise OrderError("this robot is not bound to a policy yet, so nothing says how long a tick is")
        return self._steps

    def _steps_in_a_tick(self, timing: Timing | None) -> int:
        step, said = float(self.model.opt.timestep), timing.policy_dt_s if timing else None
        if timing and timing.physics_dt_s is not None and not math.isclose(timing.physics_dt_s, step, rel_tol=1e-6):
            raise BindError(
                f"time step: the package was trained with physics_dt_s={timing.physics_dt_s:g}, the model has "
                f'timestep={step:g}; set <option timestep="{timing.physics_dt_s:g}"/>'
            )
        ours = self._policy_dt_s
        if said is not None and ours is not None and not math.isclose(said, ours, rel_tol=1e-6):
            raise BindError(f"time step: the package decides every {said:g} s, but policy_dt_s={ours:g} was asked for")
        decision = said if said is not None else ours
        if decision is None:
            raise BindError("time step: the package does not say how often it decides; give policy_dt_s")
        tick = decision / (timing.decimation if timing else 1)
        steps = round(tick / step)
        if steps < 1 or not math.isclose(steps * step, tick, rel_tol=1e-6):
            raise BindError(
                f"time step: a tick of the package takes {tick:g} s, which is no whole number of the model's "
                f"timestep={step:g}; set <option timestep=…/> to a divisor"
            )
        return steps

    def _find_keyframe(self, name: str | None) -> int | None:
        if name is None:
            return None
        names = [str(self.model.key(index).name) for index in range(self.model.nkey)]
        if name not in names:
            raise BindError(f"the model has no keyframe {name!r}{suggestion(name, names, f'; there are {names}')}")
        return names.index(name)
