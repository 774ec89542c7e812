"""A robot in a scene is known by its names without the prefix, or the model is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import rigs

import ashore
from ashore.deploy import MujocoRobot
from ashore.errors import BindError
from ashore.spec import Joint

TWO = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <body name="a/arm"><joint name="a/elbow"/><geom size="0.1"/></body>
    <body name="b/arm" pos="1 0 0"><joint name="{second}elbow"/><geom size="0.1"/></body>
  </worldbody>
  <actuator><position name="a/elbow" joint="a/elbow"/><position joint="{second}elbow"/></actuator>
</mujoco>
"""


def robot(xml: str, **arguments: Any) -> MujocoRobot:
    return MujocoRobot(mujoco.MjModel.from_xml_string(xml), **arguments)


@pytest.mark.parametrize("prefix", [None, "robot/"])
def test_names_of_the_robot_have_no_prefix_and_others_keep_theirs(prefix: str | None) -> None:
    one = robot(rigs.SCENE, prefix=prefix)
    assert one.names.prefix == "robot/"
    assert one.reads["joint_pos"].names == one.writes["joint_pos_target"].names == ("hip",)
    assert one.reads["body_pos"].rows == ("trunk", "leg", "cube/cube")
    assert one.reads["site_pos"].rows == ("imu", "toe", "cube/toe")
    assert one.reads["imu_ang_vel"].frame == "imu"
    assert "cube/gyro" in one.reads
    assert one.base is not None
    assert robot(rigs.SCENE, base="trunk").base == one.base
    assert robot(rigs.SCENE, idle=["hip"]).writes == {}


def test_a_package_drives_a_robot_with_a_prefix_as_one_without(tmp_path: Path) -> None:
    inputs = {
        "joint_pos": rigs.port("state/joint/position", "rad", ("hip",), connection="state:robot:joint_pos"),
        "wish": rigs.port("command/joint/position", "rad", ("hip",)),
    }
    outputs = {"target": rigs.port("target/joint/position", "rad", ("hip",))}
    joints = (Joint(name="hip", kp=20.0, kd=0.5, default_position=0.3),)
    weights = np.array([[0.1], [1]], np.float32)
    policy = ashore.load(rigs.linear(tmp_path / "p", inputs, outputs, weights, joints=joints))
    ends = []
    for xml in (rigs.SCENE, rigs.SCENE.replace("robot/", "").replace("cube/", "c_")):
        one = robot(xml)
        bound = policy.bind(one, commands={"wish": [0.5]})
        bound.reset()
        assert one.data.qpos[7] == 0.3
        for _ in range(20):
            bound.tick()
            one.advance()
        ends.append(one.data.qpos.copy())
    assert np.array_equal(*ends)


def test_no_prefix_leaves_names_as_they_are() -> None:
    one = robot(rigs.SCENE, prefix="")
    assert one.reads["joint_pos"].names == ("robot/hip",)
    assert "robot/imu_ang_vel" in one.reads


def test_joints_without_a_common_prefix_keep_their_names() -> None:
    one = robot(TWO.format(second=""))
    assert one.names.prefix == ""
    assert one.reads["joint_pos"].names == ("a/elbow", "elbow")


def test_of_two_robots_one_has_to_be_named() -> None:
    xml = TWO.format(second="b/")
    with pytest.raises(BindError) as caught:
        robot(xml)
    assert "the model has several robots, ['a/', 'b/']; say which is the policy's with prefix='a/'" in str(caught.value)
    assert robot(xml, prefix="b/", idle=["a/elbow"]).writes["joint_pos_target"].names == ("elbow",)
    assert robot(xml, prefix="").reads["joint_pos"].names == ("a/elbow", "b/elbow")


def test_a_prefix_that_no_actuated_joint_has_is_refused() -> None:
    with pytest.raises(BindError, match=r"prefix: no actuated joint begins with 'robt/'; there are \['robot/hip'\]"):
        robot(rigs.SCENE, prefix="robt/")


def test_two_names_that_are_the_same_without_the_prefix_are_refused() -> None:
    xml = rigs.SCENE.replace('name="cube/cube"', 'name="leg"')
    with pytest.raises(BindError, match="without the prefix 'robot/', two of the model's body names are 'leg'"):
        robot(xml)
    assert "leg" in robot(xml, prefix="").reads["body_pos"].rows
