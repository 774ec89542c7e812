"""Checks of pictures, as a script: MuJoCo chooses its graphics library when it is imported, so each has a process.

``python pictures.py CHECK FOLDER``
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import rigs

import ashore
from ashore.deploy import MujocoRobot
from ashore.spec import Limits, Port

ROOM = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <light pos="0 0 3"/>
    <geom name="wall" type="box" pos="2 0 1" size="0.1 0.6 5" rgba="1 0 0 1"/>
    <geom name="ball" type="sphere" pos="1 0.1 1.1" size="0.1" rgba="0 1 0 1" group="3"/>
    <site name="mark" pos="1 -0.1 1" size="0.1"/>
    <body name="robot/head" pos="0 0 1">
      <joint name="robot/neck" type="slide" axis="1 0 0"/><geom size="0.05"/>
      <camera name="robot/eye" euler="0 -90 -90" fovy="60"/>
      <camera name="robot/wide" euler="0 -90 -90" resolution="1280 720" sensorsize="0.004 0.002" focal="0.002 0.002"/>
    </body>
  </worldbody>
  <actuator><position name="robot/neck" joint="robot/neck"/></actuator>
</mujoco>
"""
"""A wall 1.9 m before the eyes, narrower than what they see; a ball that only some groups show; a site."""

GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)


def port(what: str, shape: tuple[int, ...], **more: Any) -> Port:
    camera = {key: more.pop(key) for key in ("layout", "fit", "miss", "geom_groups", "shadows") if key in more}
    dtype = {"rgb": "uint8", "depth": "float32", "segmentation": "int32"}[what]
    unit = "m" if what == "depth" else "1"
    about = {"dtype": dtype, "unit": unit, "metadata": {"camera": camera} if camera else {}, **more}
    return Port(shape=shape, kind=f"sensor/image/{what}", **about)


def look(folder: Path, signal: str, one: Port) -> np.ndarray:
    """What a policy is given of a camera."""
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(ROOM), idle=["neck"])
    bound = ashore.load(rigs.watcher(folder / "p", {"image": one})).bind(robot, signals={"image": signal})
    bound.reset()
    return bound.step()["image_seen"]


def drawn(what: str, height: int, width: int, *, camera: str = "robot/eye", groups: tuple[int, ...] = (0, 1, 2)) -> Any:
    """What MuJoCo's own renderer draws."""
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    options = mujoco.MjvOption()
    options.geomgroup[:] = [group in groups for group in range(6)]
    options.sitegroup[:] = 0
    with mujoco.Renderer(model, height, width) as renderer:
        if what == "depth":
            renderer.enable_depth_rendering()
        if what == "segmentation":
            renderer.enable_segmentation_rendering()
        renderer.update_scene(data, camera=camera, scene_option=options)
        return renderer.render()


def check_rgb(folder: Path) -> None:
    expected = drawn("rgb", 30, 40)
    assert expected[15, 20, 0] > 100 > expected[15, 20, 1], "a red wall"
    assert np.array_equal(look(folder / "a", "eye.rgb", port("rgb", (1, 30, 40, 3))), expected[None])
    turned = look(folder / "b", "eye.rgb", port("rgb", (1, 3, 30, 40)))
    assert np.array_equal(turned, expected.transpose(2, 0, 1)[None])
    for limit in (1.0, 255.0):
        one = port("rgb", (1, 3, 30, 40), dtype="float32", limits=Limits(lower=0.0, upper=limit))
        seen = look(folder / f"c{limit}", "eye.rgb", one)
        assert np.array_equal(seen, turned.astype(np.float32) / np.float32(255.0 / limit))
    square = look(folder / "d", "eye.rgb", port("rgb", (1, 3, 40, 3), layout="CHW"))
    assert np.array_equal(square, drawn("rgb", 40, 3).transpose(2, 0, 1)[None])


