"""Inputs far outside of what the export saw are named when they come, and ordinary ones are not."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from desk import Desk, bound, joints

import ashore
import support
from ashore.deploy import Guard, Signal
from ashore.errors import BindError, RobotError
from ashore.package import Golden, Package, Recording, write
from ashore.runtime.ranges import Ranges, RangeWatch
from ashore.spec import Artifact, Manifest, Port, single_stage

XYZ = (None, ("x", "y", "z"))


def manifest(port: Port) -> Manifest:
    return single_stage("one", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")})


def ranges(port: Port, *rows: np.ndarray) -> Ranges:
    recording = Recording()
    for row in rows:
        recording.step({"x": row}, {"y": row})
    return Ranges(recording.golden(), manifest(port))


def gravity(count: int = 8) -> list[np.ndarray]:
    rows = [np.array([[0.1 * np.sin(i), 0.1 * np.cos(i), -1.0]]) for i in range(count)]
    return [(row / np.linalg.norm(row)).astype(np.float32) for row in rows]


GRAVITY = Port(dtype="float32", shape=(1, 3), kind="state/body/gravity", element_names=XYZ)


def test_a_gravity_of_9_81_where_unit_vectors_were_recorded_is_named() -> None:
    (alarm,) = ranges(GRAVITY, *gravity()).alarms({"x": support.f32(0, 0, -9.81)})
    assert (alarm.port, alarm.element, round(alarm.value, 2)) == ("x", "length", 9.81)
    assert alarm.message == (
        "input 'x' has length 9.81, and in all 8 recorded ticks it had length 1; give it as a unit vector"
    )


def test_a_gravity_that_points_elsewhere_raises_nothing() -> None:
    seen = ranges(GRAVITY, *gravity())
    assert not seen.alarms({"x": support.f32(1, 0, 0)})
    assert not seen.alarms({"x": support.f32(0.03, -0.02, -1.01)})


def test_a_command_of_length_one_is_no_rule() -> None:
    port = Port(dtype="float32", shape=(1, 3), kind="command/body/velocity")
    rows = [np.array([[np.cos(i), np.sin(i), 0]], np.float32) for i in range(5)]
    assert not ranges(port, *rows).alarms({"x": support.f32(0.5, 0, 0)})


def test_two_recorded_rows_of_length_one_make_no_rule() -> None:
    assert not ranges(GRAVITY, *gravity(2)).alarms({"x": support.f32(0, 0, -1.5)})


def test_degrees_where_radians_were_recorded_name_the_element() -> None:
    port = joints("state/joint/position", "rad", "hip", "knee")
    rows = [np.array([[0.1 * i, -1.0 - 0.1 * i]], np.float32) for i in range(5)]
    (alarm,) = ranges(port, *rows).alarms({"x": np.rad2deg(rows[1])})
    assert (alarm.port, alarm.element) == ("x", "'hip'")
    assert "input 'x': element 'hip' is 5.73, far outside of what the export saw: 0 to 0.4 in 5" in alarm.message


@pytest.mark.parametrize(("value", "raised"), [(2.49, False), (2.51, True), (-1.99, False), (-2.01, True)])
def test_an_alarm_begins_a_width_or_a_magnitude_beyond_the_range(value: float, raised: bool) -> None:
    port = Port(dtype="float64", shape=(1, 1))
    seen = ranges(port, *(np.array([[one]]) for one in (-0.5, 0.2, 1.0)))  # it spans 1.5, which is more than 1
    assert bool(seen.alarms({"x": np.array([[value]])})) is raised


def test_what_was_always_zero_may_be_one() -> None:
    port = Port(dtype="float32", shape=(1, 3))
    seen = ranges(port, *[np.zeros((1, 3), np.float32)] * 4)
    assert not seen.alarms({"x": support.f32(0.9, 0, 0)})
    (alarm,) = seen.alarms({"x": support.f32(0, 3, 0)})
    assert "element [0, 1] is 3, far outside of what the export saw: always 0 in 4 recorded ticks" in alarm.message


def test_a_picture_has_one_range() -> None:
    port = Port(dtype="float32", shape=(1, 3, 32, 32), kind="sensor/image/rgb")
    seen = ranges(port, *np.random.default_rng(0).random((4, 1, 3, 32, 32), np.float32))
    assert seen["x"].lowest.shape == ()
    (alarm,) = seen.alarms({"x": np.full((1, 3, 32, 32), 255, np.float32)})
    assert "element [0, 0, 0, 0] is 255" in alarm.message


def test_a_batch_of_another_length_is_judged_row_by_row() -> None:
    port = Port(dtype="float32", shape=("batch", 2))
    seen = ranges(port, *(np.array([[0, 1], [0.5, 2]], np.float32) * one for one in (1, 2)))
    assert not seen.alarms({"x": np.ones((5, 2), np.float32)})
    rows = np.ones((5, 2), np.float32)
    rows[3, 0] = 9
    (alarm,) = seen.alarms({"x": rows})
    assert alarm.element == "[3, 0]"


def test_what_was_not_finite_has_no_range() -> None:
    port = Port(dtype="float32", shape=(1, 2), finite=False)
    seen = ranges(port, support.f32(np.inf, 1), support.f32(np.nan, 2))
    assert not seen.alarms({"x": support.f32(1e6, 1.5)})
    assert not seen.alarms({"x": support.f32(np.nan, 1.5)})
    assert seen.alarms({"x": support.f32(0, 50)})


def test_truth_values_texts_and_noise_have_no_ranges() -> None:
    for port, row in (
        (Port(dtype="bool", shape=(1, 2)), np.zeros((1, 2), np.bool_)),
        (Port(dtype="uint8", shape=(1, 4), kind="command/language"), np.zeros((1, 4), np.uint8)),
        (Port(dtype="float32", shape=(1, 4), kind="noise"), np.zeros((1, 4), np.float32)),
    ):
        assert not ranges(port, row)


def test_whole_numbers_have_ranges() -> None:
    port = Port(dtype="int64", shape=(1,))
    seen = ranges(port, *(np.array([one], np.int64) for one in (3, 5)))
    assert not seen.alarms({"x": np.array([9], np.int64)})
    assert seen.alarms({"x": np.array([500], np.int64)})


def test_an_alarm_is_raised_once_until_the_watch_is_reset(caplog: pytest.LogCaptureFixture) -> None:
    watch = RangeWatch(ranges(GRAVITY, *gravity()))
    with caplog.at_level(logging.WARNING, "ashore"):
        assert len(watch.look({"x": support.f32(0, 0, -9.81)})) == 1
        assert not watch.look({"x": support.f32(0, 0, -9.81)})
    assert [record.getMessage() for record in caplog.records] == [watch.alarms[0].message]
    watch.reset()
    assert len(watch.look({"x": support.f32(0, 0, -9.81)})) == 1


def test_a_watch_without_ranges_raises_nothing() -> None:
    assert not RangeWatch(None).look({"x": support.f32(1e9)})


# --- on a robot ------------------------------------------------------------------------------------------------------


def falling(out: Path, golden: Golden | None = None) -> Package:
    """A policy whose target is the gravity that it reads."""
    port = Port(dtype="float32", shape=(1, 3), kind="state/body/gravity", unit="1", element_names=XYZ)
    target = Port(dtype="float32", shape=(1, 3), kind="target/joint/position", unit="rad", element_names=XYZ)
    made = single_stage("g", inputs={"x": port}, outputs={"y": target}, artifacts={"onnx": Artifact(path="a.onnx")})
    files = {"a.onnx": support.model("p (float[1,3] x) => (float[1,3] y) { y = Identity(x) }")}
    return write(out, made, files=files, golden=golden)


def recorded() -> Golden:
    recording = Recording()
    for row in gravity():
        recording.step({"x": row}, {"y": row})
    return recording.golden()


def robot() -> Desk:
    names = ("x", "y", "z")
    desk = Desk({"g": Signal("state/body/gravity", names, "1")}, {"t": Signal("target/joint/position", names, "rad")})
    desk.values["g"] = np.array([0, 0, -9.81])
    return desk


def test_a_bound_policy_names_it_on_the_first_step_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = bound(falling(tmp_path / "p", recorded()).path, robot())
    one.reset()
    with caplog.at_level(logging.WARNING, "ashore"):
        one.step()
    (alarm,) = one.alarms
    assert "input 'x' has length 9.81" in alarm.message
    assert caplog.messages == [alarm.message]
    one.step()
    assert one.alarms == (alarm,)
    assert one.tripped is None


def test_a_guard_may_trip_and_nothing_is_written(tmp_path: Path) -> None:
    desk = robot()
    one = bound(falling(tmp_path / "p", recorded()).path, desk, guard=Guard(ranges="trip"))
    for _ in range(2):  # a reset starts a new episode, and the same alarm ends it
        one.reset()
        with pytest.raises(RobotError, match=r"guard: input 'x' has length 9\.81"):
            one.step()
    assert not any(isinstance(entry, dict) for entry in desk.log)


@pytest.mark.parametrize("guard", [None, Guard(ranges="off")])
def test_nobody_looks_where_nobody_shall(tmp_path: Path, guard: Guard | None) -> None:
    one = bound(falling(tmp_path / "p", recorded()).path, robot(), guard=guard)
    one.reset()
    one.step()
    assert one.alarms == ()


def test_a_package_without_a_rollout_raises_nothing(tmp_path: Path) -> None:
    path = falling(tmp_path / "p").path
    assert ashore.load(path).ranges() is None
    one = bound(path, robot())
    one.reset()
    one.step()
    assert one.alarms == ()


def test_a_package_that_is_gone_can_still_be_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = falling(tmp_path / "p", recorded()).path
    policy = ashore.load(path)
    path.rename(tmp_path / "elsewhere")
    policy.bind(robot())
    assert "no alarms for inputs outside of what the export saw" in caplog.text


def test_a_guard_refuses_another_word() -> None:
    with pytest.raises(BindError, match="guard: ranges: expected 'warn', 'trip' or 'off', got 'loud'"):
        Guard(ranges="loud")  # type: ignore[arg-type]


def test_a_policy_reads_its_rollout_once(tmp_path: Path) -> None:
    policy = ashore.load(falling(tmp_path / "p", recorded()).path)
    assert policy.ranges() is policy.ranges()
