"""Ports and signals find each other by kind and by names, or nothing moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from desk import NAMES, Desk, bound, joints, refusal, simple

import ashore
import support
from ashore.deploy import Setup, Signal, bind
from ashore.errors import BindError, InputError, OrderError
from ashore.package import Package
from ashore.spec import Port


def test_elements_are_permuted_and_chosen_by_name(arm_package: Package) -> None:
    robot, policy = Desk(), ashore.load(arm_package)
    one = bind(ashore.load(arm_package), robot)
    one.reset()
    policy.reset()
    expected = policy.step({"q": support.f32(2, 1)})  # shoulder, elbow
    assert np.array_equal(one.step()["action"], expected["action"])
    torque = policy.substep({"v": support.f32(2, 1)})["torque"]
    one.substep()
    assert robot.log[-1] == {"effort": [float(torque[0, 1]), float(torque[0, 0])]}
    assert dict(one.signals) == {"q": "position", "v": "speed", "torque": "effort"}


def test_a_tick_decides_when_that_is_due_and_reads_only_what_a_rate_needs(arm_package: Package) -> None:
    robot = Desk()
    one = bound(arm_package.path, robot)
    one.reset()
    assert one.decimation == 4
    for tick in range(9):
        assert one.due == (tick % 4 == 0)
        assert ("action" in one.tick()) == (tick % 4 == 0)
    reads = [entry for entry in robot.log if isinstance(entry, tuple)]
    assert reads == [("position",), *[("speed",)] * 4, ("position",), *[("speed",)] * 4, ("position",), ("speed",)]


def test_reset_restarts_states_robot_and_the_count_of_ticks(arm_package: Package) -> None:
    robot = Desk()
    one = bound(arm_package.path, robot)
    one.reset()
    first = [one.tick() for _ in range(3)]
    one.reset()
    again = [one.tick() for _ in range(3)]
    assert robot.log.count("reset") == 2
    for before, after in zip(first, again, strict=True):
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)


def test_nothing_runs_before_the_first_reset(arm_package: Package) -> None:
    robot = Desk()
    one = bound(arm_package.path, robot)
    for call in (one.step, one.substep, one.tick):
        with pytest.raises(OrderError, match=r"starts with reset\(\)"):
            call()
    assert robot.log == []


def test_a_package_without_substeps_holds_between_decisions(tmp_path: Path) -> None:
    target = joints("target/joint/position", "rad", "a")
    path = simple(tmp_path / "p", {"q": joints("state/joint/position", "rad", "a")}, {"t": target})
    support.edit_manifest(path, lambda document: document.update(timing={"decimation": 3}))
    robot = Desk({"q": Signal("state/joint/position", ("a",), "rad")}, {"t": Signal(str(target.kind), ("a",), "rad")})
    one = bound(path, robot)
    one.reset()
    assert [bool(one.tick()) for _ in range(7)] == [True, False, False] * 2 + [True]
    with pytest.raises(OrderError, match="no stage at the substep rate"):
        one.substep()


def test_the_robot_is_told_joints_timing_and_what_will_come(arm_package: Package) -> None:
    robot = Desk()
    bound(arm_package.path, robot)
    assert robot.setup is not None
    assert robot.setup.joints == arm_package.manifest.joints
    assert robot.setup.timing == arm_package.manifest.timing
    assert robot.setup.reads == ("position", "speed")
    assert robot.setup.writes == {"effort": ("elbow", "shoulder")}


def test_two_outputs_share_the_joints(tmp_path: Path) -> None:
    path = simple(
        tmp_path / "p",
        {"a": joints("state/joint/position", None, "hip"), "b": joints("state/joint/velocity", None, "wheel")},
        {"p": joints("target/joint/position", None, "hip"), "w": joints("target/joint/velocity", None, "wheel")},
    )
    names = ("wheel", "hip")
    robot = Desk(
        {"q": Signal("state/joint/position", names), "v": Signal("state/joint/velocity", names)},
        {"p": Signal("target/joint/position", names), "w": Signal("target/joint/velocity", names)},
    )
    one = bound(path, robot)
    one.reset()
    one.step()
    assert robot.setup is not None
    assert robot.setup.writes == {"p": ("hip",), "w": ("wheel",)}
    assert robot.log[-1] == {"p": [1.0], "w": [0.0]}


def test_a_missing_joint_is_told_with_both_sides(arm_package: Package) -> None:
    signals = {
        "position": Signal("state/joint/position", ("wrist", "elbov"), "rad"),
        "speed": Signal("state/joint/velocity", NAMES, "rad/s"),
    }
    message = refusal(arm_package.path, Desk(signals))
    assert "input 'q': 'shoulder', 'elbow' are not on the robot" in message
    assert "expected ['shoulder', 'elbow'], the robot has ['wrist', 'elbov']" in message
    assert "input q: state/joint/position in rad [shoulder elbow]" in message
    assert "reads position: state/joint/position in rad [wrist elbov]" in message


def test_a_joint_that_nothing_drives_is_refused(arm_package: Package) -> None:
    message = refusal(arm_package.path, Desk(writes={"effort": Signal("target/joint/effort", NAMES, "N*m")}))
    assert "no output drives 'wrist' of the robot" in message
    assert "leave joints that shall not be driven out of the robot's writes" in message


def test_a_duplicate_name_is_refused_where_it_is_written() -> None:
    with pytest.raises(BindError, match=r"the name 'a' stands 2 times in \['a', 'b', 'a'\]"):
        Signal("state/joint/position", ("a", "b", "a"), "rad")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "state/joint/positon"}, "unknown kind 'state/joint/positon'; did you mean"),
        ({"kind": "state/joint/position"}, "names: expected the names of its elements"),
        ({"kind": "state/joint/position", "names": ("a",), "unit": "N"}, "is in rad or deg or m or 1, not in 'N'"),
        ({"kind": "state/vector3d"}, "0 names do not fit the shape [0]"),
        ({"kind": "state/vector3d", "names": ("x",), "shape": (3,)}, "1 names do not fit the shape [3]"),
        ({"kind": "state/vector3d", "shape": (3,), "unit": ("m", "m")}, "2 units for a last axis of 3"),
        ({"kind": "state/vector3d", "names": ("x",), "rows": ("a", "a")}, "the name 'a' stands 2 times in ['a', 'a']"),
        (
            {"kind": "state/vector3d", "names": ("x",), "rows": ("a", "b"), "shape": (3, 1)},
            "2 rows of 1 names do not fit the shape [3, 1]",
        ),
        ({"kind": "state/vector3d", "shape": (2, 1), "rows": ("a", "b")}, "2 rows of 0 names do not fit"),
        ({"kind": "state/vector3d", "names": ("x",), "signs": (-1,)}, "signs are for joints, and not for their gains"),
        ({"kind": "kp", "names": ("a",), "signs": (-1,)}, "signs are for joints, and not for their gains"),
        (
            {"kind": "state/joint/position", "names": ("a", "b"), "signs": (1,)},
            "expected 1 or -1 for each of ['a', 'b']",
        ),
        (
            {"kind": "state/joint/position", "names": ("a",), "signs": (0,)},
            "expected 1 or -1 for each of ['a'], got [0]",
        ),
        (
            {"kind": "sensor/image/rgb", "shape": (3,), "to_order": "camera"},
            "made to order has neither names nor a shape",
        ),
    ],
)
def test_a_signal_that_cannot_be_bound_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BindError) as caught:
        Signal(**arguments)
    assert message in str(caught.value)


def test_two_outputs_for_one_joint_are_refused(tmp_path: Path) -> None:
    target, state = joints("target/joint/effort", "N*m", "a"), joints("state/joint/position", "rad", "a")
    path = simple(tmp_path / "p", {"x": state, "y": state}, {"t": target, "u": target})
    robot = Desk({"q": Signal(str(state.kind), ("a",), "rad")}, {"e": Signal(str(target.kind), ("a",), "N*m")})
    assert "output 'u': 'a' is driven by output 't' already" in refusal(path, robot)


def test_another_unit_is_refused(arm_package: Package) -> None:
    signals = {
        "position": Signal("state/joint/position", NAMES, ("rad", "deg", "rad")),
        "speed": Signal("state/joint/velocity", NAMES, "rad/s"),
    }
    message = refusal(arm_package.path, Desk(signals))
    assert "input 'q': 'elbow' is in 'rad', on the robot in 'deg'; nothing is converted" in message


def test_every_misfit_is_told_at_once(arm_package: Package) -> None:
    robot = Desk(
        {"speed": Signal("state/joint/velocity", NAMES, "deg/s")}, {"t": Signal("target/joint/position", NAMES)}
    )
    message = refusal(arm_package.path, robot, commands={"nobody": 1}, signals={"q": "x"}, unused=["tork"])
    for part in (
        "commands: the policy has no 'nobody'",
        "unused: the policy has no 'tork'; did you mean 'torque'?",
        "input 'q': there is no signal 'x' on the robot",
        "input 'v': 'shoulder' is in 'rad/s', on the robot in 'deg/s'",
        "output 'torque': the robot has nothing of kind 'target/joint/effort'",
        "no output drives 'wrist', 'elbow', 'shoulder' of the robot",
    ):
        assert part in message
    assert robot.setup is None


def test_ports_without_a_kind_need_somebody(sum_package: Package) -> None:
    message = refusal(sum_package.path, Desk())
    assert "input 'x': it has no kind, so nothing says what it is; give it a kind when exporting" in message
    assert "or use commands={'x': …}" in message
    assert "output 'y': it has no kind" in message
    assert "or use unused=['y']" in message
    robot = Desk({"t": Signal("state/vector3d", ("x",))}, {"c": Signal("custom/light", ("x",))})
    one = bound(sum_package.path, robot, commands={"x": lambda: [1, 2, 3]}, unused=["y"])
    one.reset()
    assert one.step()["y"].tolist() == [[2.0, 8.0, 18.0]]
    assert robot.log == ["reset"]


def test_a_raw_action_drives_nothing_and_is_still_returned(arm_package: Package) -> None:
    one = bound(arm_package.path, Desk())
    assert "action" not in one.signals
    one.reset()
    assert "action" in one.step()


def quaternion(order: str) -> Port:
    names = (None, tuple(order))
    return Port(dtype="float32", shape=(1, 4), kind="state/body/rotation", element_names=names)


def test_the_order_of_a_quaternion_is_its_names(tmp_path: Path) -> None:
    output = Port(dtype="float32", shape=(1, 4), kind="custom/echo", element_names=(None, tuple("abcd")))
    path = simple(tmp_path / "p", {"quat": quaternion("xyzw")}, {"echo": output})
    robot = Desk(
        {"q": Signal("state/body/rotation", ("qw", "qx", "qy", "qz"))}, {"echo": Signal("custom/echo", tuple("abcd"))}
    )
    one = bound(path, robot)
    one.reset()
    one.step()
    assert robot.log[-1] == {"echo": [1.0, 2.0, 3.0, 0.0]}


def vector(frame: str | None = None, **more: Any) -> Port:
    return Port(dtype="float32", shape=(1, 3), kind="state/body/angular_velocity", frame=frame, **more)


ECHO = Port(dtype="float32", shape=(1, 3), kind="custom/echo")
TWO = {
    "gyro": Signal("state/body/angular_velocity", ("x", "y", "z"), frame="imu"),
    "base": Signal("state/body/angular_velocity", ("x", "y", "z"), frame="base"),
}
HEARS = {"echo": Signal("custom/echo", shape=(3,))}


def test_of_several_signals_the_frame_the_name_or_the_caller_decides(tmp_path: Path) -> None:
    robot = Desk(TWO, HEARS)
    anonymous = simple(tmp_path / "a", {"w": vector()}, {"echo": ECHO})
    assert "input 'w': 'gyro', 'base' all fit; choose one with signals={'w': …}" in refusal(anonymous, robot)
    assert bound(anonymous, robot, signals={"w": "base"}).signals["w"] == "base"
    framed = simple(tmp_path / "b", {"w": vector("imu")}, {"echo": ECHO})
    assert bound(framed, robot).signals["w"] == "gyro"
    named = simple(tmp_path / "c", {"base": vector()}, {"echo": ECHO})
    assert bound(named, robot).signals["base"] == "base"
    connected = simple(tmp_path / "d", {"w": vector(connection="sensor:gyro")}, {"echo": ECHO})
    assert bound(connected, robot).signals["w"] == "gyro"


def test_another_frame_is_refused_until_the_caller_vouches_for_it(tmp_path: Path) -> None:
    path = simple(tmp_path / "p", {"w": vector("torso")}, {"echo": ECHO})
    message = refusal(path, Desk(TWO, HEARS))
    assert "its frame is 'torso', but on the robot 'state/body/angular_velocity' is in base or imu" in message
    assert bound(path, Desk(TWO, HEARS), signals={"w": "gyro"}).signals["w"] == "gyro"
    wrong = Desk({**TWO, "acc": Signal("state/body/linear_acceleration", shape=(3,))}, HEARS)
    assert "the signal 'acc' is of kind 'state/body/linear_acceleration'" in refusal(path, wrong, signals={"w": "acc"})


@pytest.mark.parametrize("shape", [(1,), (2, 3), (4,)])
def test_nothing_is_broadcast(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = simple(tmp_path / "p", {"w": vector()}, {"echo": ECHO})
    robot = Desk({"w": Signal("state/body/angular_velocity", shape=shape)}, HEARS)
    assert f"its shape is [1, 3], the robot's {list(shape)}; nothing is broadcast" in refusal(path, robot)


def test_arrays_of_more_axes_are_read_whole(tmp_path: Path) -> None:
    image = Port(dtype="float32", shape=(1, 2, 2, 3), kind="sensor/image/rgb")
    path = simple(tmp_path / "p", {"image": image}, {"echo": msgspec.structs.replace(image, kind="action")})
    robot = Desk({"camera": Signal("sensor/image/rgb", shape=(2, 2, 3))}, HEARS)
    one = bound(path, robot)
    one.reset()
    assert one.step()["echo"].reshape(-1).tolist() == list(range(12))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "robot.read: 'position' was asked for and is missing; got ['speed']"),
        (np.zeros((1, 3)), "robot.read: 'position': expected shape [3], got [1, 3]; nothing is broadcast"),
        (np.zeros(1), "expected shape [3], got [1]"),
        (np.zeros(3, np.complex128), "robot.read: 'position': complex128 does not fit the port's float32"),
        (np.array([0, np.nan, 0]), "NaN"),
    ],
)
def test_what_a_robot_reads_is_checked_in_every_tick(arm_package: Package, value: Any, message: str) -> None:
    robot = Desk()
    one = bound(arm_package.path, robot)
    one.reset()
    robot.values["position"] = value
    if value is None:
        del robot.values["position"]
    with pytest.raises(InputError) as caught:
        one.step()
    assert message.lower() in str(caught.value).lower()
    assert not any(isinstance(entry, dict) for entry in robot.log), "nothing was written"


def commanded(out: Path) -> Path:
    command = Port(dtype="float32", shape=(1, 3), kind="command/body/velocity", source="command")
    return simple(out, {"velocity": command}, {"echo": ECHO})


def test_commands_come_from_the_caller_by_port_name(tmp_path: Path) -> None:
    robot, path = Desk(TWO, HEARS), commanded(tmp_path / "p")
    one = bound(path, robot, commands={"velocity": [0.5, 0, 0]})
    one.reset()
    one.step()
    assert robot.log[-1] == {"echo": [0.5, 0.0, 0.0]}
    one.command("velocity", lambda: np.array([[1.0, 2.0, 3.0]]))
    one.step()
    assert robot.log[-1] == {"echo": [1.0, 2.0, 3.0]}
    assert one.commands["velocity"].tolist() == [[1.0, 2.0, 3.0]]
    with pytest.raises(InputError, match=r"command 'velo' is none of the commands that were bound: \['velocity'\]"):
        one.command("velo", [0, 0, 0])


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ({}, "input 'velocity' is a command, and nobody gives it; use commands={'velocity': …}"),
        ({"velocity": [0.5]}, "command 'velocity': expected shape [3], got [1]"),
        ({"velocity": 0.5}, "command 'velocity': expected shape [3], got []"),
        ({"velocity": ["a", "b", "c"]}, "command 'velocity': expected numbers that fit float32"),
        ({"velocity": [[1], [1, 2]]}, "command 'velocity': expected [3] numbers, got [[1], [1, 2]]"),
    ],
)
def test_a_command_that_does_not_fit_is_refused(tmp_path: Path, commands: dict[str, Any], message: str) -> None:
    assert message in refusal(commanded(tmp_path / "p"), Desk(TWO, HEARS), commands=commands)


def test_a_policy_for_many_robots_is_not_bound_to_one(tmp_path: Path) -> None:
    policy = ashore.load(support.write_batched(tmp_path / "p"), batch=3)
    with pytest.raises(BindError, match="loaded with batch=3; a robot is one"):
        policy.bind(Desk(), commands={"x": [0, 0]}, unused=["y"])


def test_a_privileged_input_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = simple(tmp_path / "p", {"base": vector(source="privileged")}, {"echo": ECHO})
    bound(path, Desk(TWO, HEARS))
    assert "input 'base' is privileged: only a simulation has it" in caplog.text


ROWS = {
    "feet": Signal("state/body/position", ("x", "y", "z"), "m", rows=("left", "right", "tail")),
    "hands": Signal("state/body/position", ("x", "y", "z"), "m", rows=("left", "palm")),
    "base": Signal("state/body/position", ("x", "y", "z"), "m"),
}


def rows(*names: str, elements: str = "xyz", **more: Any) -> Port:
    return Port(
        dtype="float32",
        shape=(1, len(names), len(elements)),
        kind="state/body/position",
        element_names=(None, names, tuple(elements)),
        **more,
    )


def echo(port: Port) -> dict[str, Port]:
    return {"echo": Port(dtype="float32", shape=port.shape, kind="action")}


def test_rows_and_elements_are_permuted_and_chosen_by_name(tmp_path: Path) -> None:
    port = rows("tail", "left", elements="zx")
    one = bound(simple(tmp_path / "p", {"where": port}, echo(port)), Desk(ROWS, HEARS))
    assert one.signals["where"] == "feet", "the only one with these rows"
    one.reset()
    assert one.step()["echo"].tolist() == [[[8, 6], [2, 0]]]


@pytest.mark.parametrize(
    ("port", "arguments", "message"),
    [
        (rows("left"), {}, "'feet', 'hands' all fit; choose one with signals={'where': …}"),
        (
            rows("left", "plam"),
            {"signals": {"where": "hands"}},
            "expected ['left', 'plam'], the robot has ['left', 'palm']",
        ),
        (
            rows("nose"),
            {},
            "no signal fits: 'feet': 'nose' is not on the robot; expected ['nose'], the robot has ['left'",
        ),
        (rows("left"), {"signals": {"where": "base"}}, "its rows are ['left'], the robot's signal has no rows"),
        (
            Port(dtype="float32", shape=(1, 3, 3), kind="state/body/position"),
            {"signals": {"where": "feet"}},
            "the robot's signal has the rows ['left', 'right', 'tail'], and the port names no rows",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, port: Port, arguments: Any, message: str) -> None:
    path = simple(tmp_path / "p", {"where": port}, echo(port))
    assert message in refusal(path, Desk(ROWS, HEARS), **arguments)


def test_a_signal_that_is_only_there_by_name_is_not_taken_for_its_kind(tmp_path: Path) -> None:
    signals = {
        "base": Signal("state/body/angular_velocity", ("x", "y", "z")),
        "cube.spin": Signal("state/body/angular_velocity", ("x", "y", "z"), by_name=True),
    }
    anonymous = simple(tmp_path / "a", {"w": vector()}, {"echo": ECHO})
    assert bound(anonymous, Desk(signals, HEARS)).signals["w"] == "base"
    connected = simple(tmp_path / "b", {"w": vector(connection="state:cube:spin")}, {"echo": ECHO})
    assert bound(connected, Desk(signals, HEARS)).signals["w"] == "cube.spin"
    del signals["base"]
    message = refusal(anonymous, Desk(signals, HEARS))
    assert "the robot has its kind by name only; choose one of ['cube.spin'] with signals={'w': …}" in message
    assert "reads state/body/angular_velocity by name: cube.spin" in message
    assert bound(anonymous, Desk(signals, HEARS), signals={"w": "cube.spin"}).signals["w"] == "cube.spin"


def test_a_connection_to_another_entity_than_the_joints_is_not_the_robots(tmp_path: Path) -> None:
    joint = msgspec.structs.replace(joints("state/joint/position", "rad", "a"), connection="state:robot:joint_pos")
    signals = {"q": Signal("state/joint/position", ("a",), "rad"), "base": TWO["base"]}
    outputs = {"seen": Port(dtype="float32", shape=(1, 1), kind="action"), "echo": ECHO}
    for entity in ("robot", "cube"):
        spin = vector(connection=f"state:{entity}:root_ang_vel_b")
        path = simple(tmp_path / entity, {"q": joint, "w": spin}, outputs)
        if entity == "robot":
            assert bound(path, Desk(signals, HEARS)).signals["w"] == "base"
        else:
            message = refusal(path, Desk(signals, HEARS))
            assert "it is of 'cube', not of the robot, and the robot knows no 'cube.root_ang_vel_b'" in message


def test_a_joint_that_turns_the_other_way_is_flipped_when_read_and_when_written(tmp_path: Path) -> None:
    """Names are in another order on the robot, and only the elbow is turned."""
    inputs = {"q": joints("state/joint/position", "rad", "shoulder", "elbow")}
    path = simple(tmp_path / "p", inputs, {"t": joints("target/joint/position", "rad", "shoulder", "elbow")})

    def document(manifest: dict[str, Any]) -> None:
        limits = {"lower": -1.0, "upper": 2.0}
        about = {"kp": 5.0, "default_position": 0.25, "position_limits": limits}
        manifest["joints"] = [{"name": name, **about} for name in ("shoulder", "elbow")]

    support.edit_manifest(path, document)
    names, signs = ("elbow", "shoulder"), (-1, 1)
    reads = {"q": Signal("state/joint/position", names, "rad", signs=signs)}
    robot = Desk(reads, {"t": Signal("target/joint/position", names, "rad", signs=signs)})
    robot.values["q"] = np.array([0.5, 0.75])
    one = bound(path, robot)
    one.reset()
    assert one.step()["t"].tolist() == [[0.75, -0.5]], "as the policy sees it"
    assert robot.log[-1] == {"t": [0.5, 0.75]}, "as the robot has it"
    assert robot.setup is not None
    shoulder, elbow = robot.setup.joints
    assert (shoulder.default_position, elbow.default_position) == (0.25, -0.25)
    assert elbow.position_limits is not None
    assert (elbow.position_limits.lower, elbow.position_limits.upper, elbow.kp) == (-2.0, 1.0, 5.0)


def test_signs_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    path = simple(
        tmp_path / "p",
        {"q": joints("state/joint/position", "rad", "a")},
        {"t": joints("target/joint/position", "rad", "a")},
    )
    reads = {"q": Signal("state/joint/position", ("a",), "rad", signs=(-1,))}
    message = refusal(path, Desk(reads, {"t": Signal("target/joint/position", ("a",), "rad")}))
    assert "joint 'a' has the sign 1 in 't' and -1 in 'q'; a joint has one direction" in message


def test_whole_numbers_are_no_fractions_of_an_image(tmp_path: Path) -> None:
    image = Port(dtype="float32", shape=(1, 2, 2, 3), kind="sensor/image/rgb")
    path = simple(tmp_path / "p", {"image": image}, {"echo": msgspec.structs.replace(image, kind="action")})
    robot = Desk({"camera": Signal("sensor/image/rgb", shape=(2, 2, 3))}, HEARS)
    one = bound(path, robot)
    one.reset()
    robot.values["camera"] = np.full((2, 2, 3), 255, np.uint8)
    with pytest.raises(InputError, match="robot.read: 'camera': uint8 does not fit the port's float32"):
        one.step()


class Studio(Desk):
    """A robot that takes pictures of any size."""

    def configure(self, setup: Setup) -> None:
        super().configure(setup)
        self.values = {name: np.ones(port.shape, np.float32) for name, port in setup.orders.items()}


def test_what_is_made_to_order_has_the_shape_of_the_port(tmp_path: Path) -> None:
    image = Port(dtype="float32", shape=(1, 4, 5, 3), kind="sensor/image/rgb", metadata={"note": "large"})
    path = simple(tmp_path / "p", {"image": image}, {"echo": msgspec.structs.replace(image, kind="action")})
    robot = Studio({"camera": Signal("sensor/image/rgb", to_order="camera")}, HEARS)
    one = bound(path, robot)
    assert robot.setup is not None
    assert robot.setup.orders == {"camera": image}
    one.reset()
    assert one.step()["echo"].shape == (1, 4, 5, 3)
    robot.values["camera"] = np.ones((4, 5, 3))
    with pytest.raises(InputError, match=r"'camera': expected shape \[1, 4, 5, 3\], got \[4, 5, 3\]"):
        one.step()
    assert "reads camera: sensor/image/rgb made to order" in refusal(path, robot, unused=["nobody"])


def test_a_port_that_says_how_it_is_made_is_bound_to_what_makes_it(tmp_path: Path) -> None:
    signals = {"base": TWO["base"], "made": Signal("state/body/angular_velocity", by_name=True, to_order="recipe")}
    plain = simple(tmp_path / "a", {"w": vector()}, {"echo": ECHO})
    assert bound(plain, Desk(signals, HEARS)).signals["w"] == "base"
    asking = simple(tmp_path / "b", {"base": vector(metadata={"recipe": {}})}, {"echo": ECHO})
    assert bound(asking, Desk(signals, HEARS)).signals["base"] == "made"
