from __future__ import annotations

import pytest

from ashore.spec.kinds import JOINT_KINDS, KINDS, kind_problem

NEIGHBOURS = """
state/joint/position state/joint/velocity state/joint/effort state/body/pose state/body/velocity state/body/acceleration
state/body/linear_acceleration state/body/linear_velocity state/body/angular_acceleration state/body/angular_velocity
state/body/rotation state/body/position state/wrench state/vector3d command/joint/position command/joint/velocity
command/joint/torques command/body/rotation command/body/velocity command/body/pose kp kd target/joint/position
target/joint/velocity target/joint/torques target/joint/effort target/body/position target/body/linear_acceleration
target/body/orientation target/body/linear_velocity target/body/angular_acceleration
""".split()


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_every_kind_of_the_neighbours_vocabulary_is_known(kind: str) -> None:
    assert kind_problem(kind, ()) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_each_of_its_units(kind: str) -> None:
    assert kind_problem(kind, KINDS[kind]) is None


def test_joint_kinds_run_over_joints() -> None:
    assert {"kp", "kd", "state/joint/position", "target/joint/effort"} <= JOINT_KINDS
    assert "state/body/position" not in JOINT_KINDS
