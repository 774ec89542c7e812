"""Bodies, sites and entities: what is read is what MuJoCo says, and ports find it by the names of their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import rigs

import ashore
from ashore.deploy import Bound, MujocoRobot
from ashore.errors import BindError
from ashore.spec import Port

XYZ = ("x", "y", "z")
MODEL = mujoco.MjModel.from_xml_string(rigs.SCENE)
JOINTS = rigs.port("state/joint/position", "rad", ("hip",), connection="state:robot:joint_pos")
"""So that a policy says which entity is the robot."""


def moving(**arguments: Any) -> MujocoRobot:
    """The scene, with everything turned and moving."""
    robot = MujocoRobot(MODEL, **arguments)
    generator = np.random.default_rng(0)
    robot.data.qvel[:] = generator.normal(size=MODEL.nv)
    robot.data.qpos[:] += 0.3 * generator.normal(size=MODEL.nq)
    mujoco.mj_normalizeQuat(MODEL, robot.data.qpos)
    return robot


def velocity(robot: MujocoRobot, kind: Any, index: int, *, local: bool = False) -> np.ndarray:
    """Linear, then angular, as MuJoCo itself computes it."""
    out = np.zeros(6)
    mujoco.mj_objectVelocity(robot.model, robot.data, kind, index, out, int(local))
    return np.concatenate([out[3:], out[:3]])


def rows(kind: str, unit: Any, names: tuple[str, ...], elements: tuple[str, ...] = XYZ, **more: Any) -> Port:
    shape, element_names = (1, len(names), len(elements)), (None, names, elements)
    return Port(dtype="float32", shape=shape, kind=kind, unit=unit, element_names=element_names, **more)


def bind(path: Path, robot: MujocoRobot, inputs: dict[str, Port], **arguments: Any) -> Bound:
    return ashore.load(rigs.watcher(path, inputs)).bind(robot, **arguments)


def refusal(path: Path, inputs: dict[str, Port], **arguments: Any) -> str:
    with pytest.raises(BindError) as caught:
        bind(path, MujocoRobot(MODEL, idle=["hip"]), inputs, **arguments)
    return str(caught.value)


def test_bodies_and_sites_are_where_mujoco_says() -> None:
    robot = moving()
    read = robot.read([name for name in robot.reads if name.startswith(("body_", "site_"))])
    for place, kind, names in (
        ("body", mujoco.mjtObj.mjOBJ_XBODY, ("robot/trunk", "robot/leg", "cube/cube")),
        ("site", mujoco.mjtObj.mjOBJ_SITE, ("robot/imu", "robot/toe", "cube/toe")),
    ):
        for row, name in enumerate(names):
            frame: Any = getattr(robot.data, place)(name)
            index = getattr(robot.model, place)(name).id
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, read[f"{place}_quat"][row])
            assert np.allclose(read[f"{place}_pos"][row], frame.xpos, atol=1e-12)
            assert np.allclose(matrix, frame.xmat, atol=1e-12)
            moved = velocity(robot, kind, index)
            assert np.allclose(read[f"{place}_lin_vel"][row], moved[:3], atol=1e-12)
            assert np.allclose(read[f"{place}_ang_vel"][row], moved[3:], atol=1e-12)
    assert np.abs(read["site_lin_vel"][0] - read["body_lin_vel"][0]).max() > 0.01, "so that the above can fail"


def test_of_two_quaternions_of_a_site_the_larger_element_is_positive() -> None:
    robot = moving()
    for angle in np.linspace(-3, 3, 25):
        robot.data.qpos[3:7] = np.cos(angle / 2), 0, np.sin(angle / 2), 0
        robot.refresh()
        quats = robot.read(["site_quat"])["site_quat"]
        assert (np.take_along_axis(quats, np.abs(quats).argmax(1)[:, None], 1) > 0).all()


@pytest.mark.parametrize("point", ["_link", "_com", ""])
def test_an_entity_is_read_by_the_names_of_its_training_environment(point: str) -> None:
    robot, kinds = moving(), mujoco.mjtObj
    pose = kinds.mjOBJ_BODY if point == "_com" else kinds.mjOBJ_XBODY
    moves = kinds.mjOBJ_XBODY if point == "_link" else kinds.mjOBJ_BODY
    for entity, name in (("robot", "robot/trunk"), ("cube", "cube/cube")):
        read = robot.read([one for one in robot.reads if one.startswith(f"{entity}.")])
        body, root = robot.data.body(name), f"{entity}.root{point}"
        expected = velocity(robot, moves, body.id)
        assert np.allclose(read[f"{root}_pos_w"], body.xipos if pose == kinds.mjOBJ_BODY else body.xpos)
        assert np.allclose(read[f"{root}_vel_w"], expected)
        assert np.allclose(read[f"{root}_lin_vel_w"], expected[:3])
        turn = body.xmat.reshape(3, 3).T
        assert np.allclose(read[f"{root}_vel_b"], np.concatenate([turn @ expected[:3], turn @ expected[3:]]))
        assert np.allclose(read[f"{root}_ang_vel_b"], turn @ expected[3:])
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, read[f"{root}_quat_w"])
        assert np.allclose(matrix, body.ximat if pose == kinds.mjOBJ_BODY else body.xmat)
        both = [read[f"{root}_pos_w"], read[f"{root}_quat_w"]]
        assert np.array_equal(read[f"{root}_pose_w"], np.concatenate(both))
        assert np.array_equal(read[f"{entity}.body{point}_pos_w"][0], read[f"{root}_pos_w"])
        assert np.array_equal(read[f"{entity}.body{point}_vel_w"][0], read[f"{root}_vel_w"])
        assert np.allclose(read[f"{entity}.projected_gravity_b"], turn @ [0, 0, -1])
    assert robot.reads["cube.site_pos_w"].rows == ("toe",)
    assert np.array_equal(robot.read(["cube.site_pos_w"])["cube.site_pos_w"][0], robot.data.site("cube/toe").xpos)
    link, com = (robot.read([f"robot.root{one}_lin_vel_w"])[f"robot.root{one}_lin_vel_w"] for one in ("_link", "_com"))
    assert np.abs(link - com).max() > 0.01, "so that the above can fail"


def test_a_robot_without_a_prefix_is_an_entity_too() -> None:
    plain = MujocoRobot(mujoco.MjModel.from_xml_string(rigs.WALKER))
    assert plain.reads["robot.body_link_pos_w"].rows == ("trunk", "tail")
    assert {"robot.root_link_quat_w", "ball.root_link_pos_w"} <= set(plain.reads)
    fixed = MujocoRobot(mujoco.MjModel.from_xml_string(rigs.arm_xml()))
    assert np.array_equal(fixed.read(["robot.root_link_pos_w"])["robot.root_link_pos_w"], [0, 0, 1])
    other = MujocoRobot(mujoco.MjModel.from_xml_string(rigs.SCENE.replace("robot/", "go1/")))
    assert other.reads["robot.site_pos_w"].rows == other.reads["go1.site_pos_w"].rows == ("imu", "toe")


def test_ports_find_entities_and_rows_by_their_connections(tmp_path: Path) -> None:
    position = {"kind": "state/body/position", "unit": "m", "frame": "world"}
    inputs = {
        "joint_pos": JOINTS,
        "site_pos_w": rows(**position, names=("toe",), connection="state:robot:site_pos_w"),
        "cube.site_pos_w": rows(**position, names=("toe",), connection="state:cube:site_pos_w"),
        "cube.root_link_pos_w": rigs.port(
            "state/body/position", "m", XYZ, frame="world", connection="state:cube:root_link_pos_w"
        ),
        "root_link_quat_w": rigs.port(
            "state/body/rotation", "1", tuple("wxyz"), frame="world", connection="state:robot:root_link_quat_w"
        ),
        "imu_ang_vel": rigs.port("state/body/angular_velocity", "rad/s", XYZ, connection="state:robot/imu_ang_vel"),
        "spin": rigs.port("state/body/angular_velocity", "rad/s", XYZ, connection="state:cube/gyro"),
    }
    robot = moving(idle=["hip"])
    bound = bind(tmp_path / "p", robot, inputs)
    assert dict(bound.signals) == {
        "joint_pos": "joint_pos",
        "site_pos_w": "robot.site_pos_w",
        "cube.site_pos_w": "cube.site_pos_w",
        "cube.root_link_pos_w": "cube.root_link_pos_w",
        "root_link_quat_w": "robot.root_link_quat_w",
        "imu_ang_vel": "imu_ang_vel",
        "spin": "cube/gyro",
    }
    bound.reset()
    robot.data.qvel[:] = 0.1
    seen = bound.step()
    assert np.allclose(seen["site_pos_w_seen"], robot.data.site("robot/toe").xpos)
    assert np.allclose(seen["cube.root_link_pos_w_seen"], [[1, 0, 0.3]])
    assert np.allclose(seen["spin_seen"], 0.1)


def test_rows_are_chosen_and_reordered_by_name(tmp_path: Path) -> None:
    port = rows("state/body/position", "m", ("cube/cube", "trunk"), ("z", "x"), frame="world")
    robot = moving(idle=["hip"])
    bound = bind(tmp_path / "p", robot, {"where": port})
    assert bound.signals["where"] == "body_pos"
    bound.reset()
    x, _, z = robot.data.qpos[:3]
    assert np.allclose(bound.step()["where_seen"], [[[0.3, 1], [z, x]]])


def test_rows_that_nothing_has_are_told_with_both_sides(tmp_path: Path) -> None:
    message = refusal(tmp_path / "p", {"where": rows("state/body/position", "m", ("leg", "toe"), frame="world")})
    assert "'body_pos': 'toe' is not on the robot; expected ['leg', 'toe'], the robot has ['trunk', 'leg'" in message
    assert "'site_pos': 'leg' is not on the robot; expected ['leg', 'toe'], the robot has ['imu', 'toe'" in message
    assert "input where: state/body/position in m frame world [leg toe] x [x y z]" in message
    assert "reads body_pos: state/body/position in m frame world [trunk leg cube/cube] x [x y z]" in message
    assert "reads state/body/position by name: robot.root_link_pos_w" in message


def test_a_port_without_rows_takes_no_row(tmp_path: Path) -> None:
    """One site in a port of shape [1, 3] looks like a batch of one; the port has to say that it is a row."""
    port = rigs.port("state/body/position", "m", XYZ, frame="world")
    message = refusal(tmp_path / "p", {"where": port}, signals={"where": "site_pos"})
    assert "the robot's signal has the rows ['imu', 'toe', 'cube/toe'], and the port names no rows" in message
    one = rows("state/body/position", "m", ("trunk",), frame="world")
    message = refusal(tmp_path / "q", {"where": one}, signals={"where": "base_pos"})
    assert "its rows are ['trunk'], the robot's signal has no rows" in message


def test_what_is_of_another_entity_is_never_the_robots(tmp_path: Path) -> None:
    """The base has a position too, and it is the only signal of that shape."""
    ball = rigs.port("state/body/position", "m", XYZ, frame="world", connection="state:ball:root_link_pos_w")
    message = refusal(tmp_path / "p", {"joint_pos": JOINTS, "ball_pos": ball})
    assert (
        "input 'ball_pos': it is of 'ball', not of the robot, and the robot knows no 'ball.root_link_pos_w'" in message
    )
    robot = MujocoRobot(MODEL, idle=["hip"])
    signals = {"ball_pos": "cube.root_link_pos_w"}
    assert bind(tmp_path / "q", robot, {"joint_pos": JOINTS, "ball_pos": ball}, signals=signals).signals == {
        "joint_pos": "joint_pos",
        **signals,
    }


def test_a_frame_that_contradicts_the_connection_is_refused(tmp_path: Path) -> None:
    """Not bound to another signal of the kind, which would be in that frame."""
    port = rigs.port("state/body/angular_velocity", "rad/s", XYZ, frame="base", connection="state:robot/imu_ang_vel")
    message = refusal(tmp_path / "p", {"spin": port})
    assert "its frame is 'base', but on the robot 'state/body/angular_velocity' is in imu" in message
    assert "say so with signals={'spin': 'imu_ang_vel'}" in message
