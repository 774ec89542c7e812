"""How a MuJoCo model is driven: which actuator moves which joint, by which gains, within which limits.

The order of `ctrl` is the order of the actuators in the file, not of the joints, so everything goes through
`actuator_trnid`. A position servo gets the gains of the package and MuJoCo computes its force; for a motor, the force
of position and velocity targets is computed here, at every physics step, as an explicit actuator of a training
environment does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ashore.deploy.mujoco.engine import Data, Model, engine
from ashore.deploy.mujoco.model import Joints
from ashore.deploy.mujoco.names import Names
from ashore.errors import BindError, RobotError
from ashore.package import Array
from ashore.runtime.robot import Signal
from ashore.spec import Joint

_SAVED = ("gainprm", "biasprm", "forcerange", "forcelimited", "ctrllimited")
_POSITION = "joint_pos_target"
_VELOCITY = "joint_vel_target"
_EFFORT = "joint_effort_target"
_TORQUES = "joint_torque_target"


class Drives:
    """The joints that can be driven, and what they are asked for now.

    Args:
        model: it is changed by `configure`.
        known: the names of the model.
        joints: of the model.
        idle: joints or actuators that are left alone.
    """

    def __init__(self, model: Model, known: Names, joints: Joints, idle: Sequence[str]) -> None:
        self._model = model
        self._pristine: dict[str, Array] = {name: getattr(model, f"actuator_{name}").copy() for name in _SAVED}
        found = _find_actuators(model, known, joints, idle)
        self.names = tuple(name for name in joints.names if name in found)
        """The joints that can be driven, in the order of the model."""

        place = [joints.names.index(name) for name in self.names]
        self._actuators = np.array([found[name][0] for name in self.names], np.intp)
        self._is_motor = np.array([found[name][1] for name in self.names], np.bool_)
        self._qpos, self._qvel, self._hinge = joints.qpos[place], joints.qvel[place], joints.hinge[place]
        gear = model.actuator_gear[self._actuators, 0] * model.actuator_gainprm[self._actuators, 0]
        self._force_per_ctrl = np.where(self._is_motor, gear, 1.0)
        self._asked: dict[str, Array] = {}
        self._clear()

    def _clear(self) -> None:
        count = len(self.names)
        self._asked = {name: np.zeros(count) for name in (_POSITION, _VELOCITY, _EFFORT, _TORQUES)}
        self._places: dict[str, Array] = {}
        self._kp, self._kd = np.zeros(count), np.zeros(count)
        self._limit = np.full(count, np.inf)
        self._has_position, self._has_velocity = np.zeros(count, np.bool_), np.zeros(count, np.bool_)

    def signals(self) -> dict[str, Signal]:
        """What can be written: positions to every drive, velocities and efforts to motors, and gains."""
        if not self.names:
            return {}
        motors = [index for index, motor in enumerate(self._is_motor) if motor]
        made = {
            _POSITION: self._signal("target/joint/position", "rad", "m"),
            "kp": self._signal("kp", "N*m/rad", "N/m"),
            "kd": self._signal("kd", "N*m*s/rad", "N*s/m"),
        }
        if motors:
            made[_VELOCITY] = self._signal("target/joint/velocity", "rad/s", "m/s", motors)
            made[_EFFORT] = self._signal("target/joint/effort", "N*m", "N", motors)
            made[_TORQUES] = self._signal("target/joint/torques", "N*m", "N", motors)
        return made

    def _signal(self, kind: str, hinge: str, slide: str, chosen: Sequence[int] | None = None) -> Signal:
        indices = range(len(self.names)) if chosen is None else chosen
        units = tuple(hinge if self._hinge[index] else slide for index in indices)
        return Signal(kind, tuple(self.names[index] for index in indices), units)

    def configure(self, joints: Mapping[str, Joint], writes: Mapping[str, tuple[str, ...]]) -> None:
        """Give every driven joint the gains and the limits of the package."""
        for name, values in self._pristine.items():
            getattr(self._model, f"actuator_{name}")[:] = values
        self._clear()
        self._places = {signal: np.array([self.names.index(one) for one in names]) for signal, names in writes.items()}
        for signal, flags in ((_POSITION, self._has_position), (_VELOCITY, self._has_velocity)):
            flags[self._places.get(signal, np.zeros(0, np.intp))] = True
        problems: list[str] = []
        for index, name in enumerate(self.names):
            joint = joints.get(name) or Joint(name=name, type="revolute" if self._hinge[index] else "prismatic")
            problems += self._check(index, joint, written=writes.keys())
            self._limit_effort(index, joint)
            self._set_gains(index, joint.kp, joint.kd)
        if problems:
            raise BindError("the joints of the package do not fit the robot:\n" + "\n".join(f"- {p}" for p in problems))

    def _check(self, index: int, joint: Joint, *, written: Collection[str]) -> list[str]:
        label, problems = f"joint {joint.name!r}", list[str]()
        kind = "revolute" if self._hinge[index] else "prismatic"
        if joint.type != kind:
            problems.append(f"{label}: the package says {joint.type}, the model {kind}")
        position, velocity = bool(self._has_position[index]), bool(self._has_velocity[index])
        if position and "kp" not in written:
            if joint.kp is not None and joint.kp <= 0:
                problems.append(f"{label}: kp is {joint.kp:g}; a position target needs a gain above 0")
            if joint.kp is None and self._is_motor[index]:
                problems.append(f"{label}: the actuator is a motor and the package has no kp; nothing would turn it")
        if velocity and not position and "kd" not in written and not (joint.kd or 0) > 0:
            problems.append(f"{label}: kd is {joint.kd}; a velocity target needs a gain above 0")
        if joint.effort_limit is not None and joint.effort_limit <= 0:
            problems.append(f"{label}: the effort limit is {joint.effort_limit:g}; it could not move")
        return problems

    def _limit_effort(self, index: int, joint: Joint) -> None:
        """The package's limit replaces the actuator's; targets are not clipped, as they were not in training."""
        model, actuator = self._model, self._actuators[index]
        if not self._is_motor[index]:
            model.actuator_ctrllimited[actuator] = 0
        if joint.effort_limit is None:
            return
        self._limit[index] = joint.effort_limit
        model.actuator_forcelimited[actuator] = not self._is_motor[index]
        model.actuator_ctrllimited[actuator] = 0
        if not self._is_motor[index]:
            model.actuator_forcerange[actuator] = (-joint.effort_limit, joint.effort_limit)

    def _set_gains(self, index: int, kp: float | None, kd: float | None) -> None:
        """Gains of one drive; None keeps what the actuator has, which for a motor is nothing."""
        if self._is_motor[index]:
            self._kp[index] = self._kp[index] if kp is None else kp
            self._kd[index] = self._kd[index] if kd is None else kd
            return
        model, actuator = self._model, self._actuators[index]
        if kp is not None:
            model.actuator_gainprm[actuator, 0] = kp
            model.actuator_biasprm[actuator, 1] = -kp
        if kd is not None:
            model.actuator_biasprm[actuator, 2] = -kd

    def ask(self, values: Mapping[str, Array]) -> None:
        """Take targets and gains; they hold until the next ones come."""
        for signal, array in values.items():
            places = self._places[signal]
            if signal in ("kp", "kd"):
                if (array < 0).any():
                    raise RobotError(f"{signal}: a gain cannot be negative, got {array.tolist()}")
                for place, value in zip(places, array, strict=True):
                    self._set_gains(place, *((float(value), None) if signal == "kp" else (None, float(value))))
            else:
                self._asked[signal][places] = array

    def rest(self, data: Data) -> None:
        """Forget what was asked for, and ask every drive to stay where it is: an episode starts."""
        for asked in self._asked.values():
            asked[:] = 0
        self._asked[_POSITION][:] = data.qpos[self._qpos]

    def apply(self, data: Data) -> None:
        """Set `ctrl` for the next physics step."""
        asked = self._asked
        push = asked[_EFFORT] + asked[_TORQUES]
        push += self._has_position * self._kp * (asked[_POSITION] - data.qpos[self._qpos])
        push += (self._has_position | self._has_velocity) * self._kd * (asked[_VELOCITY] - data.qvel[self._qvel])
        ctrl = np.clip(push, -self._limit, self._limit) / self._force_per_ctrl
        data.ctrl[self._actuators] = np.where(self._is_motor, ctrl, asked[_POSITION])


def _find_actuators(model: Model, known: Names, joints: Joints, idle: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """Joint -> its actuator, and whether that is a motor. What cannot be driven by a policy has to be idle."""
    found: dict[str, tuple[int, bool]] = {}
    problems: list[str] = []
    labels: Counter[str] = Counter()
    for index in range(model.nu):
        joint, problem = _joint_of(model, known, index, joints)
        actuator = known.short("actuator", index) or f"number {index}"
        labels.update({actuator, joint} - {""})
        if {actuator, joint} & set(idle):
            continue
        motor = _is_motor(model, index)
        if not problem and motor is None:
            problem = "is neither a position servo nor a motor (fixed gain, no dynamics, gear 1 for a servo)"
        if not problem and joint in found:
            problem = f"moves {joint!r}, which another actuator moves too"
        if problem:
            problems.append(f"actuator {actuator!r} {problem}")
        else:
            found[joint] = index, bool(motor)
    problems += [f"idle: the model has no actuator and no actuated joint {name!r}" for name in idle if not labels[name]]
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise BindError(f"the model cannot be driven:\n{listed}\nleave what shall not be driven alone with idle=[…]")
    return found


def _joint_of(model: Model, known: Names, actuator: int, joints: Joints) -> tuple[str, str]:
    """The joint that an actuator moves, or what is wrong."""
    kinds: Any = engine().mjtTrn
    if model.actuator_trntype[actuator] not in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
        return "", "does not move a joint"
    name = known.short("joint", int(model.actuator_trnid[actuator, 0]))
    return (name, "") if name in joints.names else (name, "moves a joint that is no named hinge or slide")


def _is_motor(model: Model, actuator: int) -> bool | None:
    """Whether an actuator is a motor (True) or a position servo (False); None if it is something else."""
    mujoco = engine()
    gain, bias = model.actuator_gainprm[actuator], model.actuator_biasprm[actuator]
    plain = model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
    if not plain or model.actuator_gaintype[actuator] != mujoco.mjtGain.mjGAIN_FIXED:
        return None
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE:
        return True if gain[0] * model.actuator_gear[actuator, 0] else None
    if model.actuator_biastype[actuator] != mujoco.mjtBias.mjBIAS_AFFINE:
        return None
    servo = gain[0] > 0 and bias[1] == -gain[0] and bias[0] == 0 and model.actuator_gear[actuator, 0] == 1
    return False if servo else None
