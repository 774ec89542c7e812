"""The MuJoCo robot does what a loop written by hand does, to the bit, and refuses a model that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import mujoco
import numpy as np
import pytest
import rigs

import ashore
import support
from ashore.deploy import MujocoRobot
from ashore.errors import BindError, OrderError, RobotError
from ashore.package import Package
from ashore.spec import Joint, Timing

WISH = np.array([[0.6, -0.7]], np.float32)  # elbow, shoulder


def bind(package: Package, robot: MujocoRobot, **arguments: Any) -> Any:
    return ashore.load(package).bind(robot, **arguments)


def readable(robot: MujocoRobot) -> tuple[str, ...]:
    return tuple(name for name, signal in robot.reads.items() if not signal.to_order)


def refusal(package: Package, robot: MujocoRobot, **arguments: Any) -> str:
    with pytest.raises(BindError) as caught:
        bind(package, robot, **arguments)
    return str(caught.value)


def by_hand(package: Package, xml: str, decisions: int, *, servo: bool) -> np.ndarray:
    """The reacher as one would write it: addresses, gains and limits typed in."""
    model = mujoco.MjModel.from_xml_string(xml)
    if servo:
        model.actuator_gainprm[:, 0] = 30, 50  # the file has the elbow first
        model.actuator_biasprm[:, 1] = -30, -50
        model.actuator_biasprm[:, 2] = -0.8, -1.5
        model.actuator_forcerange[:] = [[-4, 4], [-9, 9]]
        model.actuator_forcelimited[:] = 1
    model.actuator_ctrllimited[:] = 0
    data = mujoco.MjData(model)
    data.qpos[:] = -0.2, 0.4  # shoulder, elbow
    policy, seen = ashore.load(package), []
    for _ in range(decisions):
        inputs = {"joint_pos": data.qpos[None, [1, 0]].astype(np.float32), "wish": WISH}
        elbow, shoulder = policy.step(inputs)["joint_target"][0].astype(np.float64)
        for _ in range(4):
            if servo:
                data.ctrl[:] = elbow, shoulder
            else:
                torque = np.array(
                    [
                        30 * (elbow - data.qpos[1]) + 0.8 * (0 - data.qvel[1]),
                        50 * (shoulder - data.qpos[0]) + 1.5 * (0 - data.qvel[0]),
                    ]
                )
                data.ctrl[:] = np.clip(torque, [-4, -9], [4, 9]) / [2, 1]  # the elbow has a gear
            mujoco.mj_step(model, data)
        seen.append(data.qpos.copy())
    return np.array(seen)


@pytest.mark.parametrize("servo", [True, False], ids=["position servos", "motors"])
def test_gains_limits_order_and_rates_are_those_of_a_loop_by_hand(tmp_path: Path, servo: bool) -> None:
    xml = rigs.arm_xml(rigs.SERVOS if servo else rigs.MOTORS)
    package = rigs.reacher(tmp_path / "reacher")
    robot = MujocoRobot(rigs.save(tmp_path, xml))
    bound = bind(package, robot, commands={"wish": WISH})
    expected = by_hand(package, xml, 50, servo=servo)
    for _ in range(2):  # a reset starts the very same episode
        bound.reset()
        seen = []
        for tick in range(200):
            bound.tick()
            robot.advance()
            if tick % 4 == 3:
                seen.append(robot.data.qpos.copy())
        assert np.array_equal(np.array(seen), expected)
    assert abs(expected[-1] - [-0.2, 0.4]).max() > 0.1, "it moved"


def test_the_limits_of_the_package_change_the_trajectory(tmp_path: Path) -> None:
    """So that the test above could fail."""
    xml = rigs.save(tmp_path, rigs.arm_xml())
    ends = []
    for name, limit in (("tight", 0.05), ("loose", 100.0)):
        joints = tuple(msgspec.structs.replace(joint, effort_limit=limit) for joint in rigs.ARM_JOINTS)
        robot = MujocoRobot(xml)
        bound = bind(rigs.reacher(tmp_path / name, joints=joints), robot, commands={"wish": WISH})
        bound.reset()
        for _ in range(40):
            bound.tick()
            robot.advance()
        ends.append(robot.data.qpos.copy())
    assert np.abs(ends[0] - ends[1]).max() > 0.05


def test_a_model_that_is_given_is_copied(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(rigs.arm_xml())
    robot = MujocoRobot(model)
    bind(rigs.reacher(tmp_path / "p"), robot, commands={"wish": WISH})
    assert model.actuator_gainprm[:, 0].tolist() == [1, 1]
    assert robot.model.actuator_gainprm[:, 0].tolist() == [30, 50]


def test_binding_another_package_forgets_the_gains_of_the_first(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml()))
    bind(rigs.reacher(tmp_path / "p"), robot, commands={"wish": WISH})
    bind(rigs.reacher(tmp_path / "bare", joints=()), robot, commands={"wish": WISH})
    assert robot.model.actuator_gainprm[:, 0].tolist() == [1, 1]
    assert robot.model.actuator_biasprm[:, 2].tolist() == [-0.1, 0]
    assert not robot.model.actuator_forcelimited.any()


def test_reading_sensors_changes_no_trajectory(tmp_path: Path) -> None:
    ends = []
    for reads in (False, True):
        robot = MujocoRobot(rigs.save(tmp_path, rigs.WALKER))
        bound = bind(rigs.wagger(tmp_path / f"p{reads}"), robot, commands={"velocity": [1.0, 0, 0]})
        bound.reset()
        for _ in range(100):
            bound.tick()
            robot.advance()
            if reads:
                robot.read(readable(robot))
        ends.append(robot.data.qpos.copy())
    assert np.array_equal(*ends)


def test_what_a_floating_base_measures(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.WALKER))
    assert robot.base is not None
    assert robot.model.body(robot.base.body).name == "trunk", "the ball carries no actuator"
    half = np.sqrt(0.5)
    robot.data.qpos[3:7] = half, 0, 0, half  # a quarter turn to the left
    robot.data.qvel[:6] = 1, 0, 0, 0.1, 0.2, 0.3  # forwards in the world
    read = robot.read(readable(robot))
    assert np.allclose(read["base_lin_vel"], [0, -1, 0])
    assert np.allclose(read["base_ang_vel"], [0.1, 0.2, 0.3])
    assert np.allclose(read["projected_gravity"], [0, 0, -1])
    assert np.allclose(read["base_quat"], [half, 0, 0, half])
    # The sensors say the same: the site is 0.1 m ahead, so it also moves by the turning.
    assert np.allclose(read["imu_gyro"], read["base_ang_vel"])
    assert np.allclose(read["imu_vel"], read["base_lin_vel"] + np.cross([0.1, 0.2, 0.3], [0.1, 0, 0]))
    assert np.allclose(read["imu_quat"], read["base_quat"])
    assert np.allclose(read["turned_gyro"], [0.2, -0.1, 0.3])
    robot.data.qpos[3:7] = half, half, 0, 0  # rolled onto its right side
    robot.write({})
    read = robot.read(("projected_gravity", "imu_quat/gravity", "imu_acc"))
    assert np.allclose(read["projected_gravity"], [0, -1, 0])
    assert np.allclose(read["imu_quat/gravity"], [0, -1, 0])


def test_frames_say_which_axes_a_sensor_has(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.WALKER))
    frames = {name: signal.frame for name, signal in robot.reads.items()}
    assert frames["imu_gyro"] == frames["base_ang_vel"] == "base"
    assert frames["turned_gyro"] == "turned"
    assert frames["imu_quat"] == frames["base_quat"] == "world"
    package = rigs.wagger(tmp_path / "p")
    bound = bind(package, robot, commands={"velocity": [0, 0, 0]}, signals={"base_ang_vel": "imu_gyro"})
    assert bound.signals["base_ang_vel"] == "imu_gyro"


def test_gains_may_come_from_the_policy(tmp_path: Path) -> None:
    names = ("elbow", "shoulder")
    outputs = {
        "kp": rigs.port("kp", "N*m/rad", names),
        "kd": rigs.port("kd", "N*m*s/rad", names),
        "target": rigs.port("target/joint/position", "rad", names),
    }
    weights = np.array([[10, 20, 1, 2, 0.5, 0.5]], np.float32)
    one = rigs.port(None, None, ("one",))
    package = rigs.linear(tmp_path / "p", {"one": one}, outputs, weights)
    for actuators in (rigs.SERVOS, rigs.MOTORS):
        robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml(actuators)))
        bound = bind(package, robot, commands={"one": [1]})
        bound.reset()
        bound.tick()
        robot.advance()
        if actuators is rigs.SERVOS:
            assert robot.model.actuator_gainprm[:, 0].tolist() == [10, 20]
            assert robot.model.actuator_biasprm[:, 2].tolist() == [-1, -2]
        else:
            assert robot.data.ctrl.tolist() == [10 * 0.5 / 2, 20 * 0.5]
        bound.command("one", [-1])
        bound.reset()
        with pytest.raises(RobotError, match="kp: a gain cannot be negative"):
            bound.tick()


def test_velocities_and_efforts_drive_motors(tmp_path: Path) -> None:
    outputs = {
        "speed": rigs.port("target/joint/velocity", "rad/s", ("elbow",)),
        "push": rigs.port("target/joint/torques", "N*m", ("elbow", "shoulder")),
    }
    one, weights = rigs.port(None, None, ("one",)), np.array([[2.0, 0.25, 0.5]], np.float32)
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml(rigs.MOTORS)))
    package = rigs.linear(tmp_path / "p", {"one": one}, outputs, weights, joints=rigs.ARM_JOINTS)
    bound = bind(package, robot, commands={"one": [1]})
    bound.reset()
    robot.data.qvel[:] = 0.1, 0.2
    bound.tick()
    robot.advance()
    assert np.allclose(robot.data.ctrl, [(0.8 * (2.0 - 0.2) + 0.25) / 2, 0.5])  # no target, no damping
    bare = rigs.linear(tmp_path / "bare", {"one": one}, outputs, weights)
    assert "joint 'elbow': kd is None; a velocity target needs a gain above 0" in refusal(
        bare, robot, commands={"one": [1]}
    )
    servos = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml()))
    message = refusal(package, servos, commands={"one": [1]})
    assert "output 'speed': the robot has nothing of kind 'target/joint/velocity'" in message


def test_a_two_rate_package_acts_at_every_physics_step(tmp_path: Path) -> None:
    package = support.write_arm(tmp_path / "arm")
    xml = rigs.arm_xml(rigs.MOTORS)
    robot = MujocoRobot(rigs.save(tmp_path, xml))
    bound = bind(package, robot)
    bound.reset()
    model, arm = mujoco.MjModel.from_xml_string(xml), support.Arm()
    model.actuator_ctrllimited[0] = 1  # no effort limit in the package: the model's own counts
    data = mujoco.MjData(model)
    data.qpos[:] = 0.1, 0.1
    for tick in range(40):
        bound.tick()
        robot.advance()
        if tick % 4 == 0:
            arm.step({"q": data.qpos[None].astype(np.float32)})
        torque = arm.substep({"v": data.qvel[None].astype(np.float32)})["torque"][0].astype(np.float64)
        data.ctrl[:] = torque[1] / 2, torque[0]
        mujoco.mj_step(model, data)
        assert np.array_equal(robot.data.qpos, data.qpos), tick


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        (
            Timing(policy_dt_s=0.02, physics_dt_s=0.002, decimation=10),
            'trained with physics_dt_s=0.002, the model has timestep=0.005; set <option timestep="0.002"/>',
        ),
        (Timing(policy_dt_s=0.012), "a tick of the package takes 0.012 s, which is no whole number of the model's"),
        (None, "the package does not say how often it decides; give policy_dt_s"),
        (Timing(decimation=4), "the package does not say how often it decides; give policy_dt_s"),
    ],
)
def test_another_time_step_is_refused(tmp_path: Path, timing: Timing | None, message: str) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml()))
    package = rigs.reacher(tmp_path / "p", timing=timing)
    assert message in refusal(package, robot, commands={"wish": WISH})


def test_a_package_that_states_no_substep_takes_as_many_physics_steps_as_fit(tmp_path: Path) -> None:
    path = rigs.save(tmp_path, rigs.arm_xml())
    robot = MujocoRobot(path)
    bind(rigs.reacher(tmp_path / "p", timing=Timing(policy_dt_s=0.02)), robot, commands={"wish": WISH})
    assert robot.tick_s == 0.02
    robot = MujocoRobot(path, policy_dt_s=0.04)
    bind(rigs.reacher(tmp_path / "q", timing=Timing(decimation=4)), robot, commands={"wish": WISH})
    assert robot.tick_s == 0.01
    message = refusal(rigs.reacher(tmp_path / "r"), robot, commands={"wish": WISH})
    assert "the package decides every 0.02 s, but policy_dt_s=0.04 was asked for" in message


def test_a_robot_that_is_not_bound_does_not_move(tmp_path: Path) -> None:
    with pytest.raises(OrderError, match="not bound to a policy yet"):
        MujocoRobot(rigs.save(tmp_path, rigs.arm_xml())).advance()


def test_a_missing_and_an_extra_joint_are_told_with_both_sides(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml()))
    package = rigs.reacher(tmp_path / "p", ("elbow", "wrist"), joints=())
    message = refusal(package, robot, commands={"wish": WISH})
    assert "input 'joint_pos': 'wrist' is not on the robot; expected ['elbow', 'wrist']" in message
    assert "reads joint_pos: state/joint/position in rad [shoulder elbow]" in message
    one = rigs.reacher(tmp_path / "q", ("elbow",))
    assert "no output drives 'shoulder' of the robot" in refusal(one, robot, commands={"wish": [0]})


def test_joints_that_are_left_alone_are_named(tmp_path: Path) -> None:
    path, package = rigs.save(tmp_path, rigs.arm_xml()), rigs.reacher(tmp_path / "p", ("elbow",))
    for name in ("shoulder", "s"):  # the joint, or its actuator
        robot = MujocoRobot(path, idle=[name])
        assert robot.writes["joint_pos_target"].names == ("elbow",)
        bind(package, robot, commands={"wish": [0]}).reset()
        assert robot.model.actuator_gainprm[1, 0] == 1, "and keep their gains"
    with pytest.raises(BindError, match="idle: the model has no actuator and no actuated joint 'sholder'"):
        MujocoRobot(path, idle=["sholder"])


@pytest.mark.parametrize(
    ("actuators", "message"),
    [
        ('<velocity name="v" joint="elbow" kv="1"/>', "actuator 'v' is neither a position servo nor a motor"),
        ('<position name="p" joint="elbow" timeconst="0.1"/>', "actuator 'p' is neither a position servo nor a motor"),
        ('<position name="p" joint="elbow" gear="3"/>', "gear 1 for a servo"),
        ('<motor name="a" joint="elbow"/><motor name="b" joint="elbow"/>', "actuator 'b' moves 'elbow', which another"),
        ('<motor name="a" site="tip"/>', "actuator 'a' does not move a joint"),
    ],
)
def test_a_model_that_cannot_be_driven_is_refused(tmp_path: Path, actuators: str, message: str) -> None:
    path = rigs.save(tmp_path, rigs.arm_xml(actuators, '<site name="tip"/>'))
    with pytest.raises(BindError) as caught:
        MujocoRobot(path)
    assert message in str(caught.value)
    assert "leave what shall not be driven alone with idle=[…]" in str(caught.value)


@pytest.mark.parametrize(
    ("actuators", "change", "message"),
    [
        (rigs.SERVOS, {"kp": 0.0}, "joint 'elbow': kp is 0; a position target needs a gain above 0"),
        (rigs.SERVOS, {"effort_limit": 0.0}, "joint 'elbow': the effort limit is 0; it could not move"),
        (rigs.SERVOS, {"type": "prismatic"}, "joint 'elbow': the package says prismatic, the model revolute"),
        (rigs.MOTORS, {"kp": None}, "joint 'elbow': the actuator is a motor and the package has no kp"),
    ],
)
def test_gains_that_make_no_sense_are_refused(
    tmp_path: Path, actuators: str, change: dict[str, Any], message: str
) -> None:
    elbow: Joint = msgspec.structs.replace(rigs.ARM_JOINTS[0], **change)
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml(actuators)))
    package = rigs.reacher(tmp_path / "p", joints=(elbow, rigs.ARM_JOINTS[1]))
    assert message in refusal(package, robot, commands={"wish": WISH})


def test_degrees_are_not_radians(tmp_path: Path) -> None:
    names = ("elbow", "shoulder")
    inputs = {"joint_pos": rigs.port("state/joint/position", "deg", names)}
    outputs = {"t": rigs.port("target/joint/position", "deg", names)}
    package = rigs.linear(tmp_path / "p", inputs, outputs, np.eye(2, dtype=np.float32))
    message = refusal(package, MujocoRobot(rigs.save(tmp_path, rigs.arm_xml())))
    assert "input 'joint_pos': 'elbow' is in 'deg', on the robot in 'rad'; nothing is converted" in message
    assert "output 't': 'elbow' is in 'deg', on the robot in 'rad'; nothing is converted" in message


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=r"nowhere\.xml: there is no such file"):
        MujocoRobot(tmp_path / "nowhere.xml")
    with pytest.raises(RobotError, match=r"robot\.xml: MuJoCo cannot read it: XML Error"):
        MujocoRobot(rigs.save(tmp_path, "<mujoco><boddy/></mujoco>"))
    with pytest.raises(RobotError, match=r"expected a path or a mujoco\.MjModel, got int"):
        MujocoRobot(3)


def test_names_that_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    path = rigs.save(tmp_path, rigs.WALKER)
    with pytest.raises(BindError, match="base: no free body is called 'trunc'; did you mean 'trunk'"):
        MujocoRobot(path, base="trunc")
    with pytest.raises(BindError, match="the model has no keyframe 'home'"):
        MujocoRobot(path, keyframe="home")


def test_a_simulation_that_diverges_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log where it stands
    joints = tuple(msgspec.structs.replace(joint, kp=1e9, kd=0.0, effort_limit=None) for joint in rigs.ARM_JOINTS)
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml(rigs.MOTORS.replace('ctrlrange="-0.01 0.01"', ""))))
    bound = bind(rigs.reacher(tmp_path / "p", joints=joints), robot, commands={"wish": WISH})
    bound.reset()
    with pytest.raises(RobotError, match=r"the simulation diverged at about .* look at gains"):
        for _ in range(50):
            bound.tick()
            robot.advance()
