"""Inputs far outside of what the export saw are named where a package is played, and in a simulated scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rigs

import ashore
import support
from ashore.deploy import DeploymentEnv, MujocoRobot, play
from ashore.package import Package, Recording, write


def recorded(package: Package, scale: float) -> Package:
    """The same package with a rollout of inputs of a certain size."""
    policy, recording = ashore.load(package), Recording()
    for row in range(6):
        values = support.inputs_like((1, 2), len(policy.step_inputs), seed=row)
        inputs = {
            name: np.float32(scale) * np.tanh(value) for name, value in zip(policy.step_inputs, values, strict=True)
        }
        recording.step(inputs, policy.step(inputs))
    files = {path: package.read(path) for path in package.manifest.files}
    return write(package.path, package.manifest, files=files, golden=recording.golden())


def test_a_run_in_mujoco_says_what_was_far_outside(tmp_path: Path) -> None:
    for scale, named in ((1.0, False), (1e-4, True)):
        robot = MujocoRobot(rigs.save(tmp_path, rigs.CARTPOLE), keyframe="tilted")
        package = recorded(rigs.balancer(tmp_path / "balancer"), scale)
        report = play(ashore.load(package).bind(robot), seconds=0.2)
        assert report.survived
        assert any("input 'q': element 'hinge' is 0.15" in alarm for alarm in report.alarms) is named
    assert len(report.alarms) == len(set(report.alarms)) == 2  # of each input once


class Scene(DeploymentEnv):
    """Two joints that stand where they are told."""

    def __init__(self, package: Package) -> None:
        super().__init__(package)
        self.connect()

    def element(self, name: str) -> Any:
        return self

    def names(self) -> Sequence[str]:
        return ["robot"]

    def array(self, value: Any) -> Any:
        return value

    def drive(self, target: Any) -> None: ...

    def writer(self, entity: Any, method: str, names: Sequence[str]) -> Callable[[Any], object]:
        return getattr(entity, method)

    def physics_dt(self) -> float:
        return 0.005

    def advance(self) -> None: ...
    def sense(self) -> None: ...
    def restore(self) -> None: ...
    def shut(self) -> None: ...


def test_a_deployment_environment_names_it_once(tmp_path: Path) -> None:
    package = rigs.balancer(tmp_path / "p")

    def connect(document: dict[str, Any]) -> None:
        document["outputs"]["push"]["connection"] = "write:robot:drive"

    support.edit_manifest(package.path, connect)
    scene = Scene(recorded(ashore.package.read(package.path), 1.0))
    given = {"q": support.f32(57.3, 0.1), "v": support.f32(0.1, 0.1)}
    with scene:
        scene.reset()
        scene.step({**given, "q": support.f32(0.2, 0.1)})
        assert scene.alarms == ()
        scene.step(given)
        scene.step(given)
        (alarm,) = scene.alarms
    assert "input 'q': element 'hinge' is 57.3" in alarm.message
