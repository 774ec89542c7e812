"""Films are made without a screen, or refused before anything moves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rigs

from ashore.deploy import Film, MujocoRobot
from ashore.errors import RobotError


def play(tmp_path: Path, video: Path, *options: str, gl: str = "egl") -> subprocess.CompletedProcess[str]:
    """By the command line, since MuJoCo chooses its graphics library when it is imported."""
    mjcf, package = rigs.save(tmp_path, rigs.CARTPOLE), tmp_path / "balancer"
    if not package.exists():
        rigs.balancer(package)
    command = [sys.executable, "-m", "ashore", "play", package, "--mjcf", mjcf, "--seconds", "1", "--video", video]
    environment = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "DISPLAY")}
    if gl:
        environment["MUJOCO_GL"] = gl
    return subprocess.run([*map(str, command), *options], capture_output=True, text=True, env=environment)


def test_a_gif_shows_the_run_in_real_time(tmp_path: Path) -> None:
    from PIL import Image

    done = play(tmp_path, tmp_path / "run.gif", "--keyframe", "tilted", gl="")
    assert done.returncode == 0, done.stderr
    assert f"filmed into {tmp_path / 'run.gif'}" in done.stdout
    with Image.open(tmp_path / "run.gif") as film:
        frames: Any = film
        assert frames.size == (640, 480)
        assert 20 <= frames.n_frames <= 26
        frames.seek(frames.n_frames - 1)
        assert frames.info["duration"] == 40


def test_a_film_can_be_smaller_and_have_fewer_pictures(tmp_path: Path) -> None:
    from PIL import Image

    done = play(tmp_path, tmp_path / "run.gif", "--keyframe", "tilted", "--size", "160x120", "--fps", "12")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "run.gif") as film:
        frames: Any = film
        assert frames.size == (160, 120)
        assert 10 <= frames.n_frames <= 14
        frames.seek(frames.n_frames - 1)
        assert frames.info["duration"] == 80  # 12.5 a second, since a .gif counts in hundredths


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("160", "--size 160: expected width and height, such as 640x480"),
        ("161x120", "width and height of a film are even, and at least 16, not 161x120"),
    ],
)
def test_a_size_that_no_film_has_is_refused(tmp_path: Path, size: str, message: str) -> None:
    done = play(tmp_path, tmp_path / "run.gif", "--size", size)
    assert done.returncode == 3
    assert message in done.stderr


def test_pictures_for_the_policy_are_drawn_as_the_model_says(tmp_path: Path) -> None:
    xml = rigs.SCENE.replace("<worldbody>", '<visual><quality shadowsize="8192"/></visual><worldbody>')
    code = """
import pathlib, sys
from ashore.deploy import Film, MujocoRobot

robot = MujocoRobot(sys.argv[1])
with Film(robot, pathlib.Path(sys.argv[2])) as film:
    film.look()
print(robot.model.vis.quality.shadowsize)
"""
    command = [sys.executable, "-c", code, str(rigs.save(tmp_path, xml)), str(tmp_path / "run.gif")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"MUJOCO_GL": "egl"})
    assert done.stdout == "8192\n", done.stderr


def test_an_mp4_is_written_too(tmp_path: Path) -> None:
    import imageio_ffmpeg

    done = play(tmp_path, tmp_path / "run.mp4")
    assert done.returncode == 0, done.stderr
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "run.mp4"))
    assert 24 <= frames <= 26
    assert seconds == pytest.approx(1.0, abs=0.1)


def test_where_no_picture_can_be_made_nothing_runs(tmp_path: Path) -> None:
    done = play(tmp_path, tmp_path / "run.gif", gl="glfw")
    assert done.returncode == 3
    assert "MuJoCo cannot make pictures on this machine" in done.stderr
    assert "set MUJOCO_GL to egl or osmesa, or do without the film" in done.stderr
    assert not (tmp_path / "run.gif").exists()
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "camera", "message"),
    [
        ("run.avi", None, "run.avi: a film ends in .gif or .mp4"),
        ("nowhere/run.gif", None, "there is no folder"),
        ("run.gif", "front", "the model has no camera 'front'; there are ['side']"),
    ],
)
def test_a_film_that_cannot_be_written_is_refused(tmp_path: Path, name: str, camera: str | None, message: str) -> None:
    xml = rigs.SCENE.replace("<worldbody>", '<worldbody><camera name="robot/side"/>')
    robot = MujocoRobot(rigs.save(tmp_path, xml))
    with pytest.raises(RobotError) as caught:
        Film(robot, tmp_path / name, camera=camera)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("run.gif", "PIL", "a .gif needs pillow; use pip install 'ashore[mujoco]'"),
        ("run.mp4", "imageio_ffmpeg", "an .mp4 needs imageio-ffmpeg; use pip install 'ashore[video]', or write a .gif"),
    ],
)
def test_what_writes_a_film_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, message: str
) -> None:
    robot = MujocoRobot(rigs.save(tmp_path, rigs.CARTPOLE))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RobotError) as caught:
        Film(robot, tmp_path / name)
    assert message in str(caught.value)