def check_depth(folder: Path) -> None:
    expected = drawn("depth", 30, 40)
    seen = look(folder / "a", "eye.depth", port("depth", (1, 30, 40, 1)))
    assert np.array_equal(seen, expected[None, :, :, None])
    assert np.allclose(seen[0, 5:25, 18:22], 1.9, atol=1e-4), "along the axis, not along the ray"
    assert seen[0, 15, 0, 0] > 10, "beside the wall is nothing"
    missed = look(folder / "b", "eye.depth", port("depth", (1, 1, 30, 40), miss=0.0))[0, 0]
    assert np.array_equal(missed == 0, expected > 10)
    assert np.array_equal(missed[missed > 0], expected[missed > 0])


def check_segmentation(folder: Path) -> None:
    seen = look(folder / "a", "eye.segmentation", port("segmentation", (1, 30, 40, 2)))
    assert np.array_equal(seen, drawn("segmentation", 30, 40)[None])
    assert seen[0, 15, 20].tolist() == [0, GEOM], "the wall"
    assert seen[0, 15, 0].tolist() == [-1, -1], "nothing"
    assert {tuple(pixel) for pixel in seen.reshape(-1, 2).tolist()} == {(0, GEOM), (-1, -1)}, "no site, no ball"
    groups = (0, 3)
    seen = look(folder / "b", "eye.segmentation", port("segmentation", (1, 2, 30, 40), geom_groups=groups))
    assert np.array_equal(seen[0].transpose(1, 2, 0), drawn("segmentation", 30, 40, groups=groups))
    assert [1, GEOM] in seen[0].reshape(2, -1).T.tolist(), "the ball"


def check_sensor(folder: Path) -> None:
    """A sensor of 4 x 2 mm at a focal length of 2 mm, on a square image: cut to 2 x 2 mm, that is 53.13 degrees."""
    cut = look(folder / "a", "wide.depth", port("depth", (1, 32, 32, 1), fit="crop", miss=0.0))[0, :, :, 0]
    stretched = look(folder / "b", "wide.depth", port("depth", (1, 32, 32, 1), fit="stretch"))[0, :, :, 0]
    assert np.array_equal(stretched, drawn("depth", 32, 32, camera="robot/wide"))
    half_wall = 0.6 / 1.9  # the tangent under which it is seen
    tangents = np.abs((np.arange(32) + 0.5) / 16 - 1)
    assert (cut[16] > 0).tolist() == (0.5 * tangents < half_wall).tolist()
    assert (stretched[16] < 3).tolist() == (tangents < half_wall).tolist()
    whole = look(folder / "c", "wide.depth", port("depth", (1, 32, 64, 1)))
    assert np.array_equal(whole[0, :, :, 0], drawn("depth", 32, 64, camera="robot/wide"))


def check_large(folder: Path) -> None:
    seen = look(folder, "eye.segmentation", port("segmentation", (1, 500, 800, 2)))
    assert seen[0, 250, 400].tolist() == [0, GEOM], "more than the buffer of 640 x 480 that a model has"


def check_shadows(folder: Path) -> None:
    with_, without = (
        look(folder / str(shadows), "eye.rgb", port("rgb", (1, 60, 80, 3), geom_groups=[0, 3], shadows=shadows))
        for shadows in (True, False)
    )
    assert with_.astype(int).sum() < without.astype(int).sum()


def check_looking_changes_nothing(folder: Path) -> None:
    ends = []
    for shown in (False, True):
        robot = MujocoRobot(mujoco.MjModel.from_xml_string(ROOM), idle=["neck"])
        inputs = {"q": rigs.port("state/joint/position", "m", ("neck",))}
        if shown:
            inputs |= {"a": port("depth", (1, 8, 8, 1), miss=0.0), "b": port("rgb", (1, 8, 8, 3))}
        signals = {"a": "eye.depth", "b": "eye.rgb"} if shown else {}
        bound = ashore.load(rigs.watcher(folder / str(shown), inputs)).bind(robot, signals=signals)
        bound.reset()
        robot.data.qvel[0] = 0.5
        for _ in range(20):
            bound.tick()
            robot.advance()
        ends.append((robot.data.qpos.copy(), robot.data.qvel.copy(), robot.model.cam_sensorsize.copy()))
    assert all(np.array_equal(*pair) for pair in zip(*ends, strict=True))


if __name__ == "__main__":
    globals()[f"check_{sys.argv[1]}"](Path(sys.argv[2]))
