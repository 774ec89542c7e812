"""Height scans: distances along rays as geometry says, through the robot's own body, as the port's metadata ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import rigs

import ashore
from ashore.deploy import MujocoRobot
from ashore.errors import BindError, OrderError
from ashore.spec import Port

STEPS = """
<mujoco>
  <option timestep="0.005" gravity="0 0 0"/>
  <worldbody>
    <geom name="floor" type="plane" size="50 50 1"/>
    <geom name="step" type="box" pos="5 0 0.1" size="4 50 0.1" group="{group}"/>
    <body name="robot/trunk" pos="0.5 0 1">
      <freejoint name="robot/root"/>
      <geom name="robot/trunk" type="box" size="0.3 0.3 0.05"/>
      <site name="robot/nose" pos="0.2 0 0"/>
      <body name="robot/leg" pos="0 0 -0.3">
        <joint name="robot/hip" axis="0 1 0"/><geom name="robot/leg" type="box" size="0.3 0.3 0.1" material="red"/>
      </body>
    </body>
  </worldbody>
  <asset><material name="red" rgba="1 0 0 1"/></asset>
  <actuator><position name="robot/hip" joint="robot/hip"/></actuator>
</mujoco>
"""
OFFSETS = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
QUARTER = np.sqrt(0.5)


def port(count: int = 3, unit: str | None = "m", dtype: Any = "float32", **scan: Any) -> Port:
    order = {"frame": "trunk", "offsets": OFFSETS, "alignment": "yaw", "max_distance": 5.0, **scan}
    shape = (1, count)
    return Port(dtype=dtype, shape=shape, kind="sensor/height_scan", unit=unit, metadata={"scan": order})


def scan(
    folder: Path, quat: tuple[float, ...] = (1, 0, 0, 0), *, group: int = 0, height: float = 1.0, **order: Any
) -> list[float]:
    """What a port sees from 0.5 m before a step of 0.2 m, at a height of 1 m."""
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(STEPS.format(group=group)), idle=["hip"])
    bound = ashore.load(rigs.watcher(folder / "p", {"terrain_scan": port(**order)})).bind(robot)
    assert dict(bound.signals) == {"terrain_scan": "height_scan"}
    bound.reset()
    robot.data.qpos[2:7] = height, *quat
    before = robot.model.geom_rgba.copy(), robot.model.geom_matid.copy()
    seen = bound.step()["terrain_scan_seen"][0]
    after = robot.model.geom_rgba, robot.model.geom_matid
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
    return seen.astype(np.float64).round(4).tolist()


def refusal(folder: Path, **order: Any) -> str:
    with pytest.raises(BindError) as caught:
        scan(folder, **order)
    return str(caught.value)


def test_rays_pass_through_the_robot_and_end_on_the_ground(tmp_path: Path) -> None:
    assert scan(tmp_path) == [1.0, 0.8, 1.0]


def test_what_a_ray_passes_through_is_chosen(tmp_path: Path) -> None:
    assert scan(tmp_path / "leg", exclude="body")[0] == pytest.approx(0.2), "the leg below is hit"
    assert scan(tmp_path / "own", exclude="none")[0] == pytest.approx(0.05), "the trunk is hit from within"


@pytest.mark.parametrize(
    ("alignment", "quat", "expected"),
    [
        ("yaw", (QUARTER, 0, 0, QUARTER), [1.0, 1.0, 1.0]),  # turned to the left: the step is at its right
        ("yaw", (0, 0, 0, 1), [1.0, 1.0, 1.0]),  # turned round
        ("world", (QUARTER, 0, 0, QUARTER), [1.0, 0.8, 1.0]),
        ("base", (np.cos(0.25), 0, 0, np.sin(0.25)), [1.0, 0.8, 1.0]),
        ("base", (np.cos(0.25), np.sin(0.25), 0, 0), [1 / np.cos(0.5), 0.8 / np.cos(0.5), None]),  # rolled by 0.5
        ("yaw", (np.cos(0.25), np.sin(0.25), 0, 0), [1.0, 0.8, 1.0]),
        ("yaw", (QUARTER, 0, QUARTER, 0), [1.0, 0.8, 1.0]),  # its nose down: forward is where its left is not
    ],
)
def test_rays_turn_with_the_frame_as_asked(
    tmp_path: Path, alignment: str, quat: tuple[float, ...], expected: list[float | None]
) -> None:
    seen = scan(tmp_path, quat, alignment=alignment)
    for got, value in zip(seen, expected, strict=True):
        assert value is None or got == pytest.approx(value, abs=1e-4)


def test_rays_start_at_a_site_and_go_where_the_metadata_say(tmp_path: Path) -> None:
    assert scan(tmp_path / "a", frame="nose", offsets=[[0.2, 0, 0], [0.4, 0, 0.5], [0, 0, 0]]) == [1.0, 1.3, 1.0]
    assert scan(tmp_path / "b", frame="robot/nose")[0] == 1.0
    assert scan(tmp_path / "c", direction=[0, 0, -2], offsets=OFFSETS)[0] == 1.0, "of whatever length"
    seen = scan(tmp_path / "d", height=0.1, direction=[1, 0, 0], offsets=OFFSETS)
    assert seen == [0.5, 5.0, 0.5], "from within a box, its far side is 7.5 m away"


def test_misses_have_the_value_that_the_metadata_say(tmp_path: Path) -> None:
    assert scan(tmp_path / "a", direction=[0, 0, 1]) == [5.0, 5.0, 5.0]
    assert scan(tmp_path / "b", direction=[0, 0, 1], miss=-1) == [-1.0, -1.0, -1.0]
    assert scan(tmp_path / "c", max_distance=0.9, miss=7.5) == [7.5, 0.8, 7.5], "what is too far is a miss as well"


def test_groups_of_geoms_can_be_left_out(tmp_path: Path) -> None:
    assert scan(tmp_path / "a", group=3, geom_groups=[0, 1, 2]) == [1.0, 1.0, 1.0]
    assert scan(tmp_path / "b", group=3, geom_groups=[0, 3]) == [1.0, 0.8, 1.0]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"frame": "trunc"}, "frame: the model has no body or site 'trunc'; did you mean 'trunk'?"),
        ({"frame": "nose", "frame_type": "body"}, "the model has no body 'nose'; there are ['world', 'trunk', 'leg']"),
        ({"frame": 3}, "metadata 'scan': Expected `str`, got `int` - at `$.frame`"),
        ({"alignment": "yaww"}, "Invalid enum value 'yaww' - at `$.alignment`"),
        ({"offset": [0, 0, 0]}, "Object contains unknown field `offset`"),
        ({"max_distance": 0}, "Expected `float` > 0.0 - at `$.max_distance`"),
        ({"offsets": [[0, 0]] * 3}, "Expected `array` of length 3, got 2 - at `$.offsets[0]`"),
        ({"geom_groups": [6]}, "Expected `int` <= 5 - at `$.geom_groups[0]`"),
        ({"direction": [0, 0, 0]}, "direction: expected a vector that goes somewhere, got [0.0, 0.0, 0.0]"),
        ({"count": 4}, "its shape is [1, 4], expected [1, 3] for 3 offsets"),
        ({"unit": "1"}, "element 0 is in '1', on the robot in 'm'; nothing is converted"),
        ({"unit": None}, "expected a port of floats in 'm', got float32 in None"),
        ({"dtype": "int32"}, "expected a port of floats in 'm', got int32 in 'm'"),
    ],
)
def test_a_scan_that_cannot_be_made_is_refused(tmp_path: Path, order: dict[str, Any], message: str) -> None:
    assert message in refusal(tmp_path, **order)


def test_a_port_that_says_no_scan_is_refused(tmp_path: Path) -> None:
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(STEPS.format(group=0)), idle=["hip"])
    bare = Port(dtype="float32", shape=(1, 3), kind="sensor/height_scan", unit="m")
    with pytest.raises(BindError, match="metadata 'scan': Object missing required field `frame`"):
        ashore.load(rigs.watcher(tmp_path / "p", {"scan": bare})).bind(robot)
    with pytest.raises(OrderError, match="'height_scan' is made to order, and no policy is bound that asks for it"):
        robot.read(["height_scan"])


def test_two_ports_cannot_order_one_signal_in_two_ways(tmp_path: Path) -> None:
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(STEPS.format(group=0)), idle=["hip"])
    policy = ashore.load(rigs.watcher(tmp_path / "p", {"near": port(), "far": port(max_distance=9.0)}))
    with pytest.raises(BindError, match="input 'far' asks for 'height_scan' in another way than input 'near'"):
        policy.bind(robot)
    same = ashore.load(rigs.watcher(tmp_path / "q", {"near": port(), "far": port()})).bind(robot)
    same.reset()
    seen = same.step()
    assert np.array_equal(seen["near_seen"], seen["far_seen"])


def test_a_frame_that_is_a_body_and_a_site_has_to_be_told_apart(tmp_path: Path) -> None:
    xml = STEPS.format(group=0).replace('name="robot/nose" pos="0.2 0 0"', 'name="robot/trunk" pos="0.2 0 0.5"')
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(xml), idle=["hip"])
    with pytest.raises(BindError, match="'trunk' is a body and a site; say which with frame_type"):
        ashore.load(rigs.watcher(tmp_path / "p", {"scan": port()})).bind(robot)
    bound = ashore.load(rigs.watcher(tmp_path / "q", {"scan": port(frame_type="site")})).bind(robot)
    bound.reset()
    assert bound.step()["scan_seen"][0, 0] == pytest.approx(1.5)


def test_where_rays_end_and_where_they_start_from(tmp_path: Path) -> None:
    """The fields of mjlab's ray-cast sensor: a height scan is the height of the frame less that of the points."""
    robot = MujocoRobot(mujoco.MjModel.from_xml_string(STEPS.format(group=0)), idle=["hip"])
    about = {"dtype": "float32", "unit": "m", "frame": "world", "metadata": port(max_distance=0.9).metadata}
    inputs = {
        "scan.hit_pos_w": Port(shape=(1, 3, 3), kind="custom/scan/points", **about),
        "scan.frame_pos_w": Port(shape=(1, 1, 3), kind="state/body/position", **about),
    }
    bound = ashore.load(rigs.watcher(tmp_path / "p", inputs)).bind(robot)
    assert dict(bound.signals) == {"scan.hit_pos_w": "scan_points", "scan.frame_pos_w": "scan_frame_pos"}
    bound.reset()
    seen = bound.step()
    assert np.allclose(seen["scan.hit_pos_w_seen"], [[[0.5, 0, 1], [1.5, 0, 0.2], [0.5, 1, 1]]]), "a miss ends at once"
    assert np.allclose(seen["scan.frame_pos_w_seen"], [[[0.5, 0, 1]]])
    inputs["scan.hit_pos_w"] = Port(
        shape=(1, 3, 3), kind="custom/scan/points", element_names=(None, None, ("z", "y", "x")), **about
    )
    with pytest.raises(BindError, match=r"its elements are \['z', 'y', 'x'\], expected \['x', 'y', 'z'\]"):
        ashore.load(rigs.watcher(tmp_path / "q", inputs)).bind(robot)
    inputs["scan.hit_pos_w"] = Port(shape=(1, 9), kind="custom/scan/points", **about)
    with pytest.raises(BindError, match=r"'scan_points': its shape is \[1, 9\], expected \[1, 3, 3\] for 3 offsets"):
        ashore.load(rigs.watcher(tmp_path / "r", inputs)).bind(robot)
