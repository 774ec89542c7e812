"""A guard ends an episode before something wrong is written, and the robot is told why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk import Desk, bound, joints, refusal, simple

import support
from ashore.deploy import Bound, Guard, Signal
from ashore.errors import AshoreError, BindError, InputError, NonFiniteError, OrderError, RobotError
from ashore.package import write
from ashore.spec import Artifact, single_stage


class Brake(Desk):
    """A robot that can be halted."""

    def halt(self, how: str, cause: str) -> None:
        self.log.append((how, cause))


def package(out: Path, limits: dict[str, Any] | None = None) -> Path:
    """Two joints; the target is the position."""
    inputs = {"q": joints("state/joint/position", "rad", "hip", "knee")}
    path = simple(out, inputs, {"t": joints("target/joint/position", "rad", "hip", "knee")})
    if limits is not None:

        def limit(document: dict[str, Any]) -> None:
            for group, values in limits.items():
                for ports in (document[group], document["stages"]["policy"][group]):
                    for one in ports.values():
                        one["limits"] = values

        support.edit_manifest(path, limit)
    return path


def robot(kind: type[Desk] = Brake) -> Desk:
    names = ("hip", "knee")
    one = kind(
        {"q": Signal("state/joint/position", names, "rad")}, {"t": Signal("target/joint/position", names, "rad")}
    )
    one.values["q"] = np.array([0.1, 0.2])
    return one


def tripped(one: Bound, error: type[AshoreError], message: str) -> None:
    """That the next step trips, writes nothing, tells the robot, and nothing goes on before a reset."""
    desk: Any = one.robot
    written = sum(isinstance(entry, dict) for entry in desk.log)
    with pytest.raises(error) as caught:
        one.step()
    assert message in str(caught.value)
    assert sum(isinstance(entry, dict) for entry in desk.log) == written
    assert one.tripped is not None
    assert message in one.tripped
    if isinstance(desk, Brake):
        how, cause = desk.log[-1]
        assert how in ("hold", "damp", "stop")
        assert message in cause
    desk.values["q"] = np.array([0.1, 0.2])
    with pytest.raises(OrderError, match="the guard has tripped, and nothing more is written before a reset"):
        one.step()
    one.reset()
    assert one.tripped is None
    one.step()


def start(path: Path, desk: Desk, **arguments: Any) -> Bound:
    one = bound(path, desk, **arguments)
    one.reset()
    one.step()
    return one


def test_limits_of_outputs_are_kept_to(tmp_path: Path) -> None:
    limits = {"outputs": {"lower": [-1.0, None], "upper": [1.0, 0.5]}}
    one = start(package(tmp_path / "p", limits), desk := robot())
    desk.values["q"] = np.array([-9.0, -9.0])
    tripped(one, RobotError, "guard: output 't': 'hip' is -9, outside of -1 to 1")
    desk.values["q"] = np.array([1.0, 0.6])
    tripped(one, RobotError, "guard: output 't': 'knee' is 0.6, outside of -inf to 0.5")
    desk.values["q"] = np.array([1.0, 0.5])  # inclusive
    one.step()


def test_limits_of_inputs_are_kept_to(tmp_path: Path) -> None:
    one = start(package(tmp_path / "p", {"inputs": {"lower": 0.0, "upper": 1.0}}), desk := robot())
    desk.values["q"] = np.array([0.5, 1.5])
    tripped(one, RobotError, "guard: input 'q': 'knee' is 1.5, outside of 0 to 1")


def test_a_guard_can_leave_limits_or_be_left_out(tmp_path: Path) -> None:
    path = package(tmp_path / "p", {"outputs": {"upper": 1.0}})
    for guard in (Guard(limits=False), None):
        one = start(path, desk := robot(), guard=guard)
        desk.values["q"] = np.array([5.0, 5.0])
        one.step()
        assert desk.log[-1] == {"t": [5.0, 5.0]}
        assert one.tripped is None
    desk.values["q"] = np.array([np.nan, 0])
    with pytest.raises(InputError, match="is nan"):
        one.step()
    assert one.tripped is None, "without a guard, the policy still refuses, and that is all"


def test_jumps_are_measured_from_write_to_write_within_an_episode(tmp_path: Path) -> None:
    one = start(package(tmp_path / "p"), desk := robot(), guard=Guard(jumps={"t": 0.5}))
    desk.values["q"] = np.array([0.1, 0.65])
    one.step()
    desk.values["q"] = np.array([0.1, 1.25])
    tripped(one, RobotError, "guard: output 't' jumped by 0.6, the most is 0.5")
    desk.values["q"] = np.array([7.0, 7.0])
    one.reset()
    one.step()  # the first of an episode comes from nowhere


def test_old_measurements_trip(tmp_path: Path) -> None:
    desk = robot()
    desk.values["age_s"] = 0.01
    one = start(package(tmp_path / "p"), desk, guard=Guard(max_age_s=0.02))
    for age in (0.03, np.nan):
        desk.values["age_s"] = age
        with pytest.raises(RobotError, match=rf"guard: the oldest measurement is {age} s old, the most is 0.02 s"):
            one.step()
        one.reset()
    del desk.values["age_s"]
    with pytest.raises(RobotError, match="max_age_s is 0.02, but the robot adds no 'age_s' to what it reads"):
        one.step()


def test_a_late_decision_is_not_written(tmp_path: Path) -> None:
    import time

    class Slow(Brake):
        wait = 0.0

        def read(self, names: Any) -> Any:
            time.sleep(self.wait)
            return super().read(names)

    desk = robot(Slow)
    one = start(package(tmp_path / "p"), desk, guard=Guard(deadline_s=0.5))
    desk.wait = 0.6  # type: ignore[attr-defined]
    with pytest.raises(RobotError, match="guard: reading and running took 0.6.* s, the deadline is 0.5 s"):
        one.step()
    assert not isinstance(desk.log[-1], dict)


def test_whatever_ends_a_tick_trips(tmp_path: Path) -> None:
    one = start(package(tmp_path / "p"), desk := robot())
    desk.values["q"] = np.array([np.inf, 0])
    tripped(one, InputError, "inf")
    desk.values["q"] = np.zeros(3)
    tripped(one, InputError, "expected shape [2], got [3]")

    class Unplugged(Brake):
        def read(self, names: Any) -> Any:
            raise KeyboardInterrupt if self.log.count("reset") > 1 else OSError("no bus")

    one = bound(tmp_path / "p", desk := robot(Unplugged), guard=Guard(on_trip="stop"))
    for error, cause in ((OSError, "OSError: no bus"), (KeyboardInterrupt, "KeyboardInterrupt: ")):
        one.reset()
        with pytest.raises(error):
            one.step()
        assert desk.log[-1] == ("stop", cause)
        assert one.tripped == cause


def test_results_that_are_not_finite_trip(tmp_path: Path) -> None:
    names = ("hip", "knee")
    inputs = {"q": joints("state/joint/position", "rad", *names)}
    outputs = {"t": joints("target/joint/position", "rad", *names)}
    manifest = single_stage("log", inputs=inputs, outputs=outputs, artifacts={"onnx": Artifact(path="a.onnx")})
    model = support.model("policy (float[1,2] q) => (float[1,2] t) { t = Log(q) }")
    one = start(write(tmp_path / "log", manifest, files={"a.onnx": model}).path, desk := robot())
    desk.values["q"] = np.array([-1.0, 1.0])
    tripped(one, NonFiniteError, "output 't'[0, 0] (hip) is nan")


def test_a_robot_that_cannot_be_halted_can_only_hold(tmp_path: Path) -> None:
    path = package(tmp_path / "p", {"outputs": {"upper": 1.0}})
    one = start(path, desk := robot(Desk))
    desk.values["q"] = np.array([5.0, 5.0])
    tripped(one, RobotError, "outside of -inf to 1")
    for how in ("damp", "stop"):
        message = refusal(path, robot(Desk), guard=Guard(on_trip=how))
        assert f"guard: on_trip={how!r} needs a robot with a method halt(how, cause)" in message
    one = start(path, desk := robot(), guard=Guard(on_trip="damp"))
    desk.values["q"] = np.array([5.0, 5.0])
    with pytest.raises(RobotError):
        one.step()
    assert desk.log[-1][0] == "damp"


def test_a_jump_of_an_output_that_is_none_is_refused(tmp_path: Path) -> None:
    message = refusal(package(tmp_path / "p"), robot(), guard=Guard(jumps={"tt": 1.0}))
    assert "guard: jumps: the policy has no output 'tt'" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_trip": "halt"}, "on_trip: expected 'hold', 'damp' or 'stop', got 'halt'"),
        ({"deadline_s": 0.0}, "deadline_s: expected a number above 0, got 0.0"),
        ({"max_age_s": -1.0}, "max_age_s: expected a number above 0, got -1.0"),
        ({"jumps": {"t": float("nan")}}, "jumps['t']: expected a number above 0, got nan"),
    ],
)
def test_a_guard_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BindError) as caught:
        Guard(**arguments)
    assert message in str(caught.value)
