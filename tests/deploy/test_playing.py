"""A run in MuJoCo: balancing, falling, tracking, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import rigs

import ashore
import support
from ashore.deploy import Guard, MujocoRobot, Play, play
from ashore.errors import InputError
from ashore.spec import Joint


def balance(tmp_path: Path, seconds: float = 10.0) -> Play:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.CARTPOLE), keyframe="tilted")
    return play(ashore.load(rigs.balancer(tmp_path / "balancer")).bind(robot), seconds=seconds)


def test_a_pole_is_balanced_for_ten_seconds(tmp_path: Path) -> None:
    report = balance(tmp_path)
    assert report.survived
    assert (report.seconds, report.decisions) == (10.0, 500)
    assert report.joints["hinge"].highest == pytest.approx(0.15, abs=0.01), "it starts tilted"
    assert report.joints["hinge"].lowest > -0.1
    assert abs(report.joints["hinge"].last) < 0.01
    assert abs(report.joints["slide"].last) < 0.01
    assert report.decision.samples == 500
    assert 0 < report.decision.p50_us <= report.decision.p99_us
    assert report.substep is None
    assert report.height_m is None


def test_the_same_pole_falls_in_the_order_of_the_model(tmp_path: Path) -> None:
    """What happens to whoever hands over qpos as it is: binding is what keeps the pole up."""
    policy = ashore.load(rigs.balancer(tmp_path / "balancer"))
    model = mujoco.MjModel.from_xml_string(rigs.CARTPOLE)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(100):
        inputs = {"q": data.qpos[None].astype(np.float32), "v": data.qvel[None].astype(np.float32)}
        data.ctrl[:] = np.clip(policy.step(inputs)["push"][0], -20, 20)
        for _ in range(4):
            mujoco.mj_step(model, data)
    assert abs(data.qpos[1]) > 1.0, "the pole is down within two seconds"


def slide(tmp_path: Path, speed: float) -> Play:
    """A block on a floor without friction, pushed once."""
    pose = "0 0 0.1 1 0 0 0 0  1 1 0.1 1 0 0 0"
    key = f'<keyframe><key name="pushed" qpos="{pose}" qvel="{speed} 0 0 0 0 0 0  0 0 0 0 0 0"/></keyframe></mujoco>'
    robot = MujocoRobot(rigs.save(tmp_path, rigs.WALKER.replace("</mujoco>", key)), keyframe="pushed")
    policy = ashore.load(rigs.wagger(tmp_path / f"wagger{speed}"))
    return play(policy.bind(robot, commands={"velocity": [0.4, 0.0, 0.1]}), seconds=2.0)


def test_commands_are_compared_with_what_the_base_does(tmp_path: Path) -> None:
    report = slide(tmp_path, 0.4)
    assert report.survived
    assert [(one.command, one.element, one.unit) for one in report.tracking] == [
        ("velocity", "vx", "m/s"),
        ("velocity", "vy", "m/s"),
        ("velocity", "wz", "rad/s"),
    ]
    forward, left, turn = report.tracking
    assert forward.asked == pytest.approx(0.4)
    assert forward.measured == pytest.approx(0.4, abs=0.05)
    assert forward.mean_abs_error < 0.05
    assert left.measured == pytest.approx(0, abs=0.02)
    assert turn.mean_abs_error == pytest.approx(0.1, abs=0.02)
    assert slide(tmp_path, 0.0).tracking[0].mean_abs_error == pytest.approx(0.4, abs=0.05), (
        "and a block that stands does not track"
    )
    assert report.height_m is not None
    assert report.height_m.last == pytest.approx(0.1, abs=0.01)


def test_joint_commands_are_compared_by_name(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml()))
    bound = ashore.load(rigs.reacher(tmp_path / "p")).bind(robot, commands={"wish": [0.5, 0.0]})
    elbow, shoulder = play(bound, seconds=4).tracking
    assert (elbow.element, shoulder.element) == ("elbow", "shoulder")
    assert elbow.measured == pytest.approx(robot.data.qpos[1], abs=0.01)
    assert elbow.mean_abs_error == pytest.approx(abs(elbow.measured - 0.5), abs=0.01)


@pytest.mark.parametrize(
    ("quat", "height", "message"),
    [((0.0, 1.0, 0.0, 0.0), 0.3, "the base leans 3.14 rad"), ((1.0, 0.0, 0.0, 0.0), 1.0, "it started at 1.000 m")],
    ids=["on its back", "off a height"],
)
def test_a_robot_that_falls_ends_the_run(tmp_path: Path, quat: tuple[float, ...], height: float, message: str) -> None:
    pose = " ".join(map(str, (0, 0, height, *quat, 0, 1, 1, 0.1, 1, 0, 0, 0)))
    key = f'<keyframe><key name="bad" qpos="{pose}"/></keyframe></mujoco>'
    robot = MujocoRobot(rigs.save(tmp_path, rigs.WALKER.replace("</mujoco>", key)), keyframe="bad")
    report = play(ashore.load(rigs.wagger(tmp_path / "p")).bind(robot, commands={"velocity": [0, 0, 0]}), seconds=2)
    assert not report.survived
    assert report.ended_by is not None
    assert report.ended_by.startswith("fell after ")
    assert message in report.ended_by
    assert report.seconds < 1
    assert report.tilt_rad is not None


def test_a_simulation_that_diverges_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log where it stands
    joints = tuple(Joint(name=name, kp=1e9, kd=0.0) for name in ("elbow", "shoulder"))
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml(rigs.MOTORS.replace('ctrlrange="-0.01 0.01"', ""))))
    report = play(ashore.load(rigs.reacher(tmp_path / "p", joints=joints)).bind(robot, commands={"wish": [1, 1]}))
    assert not report.survived
    assert report.ended_by is not None
    assert "diverged" in report.ended_by
    assert report.seconds < 5


def test_a_guard_that_trips_ends_the_run(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml()))
    policy = ashore.load(rigs.reacher(tmp_path / "p"))
    commands = {"wish": lambda: [0.1, 0.1] if robot.time_s < 0.199 else [0.9, 0.1]}
    report = play(policy.bind(robot, commands=commands, guard=Guard(jumps={"joint_target": 0.5})), seconds=1)
    assert not report.survived
    assert report.ended_by is not None
    assert report.ended_by.startswith("guard: output 'joint_target' jumped by 0.")
    assert report.decisions == 10


def test_ticks_between_decisions_are_timed_apart(tmp_path: Path) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.arm_xml(rigs.MOTORS)))
    report = play(ashore.load(support.write_arm(tmp_path / "arm")).bind(robot), seconds=0.2)
    assert report.decision.samples == 10
    assert report.substep is not None
    assert report.substep.samples == 30


def test_a_time_shorter_than_a_tick_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"seconds: expected at least a tick of 0.005 s, got 0"):
        balance(tmp_path, seconds=0)
