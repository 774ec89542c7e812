"""Go1 on flat ground: a floating base, an IMU, a command, encoders with a bias, twelve joints in actuator groups."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
import support
from ashore.errors import BindError, InputError
from ashore.integrations.mjlab import open_deployment
from ashore.package import read
from ashore.verify import replay
from integrations.mjlab_tasks import GO1, Exported, check_package, export, exported, opened, plain, run_alone

LEGS = tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
XYZ = ("x", "y", "z")


def with_biased_encoders(cfg: Any, agent: Any) -> None:
    """Nothing random, but the event that gives every encoder a bias at the start."""
    event = cfg.events["encoder_bias"]
    plain()(cfg, agent)
    cfg.events["encoder_bias"] = event
    cfg.episode_length_s = 0.4


@pytest.fixture(scope="module")
def go1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    made = exported(GO1, tmp_path_factory.mktemp("go1"), plainly=with_biased_encoders)
    yield made
    made.close()


@pytest.fixture(scope="module")
def manifest(go1: Exported) -> ashore.Manifest:
    return go1.package.manifest


@pytest.fixture(scope="module")
def bias(go1: Exported) -> torch.Tensor:
    """Of the encoders in the environment."""
    return go1.env.scene["robot"].data.encoder_bias.clone()


# --- what is in the package ------------------------------------------------------------------------------------------


def test_inputs_have_kinds_units_frames_names_and_connections(manifest: ashore.Manifest) -> None:
    expected = {
        "imu_lin_vel": ("state/body/linear_velocity", "m/s", None, XYZ, "estimator", "state:robot/imu_lin_vel"),
        "imu_ang_vel": ("state/body/angular_velocity", "rad/s", None, XYZ, "sensor", "state:robot/imu_ang_vel"),
        "projected_gravity_b": (
            *("state/body/gravity", "1", "base", XYZ, "estimator"),
            "state:robot:projected_gravity_b",
        ),
        "joint_pos_biased": (
            *("state/joint/position", ("rad",) * 12, None, LEGS, "sensor"),
            "state:robot:joint_pos_biased",
        ),
        "joint_vel": ("state/joint/velocity", ("rad/s",) * 12, None, LEGS, "sensor", "state:robot:joint_vel"),
        "twist": (
            *("command/body/velocity", ("m/s", "m/s", "rad/s"), "base", ("vx", "vy", "wz"), "command"),
            "command:twist:command",
        ),
    }
    found = {
        name: (port.kind, port.unit, port.frame, (port.element_names or ())[-1], port.source, port.connection)
        for name, port in manifest.inputs.items()
    }
    assert found == expected


def test_the_output_is_a_target_for_every_joint(manifest: ashore.Manifest) -> None:
    target = manifest.outputs["joint_pos_target"]
    assert (target.kind, target.unit) == ("target/joint/position", ("rad",) * 12)
    assert target.element_names == (None, LEGS)
    assert target.connection == "write:robot:set_joint_position_target"


def test_gains_and_limits_are_those_of_the_model(manifest: ashore.Manifest, go1: Exported) -> None:
    """The order of actuators is not that of joints, and calves have gains of their own."""
    model, joints = go1.env.sim.mj_model, {joint.name: joint for joint in manifest.joints}
    assert tuple(joints) == LEGS
    driven = [str(model.joint(int(model.actuator_trnid[one, 0])).name) for one in range(model.nu)]
    assert driven != [f"robot/{name}" for name in LEGS]
    for actuator, name in enumerate(driven):
        joint = joints[name.removeprefix("robot/")]
        assert joint.kp == pytest.approx(model.actuator_gainprm[actuator, 0])
        assert joint.kd == pytest.approx(-model.actuator_biasprm[actuator, 2])
        assert joint.effort_limit == pytest.approx(model.actuator_forcerange[actuator, 1])
        assert joint.actuator == "implicit"
        assert joint.position_limits is not None
        limits = (joint.position_limits.lower, joint.position_limits.upper)
        assert limits == pytest.approx(model.joint(name).range, abs=1e-6)
    assert joints["FR_calf_joint"].kp == pytest.approx(35.764, abs=1e-3)
    assert joints["FR_hip_joint"].kp == pytest.approx(15.895, abs=1e-3)


def test_the_default_pose_is_that_of_the_robot(manifest: ashore.Manifest) -> None:
    positions = {joint.name: joint.default_position for joint in manifest.joints}
    for name in LEGS:
        hip = 0.1 if name.startswith(("FR", "RR")) else -0.1
        expected = hip if "hip" in name else 0.9 if "thigh" in name else -1.8
        assert positions[name] == pytest.approx(expected)


def test_rates_and_states(manifest: ashore.Manifest, go1: Exported) -> None:
    assert manifest.timing is not None
    assert manifest.timing.policy_dt_s == pytest.approx(0.02) == go1.env.step_dt
    assert (manifest.timing.physics_dt_s, manifest.timing.decimation) == (pytest.approx(0.005), 4)
    assert manifest.states["action"].role == "last_action"  # raw, as the term reads it
    assert manifest.provenance.task == GO1


def test_the_saved_files_verify(go1: Exported) -> None:
    report = replay(read(go1.package.path))
    assert report.passed
    assert report.resets >= 2
    assert report.worst("free_running") < 1e-5


def test_an_export_takes_little_time(go1: Exported) -> None:
    """15 s at most on two cores, which are not more than 30 s of work."""
    assert go1.seconds < 30.0


# --- encoders --------------------------------------------------------------------------------------------------------


def test_encoders_are_read_and_written_as_they_are(go1: Exported, bias: torch.Tensor) -> None:
    """The environment adds the bias to what it reads, and takes it off what it writes; a robot needs neither."""
    assert float(bias.abs().min()) > 0.0
    alone = run_alone(go1.env, go1.actor, go1.package.manifest, 45, seed=21)
    assert sum(one.begins[0] for one in alone) >= 3
    robot = go1.env.scene["robot"].data
    torch.testing.assert_close(robot.joint_pos_biased, robot.joint_pos + bias)
    check_package(go1.package, alone, offset=bias.numpy())


def test_the_bias_of_the_simulation_is_said_and_not_in_the_package(manifest: ashore.Manifest, go1: Exported) -> None:
    assert float(go1.stock.scene["robot"].data.encoder_bias.abs().min()) > 0.0  # put back after the export
    (finding,) = [one for one in manifest.findings if one.name == "encoder_bias"]
    assert finding.severity == "info"
    frozen = [one.values for one in manifest.constants if "encoder_bias" in one.name]
    assert frozen == [(0.0,) * 12]


def test_with_biased_encoders_the_deployment_goes_where_the_environment_goes(go1: Exported, bias: torch.Tensor) -> None:
    found = go1.compare(steps=100, bias=bias)
    assert found.ok, found.first
    assert (found.steps, found.resets) == (100, 5)
    assert found.worst["sim.qpos"] <= 1e-4
    assert found.worst["joint_pos_biased"] <= 1e-4
    assert found.worst["twist"] == 0.0
    moved = found.trajectories["environment/sim.qpos"][:, 0, 7:]
    assert np.ptp(moved, axis=0).min() > 0.01  # every joint


def test_a_deployment_without_the_bias_is_seen_to_differ(go1: Exported) -> None:
    found = go1.compare(steps=2)
    assert found.first is not None
    assert (found.first.step, found.first.port) == (0, "joint_pos_biased")


def test_the_exported_environment_goes_on_as_if_nothing_had_been(go1: Exported) -> None:
    """The export was in the middle of these steps, with friction, masses and encoders drawn at random."""
    assert np.ptp(go1.rows[:, 7:19], axis=0).min() > 0.0
    np.testing.assert_array_equal(go1.rows_again, go1.rows)


# --- commands --------------------------------------------------------------------------------------------------------


def test_commands_are_given_by_the_caller_or_by_the_task(go1: Exported) -> None:
    with open_deployment(GO1, go1.package) as deployment:
        assert deployment.external_inputs == {"twist"}
        deployment.reset()
        with pytest.raises(InputError, match=r"external_inputs: expected \['twist'\] too"):
            deployment.step()
        deployment.step({"twist": np.array([[0.5, 0.0, 0.1]], np.float32)})
        assert deployment.inputs["twist"].tolist() == [[0.5, 0.0, pytest.approx(0.1)]]
    with open_deployment(GO1, go1.package, commands=True) as deployment:
        assert deployment.external_inputs == frozenset()
        torch.manual_seed(1)
        deployment.reset()
        deployment.step()
        assert np.abs(deployment.inputs["twist"]).max() > 0.0


def hold_still(env: Any) -> torch.Tensor:
    """An observation that nobody described."""
    return env.scene["robot"].data.actuator_force


def constant_command_and_secrets(cfg: Any, _: Any) -> None:
    """One command for ever; and observations of what only a simulation knows, and of what nobody described."""
    from mjlab.envs import mdp
    from mjlab.managers.observation_manager import ObservationTermCfg

    command = cfg.commands["twist"]
    command.rel_standing_envs = command.rel_heading_envs = command.rel_forward_envs = 0.0
    command.heading_command, command.resampling_time_range = False, (1e9, 1e9)
    ranges = command.ranges
    ranges.lin_vel_x, ranges.lin_vel_y, ranges.ang_vel_z, ranges.heading = (0.5, 0.5), (0.0, 0.0), (0.0, 0.0), None
    terms = cfg.observations["actor"].terms
    terms["momentum"] = ObservationTermCfg(func=mdp.builtin_sensor, params={"sensor_name": "robot/root_angmom"})
    terms["force"] = ObservationTermCfg(func=hold_still)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> ashore.Manifest:
    env, actor = opened(GO1, change=constant_command_and_secrets)
    package = export(env, actor, tmp_path_factory.mktemp("changed") / "p")
    command = env.command_manager.get_term("twist").command
    assert command.tolist() == [[0.5, 0.0, 0.0]]
    env.close()
    return package.manifest


def test_a_command_that_never_changed_is_an_input_all_the_same(changed: ashore.Manifest) -> None:
    assert changed.inputs["twist"].source == "command"
    held = [one for one in changed.constants if one.values is not None and 0.5 in one.values]
    assert not held


def test_what_only_a_simulation_knows_is_warned_about(changed: ashore.Manifest) -> None:
    assert changed.inputs["root_angmom"].source == "privileged"
    (finding,) = [one for one in changed.findings if one.name == "privileged_input"]
    assert finding.severity == "warning"
    assert finding.message == "state:robot/root_angmom is only known in a simulation, and the actor reads it"


def test_what_nobody_described_is_captured_by_its_path_and_listed(changed: ashore.Manifest) -> None:
    port = changed.inputs["actuator_force"]
    assert (port.kind, port.unit, port.connection) == (None, None, "state:robot:actuator_force")
    (finding,) = [one for one in changed.findings if one.name == "no_semantics"]
    assert finding.message == (
        "state:robot:actuator_force is read, and nothing says what it means; it is the input 'actuator_force'"
    )


def test_the_critic_is_no_part_of_it(manifest: ashore.Manifest) -> None:
    assert [name for name in manifest.outputs if name.startswith("obs.")] == ["obs.actor"]
    read_by_the_critic = ("foot_height_scan", "feet_ground_contact")
    assert not [
        port for port in manifest.inputs.values() if any(one in str(port.connection) for one in read_by_the_critic)
    ]


def test_a_scene_with_other_joints_is_refused_with_both_sides(go1: Exported, tmp_path: Path) -> None:
    other = shutil.copytree(go1.package.path, tmp_path / "p")
    support.edit_manifest(other, lambda document: rename(document, "FR_hip_joint", "FR_hip"))
    with pytest.raises(BindError, match=r"\['FR_hip'\] are not in the scene; expected .*, it has .*FR_hip_joint"):
        open_deployment(GO1, other)


def rename(document: dict[str, Any], before: str, after: str) -> None:
    """Call something by another name everywhere in a document."""
    changed = json.loads(json.dumps(document).replace(f'"{before}"', f'"{after}"'))
    document.clear()
    document.update(changed)
