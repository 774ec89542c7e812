"""Cameras: pictures are MuJoCo's own, in the port's size, layout and numbers, or they are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mujoco
import pictures
import pytest
import rigs

import ashore
from ashore.deploy import MujocoRobot
from ashore.errors import BindError, RobotError
from ashore.spec import Limits, Port

CHECKS = [name.removeprefix("check_") for name in vars(pictures) if name.startswith("check_")]


def run(*arguments: object, gl: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "DISPLAY")}
    if gl is not None:
        environment["MUJOCO_GL"] = gl
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("check", CHECKS)
def test_pictures(tmp_path: Path, check: str) -> None:
    done = run(pictures.__file__, check, tmp_path, gl="egl")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "and it is closed without a word"


def bind(path: Path, signal: str | None, port: Port) -> Any:
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(pictures.ROOM), idle=["neck"])
    signals = {} if signal is None else {"image": signal}
    return ashore.load(rigs.watcher(path, {"image": port})).bind(robot, signals=signals)


@pytest.mark.parametrize(
    ("signal", "port", "message"),
    [
        ("eye.rgb", pictures.port("rgb", (1, 30, 40, 4)), "expected [1, height, width, 3] or [1, 3, height, width]"),
        ("eye.rgb", pictures.port("rgb", (2, 30, 40, 3)), "its shape is [2, 30, 40, 3]; expected [1, height"),
        ("eye.rgb", pictures.port("rgb", (1, 120)), "its shape is [1, 120]; expected [1, height"),
        ("eye.rgb", pictures.port("rgb", (1, 3, 40, 3)), "its shape is [1, 3, 40, 3], HWC or CHW; say which in its"),
        ("eye.rgb", pictures.port("rgb", (1, 30, 40, 3), layout="CHW"), "[1, 30, 40, 3], which is not CHW"),
        ("eye.rgb", pictures.port("rgb", (1, 8, 8, 3), dtype="float32"), "floats whose limits are 0 to 1 or 0 to 255"),
        (
            "eye.rgb",
            pictures.port("rgb", (1, 8, 8, 3), dtype="float32", limits=Limits(lower=-1.0, upper=1.0)),
            "got float32 with limits Limits(lower=-1.0, upper=1.0); nothing else says how bright 1 is",
        ),
        ("eye.rgb", pictures.port("rgb", (1, 8, 8, 3), dtype="int32"), "got int32 with limits None"),
        ("eye.depth", pictures.port("depth", (1, 8, 8, 1), unit="mm"), "is in 'mm', on the robot in 'm'"),
        ("eye.depth", pictures.port("depth", (1, 8, 8, 1), unit=None), "expected floats in 'm', got float32 in None"),
        ("eye.depth", pictures.port("depth", (1, 8, 8, 1), dtype="uint16"), "expected floats in 'm', got uint16"),
        ("eye.depth", pictures.port("depth", (1, 8, 8, 3)), "expected [1, height, width, 1]"),
        ("eye.segmentation", pictures.port("segmentation", (1, 8, 8, 2), dtype="uint8"), "numbers that can be -1, got"),
        ("wide.rgb", pictures.port("rgb", (1, 8, 8, 3)), "the image is 8 x 8, the camera's sensor 0.004 x 0.002 m, of"),
        ("eye.rgb", pictures.port("rgb", (1, 8, 8, 3), geom_groups=[7]), "Expected `int` <= 5 - at `$.geom_groups[0]`"),
        ("nose.rgb", pictures.port("rgb", (1, 8, 8, 3)), "there is no signal 'nose.rgb' on the robot"),
        (None, pictures.port("rgb", (1, 8, 8, 3)), "'eye.rgb', 'wide.rgb' all fit; choose one with signals="),
    ],
)
def test_a_picture_that_is_not_mujocos_is_refused(tmp_path: Path, signal: str | None, port: Port, message: str) -> None:
    with pytest.raises(BindError) as caught:
        bind(tmp_path / "p", signal, port)
    assert message in str(caught.value)


def test_the_connection_names_the_camera(tmp_path: Path) -> None:
    """As far as to the size of its sensor, which only `wide` has."""
    port = pictures.port("rgb", (1, 8, 8, 3), connection="state:wide:rgb")
    with pytest.raises(BindError, match="'wide.rgb': the image is 8 x 8"):
        bind(tmp_path / "p", None, port)


def test_where_no_picture_can_be_made_it_is_refused_before_anything_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no display")

    monkeypatch.setattr(mujoco, "Renderer", fail)
    with pytest.raises(RobotError) as caught:
        bind(tmp_path / "p", "eye.rgb", pictures.port("rgb", (1, 8, 8, 3)))
    assert "'eye.rgb': MuJoCo cannot make pictures on this machine (RuntimeError: no display)" in str(caught.value)
    assert "set MUJOCO_GL to egl or osmesa, or give the image with commands={…}" in str(caught.value)


def test_the_command_line_sees_without_a_screen(tmp_path: Path) -> None:
    port = pictures.port("rgb", (1, 8, 8, 3), connection="state:eye:rgb")
    package = rigs.watcher(tmp_path / "p", {"image": port}).path
    mjcf = rigs.save(tmp_path, pictures.ROOM)
    options = ("--mjcf", mjcf, "--idle", "neck", "--seconds", "0.1")
    done = run("-m", "ashore", "play", package, *options, gl=None)
    assert done.returncode == 0, done.stderr
    assert run("-m", "ashore", "play", package, *options, gl="glfw").returncode == 3
