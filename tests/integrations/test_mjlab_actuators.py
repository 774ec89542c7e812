"""Gains come from the actuators themselves, whatever computes their force; without any, a position is no target."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from mjlab.actuator import (
    BuiltinMotorActuatorCfg,
    BuiltinPdActuatorCfg,
    BuiltinPositionActuatorCfg,
    BuiltinVelocityActuatorCfg,
    DcMotorActuatorCfg,
    IdealPdActuatorCfg,
)
from mjlab.entity import EntityArticulationInfoCfg
from mjlab.envs.mdp.actions import JointEffortActionCfg, JointPositionActionCfg, JointVelocityActionCfg

import ashore
from ashore.deploy import MujocoRobot
from ashore.errors import ExportError
from ashore.integrations.mjlab import FRAMEWORK, write_model
from ashore.spec import Joint
from integrations.mjlab_tasks import CARTPOLE, Change, check_package, export, opened, plain, refused, run_alone

BOTH = (".*",)


def driven_by(*actuators: Any, action: type = JointPositionActionCfg) -> Change:
    """A cart with actuators of our own instead of those in its file."""

    def change(cfg: Any, _: Any) -> None:
        cart = cfg.scene.entities["cartpole"]
        original = cart.spec_fn

        def without_motors() -> mujoco.MjSpec:
            spec = original()
            for one in list(spec.actuators):
                spec.delete(one)
            return spec

        cart.spec_fn, cart.articulation = without_motors, EntityArticulationInfoCfg(actuators=actuators)
        cfg.actions = {"targets": action(entity_name="cartpole", actuator_names=BOTH, scale=0.5)}
        cfg.rewards = {}

    return change


def joints_of(change: Change) -> tuple[dict[str, Joint], list[str]]:
    """What an export would say about the joints; and the names of what it would find."""
    env, _ = opened(CARTPOLE, change=change)
    joints, findings = FRAMEWORK.joints(env, env.scene["cartpole"])
    env.close()
    return {joint.name: joint for joint in joints}, [one.name for one in findings]


def about(joint: Joint) -> tuple[Any, ...]:
    return joint.actuator, joint.kp, joint.kd, joint.effort_limit, joint.velocity_limit


def test_explicit_actuators_have_the_gains_of_their_configuration() -> None:
    """The model has motors for them, and the data of the robot would say zero."""
    ideal = IdealPdActuatorCfg(target_names_expr=("slider",), stiffness=40.0, damping=3.0, effort_limit=12.0)
    motor = DcMotorActuatorCfg(
        target_names_expr=("hinge_1",), stiffness=7.0, damping=0.5, effort_limit=5.0, saturation_effort=9.0,
        velocity_limit=30.0,
    )  # fmt: skip
    joints, findings = joints_of(driven_by(ideal, motor))
    assert about(joints["slider"]) == ("ideal_pd", 40.0, 3.0, 12.0, None)
    assert about(joints["hinge_1"]) == ("dc_motor", 7.0, 0.5, 5.0, 30.0)
    assert findings == []


def test_actuators_of_mujoco_have_the_gains_of_the_model() -> None:
    servo = BuiltinPositionActuatorCfg(target_names_expr=("slider",), stiffness=40.0, damping=3.0, effort_limit=12.0)
    pair = BuiltinPdActuatorCfg(target_names_expr=("hinge_1",), stiffness=7.0, damping=0.5, effort_limit=5.0)
    joints, _ = joints_of(driven_by(servo, pair))
    assert about(joints["slider"]) == ("implicit", 40.0, 3.0, 12.0, None)
    assert about(joints["hinge_1"]) == ("implicit", 7.0, 0.5, 5.0, None)  # of two elements, with one limit


def test_velocity_servos_and_motors_have_what_they_have() -> None:
    speed = BuiltinVelocityActuatorCfg(target_names_expr=("slider",), damping=3.0)
    motor = BuiltinMotorActuatorCfg(target_names_expr=("hinge_1",), effort_limit=5.0, gear=2.0)
    joints, _ = joints_of(driven_by(speed, motor, action=JointVelocityActionCfg))
    assert about(joints["slider"]) == ("implicit", 0.0, 3.0, None, None)
    assert about(joints["hinge_1"]) == ("motor", None, None, 10.0, None)  # the limit is of the motor, before its gear


def test_gains_are_those_from_before_they_were_randomised() -> None:
    cfg = IdealPdActuatorCfg(target_names_expr=BOTH, stiffness=40.0, damping=3.0, effort_limit=12.0)
    env, _ = opened(CARTPOLE, change=driven_by(cfg))
    (actuator,) = env.scene["cartpole"].actuators
    actuator.set_gains(torch.tensor([0]), kp=torch.tensor([[20.0, 60.0]]))
    assert actuator.stiffness.tolist() == [[20.0, 60.0]]
    joints, _ = FRAMEWORK.joints(env, env.scene["cartpole"])
    assert [joint.kp for joint in joints] == [40.0, 40.0]
    env.close()


def test_delayed_actuators_are_said_and_their_gains_are_true(tmp_path: Path) -> None:
    """They run after the policy: a package does not have them, and a robot has its own."""
    cfg = IdealPdActuatorCfg(
        target_names_expr=BOTH, stiffness=40.0, damping=3.0, effort_limit=12.0, delay_min_lag=1, delay_max_lag=3
    )
    env, actor = opened(CARTPOLE, change=plain(driven_by(cfg)))
    package = export(env, actor, tmp_path / "p")
    slider, hinge = package.manifest.joints
    assert about(slider) == about(hinge) == ("ideal_pd", 40.0, 3.0, 12.0, None)
    (finding,) = [one for one in package.manifest.findings if one.name == "actuator_delay"]
    assert finding.severity == "info"
    assert finding.message == "the actuators of slider, hinge_1 act 1 to 3 physics steps late"
    check_package(package, run_alone(env, actor, package.manifest, 12))
    env.close()


@pytest.mark.parametrize(
    ("cfg", "said"),
    [
        (IdealPdActuatorCfg(target_names_expr=BOTH, stiffness=0.0, damping=3.0), "its stiffness is 0"),
        (IdealPdActuatorCfg(target_names_expr=BOTH, stiffness=-4.0, damping=3.0), "its stiffness is -4"),
        (BuiltinVelocityActuatorCfg(target_names_expr=BOTH, damping=3.0), "its stiffness is 0"),
        (
            BuiltinMotorActuatorCfg(target_names_expr=BOTH, effort_limit=5.0),
            "its actuator is a motor, which has no stiffness",
        ),
    ],
    ids=["zero", "negative", "velocity", "motor"],
)
def test_a_position_target_without_a_stiffness_is_refused(cfg: Any, said: str, tmp_path: Path) -> None:
    env, actor = opened(CARTPOLE, change=plain(driven_by(cfg)))
    found = [one for one in refused(env, actor, tmp_path / "p") if one.name == "gain"]
    assert [one.message for one in found] == [
        f"joint {name!r} is driven by position targets, {said}" for name in ("slider", "hinge_1")
    ]
    env.close()


def test_an_effort_target_needs_no_gain(tmp_path: Path) -> None:
    """And is in newtons and newton metres, whatever the gear."""
    cfg = BuiltinMotorActuatorCfg(target_names_expr=BOTH, effort_limit=5.0, gear=-2.0)
    env, actor = opened(CARTPOLE, change=plain(driven_by(cfg, action=JointEffortActionCfg)))
    package = export(env, actor, tmp_path / "p")
    assert package.manifest.outputs["joint_effort_target"].unit == ("N", "N*m")
    alone = run_alone(env, actor, package.manifest, 12)
    check_package(package, alone, scale=-2.0)
    env.close()


def test_a_motor_in_mujoco_is_driven_with_the_gains_of_an_explicit_actuator(tmp_path: Path) -> None:
    """The same motors, without mjlab: MuJoCo gets the force that mjlab would have computed."""
    cfg = IdealPdActuatorCfg(target_names_expr=BOTH, stiffness=30.0, damping=4.0, effort_limit=6.0)
    env, actor = opened(CARTPOLE, change=plain(driven_by(cfg)))
    package = export(env, actor, tmp_path / "p")
    write_model(env, tmp_path / "cart.mjb")
    robot = MujocoRobot(tmp_path / "cart.mjb")
    bound = ashore.load(package).bind(robot)
    bound.reset()
    obs, _ = env.reset(seed=4)
    robot.data.qpos[:], robot.data.qvel[:] = env.sim.data.qpos[0].numpy(), env.sim.data.qvel[0].numpy()
    rows = []
    with torch.no_grad():
        for _ in range(60):
            obs, *_ = env.step(actor(obs))
            for _ in range(env.cfg.decimation):
                bound.tick()
                robot.advance()
            rows.append([env.sim.data.qpos[0].numpy().copy(), robot.data.qpos.copy()])
    theirs, ours = np.array(rows).transpose(1, 0, 2)
    assert np.ptp(theirs, axis=0).min() > 0.01
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    env.close()


def two_carts(rename: bool) -> Change:
    """A second cart-pole beside the first, which an action of its own drives."""

    def change(cfg: Any, _: Any) -> None:
        second = deepcopy(cfg.scene.entities["cartpole"])
        original = second.spec_fn

        def with_names_of_its_own() -> mujoco.MjSpec:
            spec = original()
            for joint in spec.joints:
                joint.name = f"second_{joint.name}"
            for actuator in spec.actuators:
                actuator.target = f"second_{actuator.target}"
            return spec

        if rename:
            second.spec_fn = with_names_of_its_own
            second.articulation = deepcopy(second.articulation)
            for one in second.articulation.actuators:
                one.target_names_expr = tuple(f"second_{name}" for name in one.target_names_expr)
        cfg.scene.entities["second"] = second
        action = deepcopy(cfg.actions["effort"])
        action.entity_name = "second"
        if rename:
            action.actuator_names = tuple(f"second_{name}" for name in action.actuator_names)
        cfg.actions["second"] = action

    return change


def test_two_robots_with_joints_of_one_name_are_refused(tmp_path: Path) -> None:
    env, actor = opened(CARTPOLE, change=plain(two_carts(rename=False)))
    with pytest.raises(ExportError, match="'cartpole' and 'second' are both driven, and each has a joint 'slider'"):
        export(env, actor, tmp_path / "p")
    env.close()
    assert not (tmp_path / "p").exists()


def test_two_robots_with_names_of_their_own_are_one_package(tmp_path: Path) -> None:
    env, actor = opened(CARTPOLE, change=plain(two_carts(rename=True)))
    package = export(env, actor, tmp_path / "p")
    env.close()
    driven = {
        port.connection: (port.element_names or ())[-1]
        for port in package.manifest.outputs.values()
        if port.connection is not None
    }
    assert driven == {
        "write:cartpole:set_joint_effort_target": ("slider",),
        "write:second:set_joint_effort_target": ("second_slider",),
    }
    assert [joint.name for joint in package.manifest.joints] == ["slider", "hinge_1", "second_slider", "second_hinge_1"]
