"""The example controller in C++ drives MuJoCo as `ashore play` does in Python, tick by tick."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import ashore
import support
from ashore.deploy import MujocoRobot
from ashore.package import Package, read
from ashore.spec import Joint
from deploy import rigs
from native.builds import attempt, call, install, need, write_project

mujoco = pytest.importorskip("mujoco")
ROOT = Path(__file__).parents[2]
SECONDS = 2.0
ARM = rigs.arm_xml().replace('axis="0 1 0"', 'axis="0 1 0" armature="0.5"')
"""Slow enough that it does not make much of little."""


class Rig(NamedTuple):
    """A package, the robot that it drives, and what it is told."""

    package: Callable[[Path], Package]
    model: str
    commands: dict[str, list[float]]


def first(out: Path) -> Package:
    subprocess.run([sys.executable, ROOT / "examples" / "first_package.py", out], check=True, capture_output=True)
    return read(out)


def balancer(out: Path) -> Package:
    joints = (
        Joint(name="hinge", default_position=0.15),
        Joint(name="slide", type="prismatic", effort_limit=20.0, default_position=0.1),
    )
    return rigs.balancer(out, joints=joints)


RIGS = {
    "first": Rig(first, ARM, {"command": [0.9, -0.2]}),  # position servos, in another order
    "reach": Rig(rigs.reacher, rigs.arm_xml(rigs.MOTORS), {"wish": [0.3, 0.2]}),  # motors with a torque computed here
    "arm": Rig(support.write_arm, rigs.arm_xml(rigs.MOTORS), {}),  # a filter and a counter in every substep
    "balance": Rig(balancer, rigs.CARTPOLE, {}),  # a force on one joint, positions of two
}


def reference(package: Path, model: Path, rig: Rig) -> np.ndarray:
    robot = MujocoRobot(model)
    bound = ashore.load(package).bind(robot, commands=rig.commands)
    bound.reset()
    rows: list[np.ndarray] = []
    for _ in range(round(SECONDS / robot.tick_s)):
        bound.tick()
        robot.advance()
        rows.append(robot.data.qpos.copy())
    return np.array(rows)


@pytest.mark.parametrize("name", RIGS)
def test_the_trajectory_is_that_of_the_python_runtime(name: str, tmp_path: Path) -> None:
    need("cmake", "g++")
    rig = RIGS[name]
    package = rig.package(tmp_path / name)
    model = rigs.save(tmp_path, rig.model)
    policy = write_project(package, tmp_path / "c")
    install(tmp_path / "c", tmp_path / "build_c", tmp_path / "installed")
    folder = Path(mujoco.__file__).parent
    options = f"-DPOLICY={policy}", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}", f"-DMUJOCO={folder}"
    call(
        [
            "cmake",
            "-S",
            ROOT / "examples" / "cpp",
            "-B",
            tmp_path / "build",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror",
            *options,
        ]
    )
    call(["cmake", "--build", tmp_path / "build"])
    told = [f"{one}={','.join(map(str, values))}" for one, values in rig.commands.items()]
    play = [tmp_path / "build" / "play", model, SECONDS, ""]
    printed = call([*play, *told], PLAY_TRACE=str(tmp_path / "trace"))

    wanted, found = reference(package.path, model, rig), np.loadtxt(tmp_path / "trace")
    assert found.shape == wanted.shape
    assert np.abs(wanted - wanted[0]).max() > 0.01  # it moves
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert f"{policy}: survived after {SECONDS:.2f} s\n" in printed
    joints = [line.split() for line in printed.splitlines()[1:]]
    np.testing.assert_allclose([float(value) for _, value in joints], wanted[-1], atol=1e-3)
    assert [joint for joint, _ in joints] == list(MujocoRobot(model).reads["joint_pos"].names)
    if told:  # nobody gives the command
        done = attempt(play)
        assert done.returncode == 2
        assert f"input '{next(iter(rig.commands))}': nobody gives it" in done.stderr


def test_without_mujoco_the_build_says_what_is_missing(tmp_path: Path) -> None:
    write_project(first(tmp_path / "first"), tmp_path / "c")
    install(tmp_path / "c", tmp_path / "build_c", tmp_path / "installed")
    options = "-DPOLICY=first", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}", f"-DMUJOCO={tmp_path}"
    done = attempt(["cmake", "-S", ROOT / "examples" / "cpp", "-B", tmp_path / "build", *options])
    assert done.returncode != 0
    assert "no libmujoco in" in done.stderr
