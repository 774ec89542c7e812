"""``ashore play``, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rigs

import support


def ashore(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ashore", "play", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def machine(*arguments: object, code: int = 0) -> Any:
    done = ashore(*arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def reacher(tmp_path: Path) -> tuple[object, ...]:
    return rigs.reacher(tmp_path / "reacher").path, "--mjcf", rigs.save(tmp_path, rigs.arm_xml())


def test_a_run_is_told_in_tables(reacher: tuple[object, ...]) -> None:
    done = ashore(*reacher, "--command", "wish=0.5,0", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    for text in ("reacher: 1 s, 50 decisions, ran through", "joint shoulder", "wish", "elbow", "p99 µs", "decision"):
        assert text in done.stdout


def test_a_run_is_told_to_machines(reacher: tuple[object, ...]) -> None:
    told = machine(*reacher, "--command", "0.5,0", "--seconds", "0.5")  # the only command needs no name
    assert told["survived"] is True
    assert (told["seconds"], told["decisions"], told["video"]) == (0.5, 25, None)
    assert told["signals"] == {"joint_pos": "joint_pos", "joint_target": "joint_pos_target"}
    assert [one["element"] for one in told["tracking"]] == ["elbow", "shoulder"]
    assert told["decision"].keys() == {"samples", "p50_us", "p99_us"}


def test_a_fall_is_exit_code_1(tmp_path: Path) -> None:
    key = '<keyframe><key name="back" qpos="0 0 0.3 0 1 0 0 0  1 1 0.1 1 0 0 0"/></keyframe></mujoco>'
    mjcf = rigs.save(tmp_path, rigs.WALKER.replace("</mujoco>", key))
    package = rigs.wagger(tmp_path / "p").path
    told = machine(package, "--mjcf", mjcf, "--keyframe", "back", "--command", "velocity=0,0,0", code=1)
    assert told["survived"] is False
    assert "the base leans" in told["ended_by"]


def test_options_reach_robot_and_binding(tmp_path: Path) -> None:
    mjcf = rigs.save(tmp_path, rigs.WALKER)
    package = rigs.wagger(tmp_path / "p", timing=None).path
    options = ("--policy-dt", "0.02", "--base", "trunk", "--signal", "base_ang_vel=imu_gyro", "--seconds", "0.1")
    told = machine(package, "--mjcf", mjcf, "--command", "0,0,0", *options)
    assert told["signals"]["base_ang_vel"] == "imu_gyro"
    assert told["decisions"] == 5
    elbow = rigs.reacher(tmp_path / "elbow", ("elbow",)).path
    arm = rigs.save(tmp_path, rigs.arm_xml(), "arm.xml")
    assert machine(elbow, "--mjcf", arm, "--command", "0", "--idle", "shoulder", "--seconds", "0.1")["survived"]
    options = ("--command", "0", "--idle", "shoulder", "--idle", "elbow", "--unused", "joint_target")
    assert machine(elbow, "--mjcf", arm, *options, "--seconds", "0.1")["signals"] == {"joint_pos": "joint_pos"}


def test_a_prefix_is_found_or_given(tmp_path: Path) -> None:
    mjcf = rigs.save(tmp_path, rigs.SCENE.replace('euler="10 20 30"', ""))
    package = rigs.watcher(tmp_path / "p", {"joint_pos": rigs.port("state/joint/position", "rad", ("hip",))}).path
    options = (package, "--mjcf", mjcf, "--idle", "hip", "--seconds", "0.1")
    for prefix in ((), ("--prefix", "robot/")):
        assert machine(*options, *prefix)["signals"] == {"joint_pos": "joint_pos"}
    message = machine(*options, "--prefix", "cube/", code=3)["message"]
    assert "prefix: no actuated joint begins with 'cube/'; there are ['robot/hip']" in message
    assert "idle: the model has no actuator" in machine(*options, "--prefix", "", code=3)["message"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the policy takes commands that nobody gives: ['wish']; use --command wish=…"),
        (("--command", "wish=a,b"), "--command wish=a,b: expected numbers with commas between them, got 'a,b'"),
        (("--command", "wish=1"), "command 'wish': expected shape [2], got [1]"),
        (("--command", "1,1", "--command", "wish=1,1"), "--command wish=1,1: 'wish' is given twice"),
        (("--command", "0,0", "--signal", "joint_pos"), "--signal joint_pos: expected PORT=SIGNAL"),
        (("--command", "0,0", "--seconds", "0"), "seconds: expected at least a tick of 0.005 s, got 0"),
        (("--command", "0,0", "--keyframe", "home"), "the model has no keyframe 'home'"),
    ],
)
def test_what_is_refused_is_exit_code_3(reacher: tuple[object, ...], options: tuple[str, ...], message: str) -> None:
    done = ashore(*reacher, *options)
    assert done.returncode == 3
    assert message in done.stderr
    assert machine(*reacher, *options, code=3)["message"] in done.stderr


def test_commands_of_a_policy_with_several_need_names(tmp_path: Path) -> None:
    wish = rigs.port("command/joint/position", "rad", ("elbow",))
    inputs = {"first": wish, "second": wish}
    import numpy as np

    weights = np.ones((2, 1), np.float32)
    package = rigs.reacher(tmp_path / "p", ("elbow",), inputs=inputs, weights=weights).path
    done = ashore(package, "--mjcf", rigs.save(tmp_path, rigs.arm_xml()), "--idle", "shoulder", "--command", "1")
    assert "--command 1: say which of ['first', 'second'] it is, with NAME=1" in done.stderr


def test_another_time_step_is_refused_before_anything_runs(tmp_path: Path, reacher: tuple[object, ...]) -> None:
    rigs.save(tmp_path, rigs.arm_xml().replace("0.005", "0.002"))
    done = ashore(*reacher, "--command", "0,0")
    assert done.returncode == 3
    assert "trained with physics_dt_s=0.005, the model has timestep=0.002" in done.stderr


GUARD = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {forbidden!r}:
            raise AssertionError("imported " + name)

sys.meta_path.insert(0, Refuse())
"""
PLAY = """
from ashore.cli import main

sys.argv = ["ashore", "play", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
assert "mujoco" in sys.modules
"""


def test_playing_imports_no_torch_and_no_onnx(reacher: tuple[object, ...]) -> None:
    guard = GUARD.format(forbidden=("torch", "onnx", "mjlab", "gymnasium"))
    done = support.run_python(guard + PLAY, *map(str, reacher), "--command", "0,0", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr


def test_only_a_mujoco_robot_imports_mujoco(reacher: tuple[object, ...]) -> None:
    code = GUARD.format(forbidden=("mujoco", "torch")) + (
        "import ashore, ashore.deploy\nashore.load(sys.argv[1])\n"
        "try:\n    ashore.deploy.MujocoRobot(sys.argv[2])\n"
        "except AssertionError as error:\n    print(error)"
    )
    done = support.run_python(code, str(reacher[0]), str(reacher[2]))
    assert done.stdout == "imported mujoco\n", done.stderr


def test_where_mujoco_is_missing_it_is_named(reacher: tuple[object, ...]) -> None:
    code = "import sys\nsys.modules['mujoco'] = None\n" + PLAY.replace("(0, None)", "(3,)").split('assert "muj')[0]
    done = support.run_python(code, *map(str, reacher), "--command", "0,0")
    assert "MuJoCo is not installed; use pip install 'ashore[mujoco]'" in done.stderr
