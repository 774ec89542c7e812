"""A task with a camera: an image, two groups of observations, a convolutional actor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import ashore
from ashore.package import read
from ashore.verify import replay
from integrations.mjlab_tasks import Exported, check_exact, exported, plain

TASK = "Mjlab-Lift-Cube-Yam-Depth"
CAMERA = "state:camera_d405:depth"


@pytest.fixture(scope="module")
def yam(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    made = exported(TASK, tmp_path_factory.mktemp("yam"), plainly=plain(episode_steps=6))
    yield made
    made.close()


@pytest.fixture(scope="module")
def manifest(yam: Exported) -> ashore.Manifest:
    return yam.package.manifest


def test_the_image_is_an_input_as_the_camera_gives_it(manifest: ashore.Manifest) -> None:
    (image,) = [port for port in manifest.inputs.values() if port.connection == CAMERA]
    assert (image.kind, image.unit, image.source) == ("sensor/image/depth", "m", "sensor")
    assert image.shape == (1, 32, 32, 1)
    assert not image.finite  # nothing may be in sight
    assert image.metadata["camera"]["geom_groups"] == [0, 3]


def test_both_groups_of_the_actor_are_there(manifest: ashore.Manifest, yam: Exported) -> None:
    assert sorted(yam.actor.groups) == ["actor", "camera"]
    assert manifest.outputs["obs.camera"].shape == (1, 1, 32, 32)
    assert set(manifest.metadata["environment"]["observations"]) == {"actor", "camera"}


def test_the_robot_is_read_and_driven_and_the_cube_is_not(manifest: ashore.Manifest) -> None:
    assert {str(port.connection).split(":")[1].split("/")[0] for port in manifest.inputs.values()} == {
        "robot",
        "camera_d405",
        "lift_height",
    }
    goal = next(port for port in manifest.inputs.values() if port.source == "command")
    assert (goal.kind, goal.unit) == ("command/body/position", "m")
    assert manifest.outputs["joint_pos_target"].connection == "write:robot:set_joint_position_target"


def test_the_saved_files_verify(yam: Exported) -> None:
    report = replay(read(yam.package.path))
    assert report.passed
    assert report.worst("free_running") < 1e-5


def test_a_convolutional_actor_is_exact_over_several_episodes(yam: Exported) -> None:
    alone = check_exact(yam, decisions=20)
    images = np.stack([one.obs["obs.camera"] for one in alone])
    assert np.ptp(images, axis=0).max() > 0.0  # the camera moves with the arm


def test_in_a_deployment_environment_it_sees_and_goes_where_the_environment_does(yam: Exported) -> None:
    found = yam.compare(steps=100)
    assert found.ok, found.first
    assert found.resets >= 10
    assert found.worst["sim.qpos"] <= 1e-4
    (image,) = [name for name in found.worst if name.endswith("depth")]
    assert found.worst[image] <= 1e-4


def test_the_exported_environment_goes_on_as_if_nothing_had_been(yam: Exported) -> None:
    np.testing.assert_array_equal(yam.rows_again, yam.rows)
