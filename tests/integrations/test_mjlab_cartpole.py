"""Cartpole: the smallest task, so also where everything is looked at that holds for all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from ashore.errors import BindError, ExportError, InputError
from ashore.integrations.comparing import compare_sim
from ashore.integrations.exporting import export_managed
from ashore.integrations.mjlab import FRAMEWORK, open_deployment
from ashore.package import read
from ashore.verify import replay
from integrations.mjlab_tasks import (
    CARTPOLE,
    SHORT_EPISODE_STEPS,
    Exported,
    check_exact,
    export,
    exported,
    moved,
    opened,
    plain,
    run_alone,
)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    made = exported(CARTPOLE, tmp_path_factory.mktemp("cartpole"), plainly=plain(episode_steps=SHORT_EPISODE_STEPS))
    yield made
    made.close()


@pytest.fixture(scope="module")
def manifest(cartpole: Exported) -> ashore.Manifest:
    return cartpole.package.manifest


# --- what is in the package ------------------------------------------------------------------------------------------


def test_inputs_are_what_the_terms_read(manifest: ashore.Manifest) -> None:
    position, velocity = manifest.inputs["joint_pos"], manifest.inputs["joint_vel"]
    assert list(manifest.inputs) == ["joint_pos", "joint_vel"]
    assert (position.kind, velocity.kind) == ("state/joint/position", "state/joint/velocity")
    assert (position.unit, velocity.unit) == (("m", "rad"), ("m/s", "rad/s"))
    assert position.element_names == velocity.element_names == (None, ("slider", "hinge_1"))
    assert (position.source, velocity.source) == ("sensor", "sensor")
    assert position.connection == "state:cartpole:joint_pos"
    assert velocity.connection == "state:cartpole:joint_vel"
    assert position.shape == velocity.shape == (1, 2)


def test_the_output_is_the_force_at_the_joint(manifest: ashore.Manifest) -> None:
    """mjlab writes the control of a motor, whose gear makes ten times as much of it, in newtons."""
    target = manifest.outputs["joint_effort_target"]
    assert (target.kind, target.unit) == ("target/joint/effort", ("N",))
    assert target.element_names == (None, ("slider",))
    assert target.connection == "write:cartpole:set_joint_effort_target"


def test_observations_and_actions_are_outputs_too(manifest: ashore.Manifest) -> None:
    assert manifest.outputs["obs.actor"].shape == (1, 5)
    assert manifest.outputs["actions"].shape == (1, 1)
    assert "obs.critic" not in manifest.outputs  # only the groups that the actor reads


def test_joints_are_those_of_the_model(manifest: ashore.Manifest, cartpole: Exported) -> None:
    slider, hinge = manifest.joints
    model = cartpole.env.sim.mj_model
    assert (slider.name, slider.type, slider.default_position) == ("slider", "prismatic", 0.0)
    assert (hinge.name, hinge.type, hinge.default_position) == ("hinge_1", "revolute", 0.0)
    assert slider.position_limits is not None
    assert (slider.position_limits.lower, slider.position_limits.upper) == pytest.approx((-1.8, 1.8))
    assert slider.effort_limit == model.actuator_gear[0, 0] * model.actuator_ctrlrange[0, 1] == 10.0
    assert (slider.kp, slider.kd) == (None, None)
    assert (hinge.position_limits, hinge.effort_limit, hinge.actuator) == (None, None, None)


def test_rates_are_those_of_the_environment(manifest: ashore.Manifest, cartpole: Exported) -> None:
    timing = manifest.timing
    assert timing is not None
    assert timing.policy_dt_s == pytest.approx(cartpole.env.step_dt)
    assert timing.physics_dt_s == pytest.approx(0.01)
    assert timing.decimation == 5


def test_it_says_where_it_comes_from(manifest: ashore.Manifest, cartpole: Exported) -> None:
    origin = manifest.provenance
    assert origin.task == CARTPOLE
    assert origin.checkpoint is not None
    assert origin.checkpoint.name == "model_0.pt"
    assert origin.checkpoint.sha256 == hashlib.sha256(cartpole.checkpoint.read_bytes()).hexdigest()
    assert {"mjlab", "rsl-rl-lib", "warp-lang", "mujoco", "torch"} <= origin.tools.keys()
    about = manifest.metadata["environment"]
    assert about["framework"] == "mjlab"
    assert about["observations"] == {"actor": ["cart_pos", "pole_angle", "cart_vel", "pole_vel"]}
    assert about["actions"] == ["effort"]


def test_nothing_stands_against_it(manifest: ashore.Manifest) -> None:
    assert {one.name for one in manifest.findings} <= {"undeclared_state"}
    assert manifest.verification is not None
    assert manifest.verification.status == "passed"
    assert manifest.verification.resets >= 2


# --- what it does ----------------------------------------------------------------------------------------------------


def test_the_saved_files_verify(cartpole: Exported) -> None:
    report = replay(read(cartpole.package.path))
    assert report.passed
    assert report.steps >= 10
    assert report.substeps == 5 * report.steps
    assert report.worst("free_running") < 1e-5


def test_it_is_exact_on_other_states_over_several_episodes(cartpole: Exported) -> None:
    check_exact(cartpole, scale=10.0)


def test_in_a_deployment_environment_it_goes_where_the_environment_goes(cartpole: Exported) -> None:
    found = cartpole.compare(steps=100)
    assert found.ok, found.first
    assert (found.steps, found.resets) == (100, 100 // SHORT_EPISODE_STEPS)
    assert found.worst["sim.qpos"] <= 1e-5
    assert found.worst.keys() == {
        *("joint_pos", "joint_vel", "obs.actor", "actions", "joint_effort_target", "sim.qpos", "sim.qvel")
    }
    assert max(found.worst.values()) <= 1e-5
    assert np.ptp(found.trajectories["environment/sim.qpos"], axis=0).max() > 0.01  # it has moved
    assert np.ptp(found.trajectories["package/joint_effort_target"]) > 0.0


def test_a_comparison_finds_other_weights(cartpole: Exported) -> None:
    _, other = opened(CARTPOLE, seed=99)
    with open_deployment(CARTPOLE, cartpole.package) as deployment:
        found = compare_sim(cartpole.env, other, deployment, FRAMEWORK, steps=5)
    assert not found.ok
    assert found.first is not None
    assert (found.first.step, found.first.port) == (0, "actions")
    assert found.first.environment == pytest.approx(float(found.trajectories["environment/actions"][0, 0, 0]))


def test_a_comparison_names_the_observation_that_differs_before_the_action_does(cartpole: Exported) -> None:
    def lean(cfg: Any, _: Any) -> None:
        cfg.observations["actor"].terms["pole_angle"].scale = 1.5

    env, _ = opened(CARTPOLE, change=plain(lean))
    with open_deployment(CARTPOLE, cartpole.package) as deployment:
        found = compare_sim(env, cartpole.actor, deployment, FRAMEWORK, steps=2)
    env.close()
    assert found.first is not None
    assert (found.first.step, found.first.port) == (0, "obs.actor")


def test_a_comparison_names_the_target_that_differs(cartpole: Exported) -> None:
    with open_deployment(CARTPOLE, cartpole.package) as deployment:
        write = deployment._writes["joint_effort_target"]
        deployment._writes["joint_effort_target"] = lambda target: write(1.5 * target)
        found = compare_sim(cartpole.env, cartpole.actor, deployment, FRAMEWORK, steps=2)
    assert found.first is not None
    assert (found.first.step, found.first.port) == (0, "joint_effort_target")
    assert found.first.package == pytest.approx(1.5 * found.first.environment)


# --- the environment is left as it was -------------------------------------------------------------------------------


def make_noisy(cfg: Any, _: Any) -> None:
    """Noise, histories and delays, which all have something to lose."""
    from mjlab.utils.noise import UniformNoiseCfg

    actor = cfg.observations["actor"]
    actor.enable_corruption, actor.history_length = True, 3
    for term in actor.terms.values():
        term.noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    actor.terms["cart_vel"].delay_min_lag = actor.terms["cart_vel"].delay_max_lag = 2


@pytest.fixture(scope="module")
def noisy() -> Iterator[tuple[Any, Any]]:
    env, actor = opened(CARTPOLE, change=make_noisy)
    yield env, actor
    env.close()


def test_an_export_in_the_middle_of_an_episode_changes_nothing_that_comes(
    noisy: tuple[Any, Any], tmp_path: Path
) -> None:
    env, actor = noisy
    runs = []
    for exporting in (False, False, True):
        env.reset(seed=5)
        rows = moved(env, actor, 7)
        if exporting:
            before = dict(vars(env))
            export(env, actor, tmp_path / "p")
            assert {name: vars(env)[name] is before[name] for name in before} == dict.fromkeys(before, True)
        runs.append(np.concatenate([rows, moved(env, actor, 13)]))
    assert np.ptp(runs[0], axis=0).min() > 0.0  # everything moves, the noise too
    np.testing.assert_array_equal(runs[0], runs[1])  # the same seed does the same
    np.testing.assert_array_equal(runs[0], runs[2])


def test_after_an_export_that_fails_noise_buffers_and_managers_are_put_back_too(
    noisy: tuple[Any, Any], tmp_path: Path
) -> None:
    from mjlab.utils.buffers import CircularBuffer, DelayBuffer
    from mjlab.utils.noise import UniformNoiseCfg

    env, _ = noisy
    manager, reward = env.observation_manager, env.reward_manager
    with pytest.raises(ExportError, match="randomness"):
        export_managed(env, draw, tmp_path / "p", FRAMEWORK, groups=["actor"], summary=False)
    assert env.reward_manager is reward
    assert {type(one.noise) for one in manager._group_obs_term_cfgs["actor"]} == {UniformNoiseCfg}
    assert {type(one) for one in manager._group_obs_term_history_buffer["actor"].values()} == {CircularBuffer}
    assert {type(one) for one in manager._group_obs_term_delay_buffer["actor"].values()} == {DelayBuffer}


def draw(obs: Any) -> torch.Tensor:
    """Decides by chance."""
    return torch.rand(1, 1) * obs["actor"].sum(dim=-1, keepdim=True)


# --- options ---------------------------------------------------------------------------------------------------------


def test_actions_are_clipped_as_the_wrapper_clips_them(tmp_path: Path) -> None:
    """RSL-RL's wrapper clips what the actor says before the environment gets it."""

    def change(_: Any, agent: Any) -> None:
        agent.clip_actions = 0.05

    env, actor = opened(CARTPOLE, change=change)
    package = export(env, actor, tmp_path / "p")
    alone = run_alone(env, actor, package.manifest, 20)
    assert max(np.abs(one.actions).max() for one in alone) == pytest.approx(0.05)  # the limit is reached
    policy = ashore.load(package)
    for one in alone:
        got = policy.step(one.inputs)
        np.testing.assert_allclose(got["actions"], one.actions, atol=1e-6)
        np.testing.assert_allclose(policy.substep({})["joint_effort_target"], 10.0 * one.actions, atol=1e-5)
    far = {"joint_pos": np.array([[50.0, 0.5]], np.float32), "joint_vel": np.full((1, 2), 50.0, np.float32)}
    assert abs(float(policy.step(far)["actions"][0, 0])) == pytest.approx(0.05)
    with torch.no_grad():
        obs = {"actor": torch.tensor([[50.0, np.cos(0.5), np.sin(0.5), 50.0, 50.0]], dtype=torch.float32)}
        assert abs(float(actor.policy(obs)[0, 0])) > 0.05  # and would be passed without it
    env.close()


def test_groups_that_are_not_there_are_refused(cartpole: Exported, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"the actor reads the observation group 'student', .* \['actor', 'critic'\]"):
        export_managed(cartpole.env, cartpole.actor, tmp_path / "p", FRAMEWORK, groups=["student"])


def test_an_environment_whose_actions_write_no_target_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    env, actor = opened(CARTPOLE)
    monkeypatch.setattr(type(FRAMEWORK), "writes", {})
    with pytest.raises(ExportError, match="no action writes a target"):
        export(env, actor, tmp_path / "p")
    env.close()


# --- the deployment environment --------------------------------------------------------------------------------------


def test_a_deployment_environment_has_no_managers(cartpole: Exported) -> None:
    with open_deployment(CARTPOLE, cartpole.package) as deployment:
        assert not [name for name in vars(deployment) if name.endswith("manager")]
        assert deployment.external_inputs == frozenset()
        deployment.reset()
        outputs = deployment.step()
        assert outputs.keys() == {"obs.actor", "actions", "joint_effort_target"}
        assert deployment.inputs.keys() == {"joint_pos", "joint_vel"}


def test_a_reset_of_the_deployment_is_an_episode_from_the_start(cartpole: Exported) -> None:
    with open_deployment(CARTPOLE, cartpole.package) as deployment:
        runs = []
        for _ in range(2):
            deployment.reset()
            runs.append([float(deployment.step()["actions"][0, 0]) for _ in range(5)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 5


def test_inputs_may_be_given_instead_of_being_read(cartpole: Exported) -> None:
    with open_deployment(CARTPOLE, cartpole.package) as deployment:
        deployment.reset()
        deployment.step({"joint_pos": np.full((1, 2), 0.25, np.float32)})
        assert deployment.inputs["joint_pos"].tolist() == [[0.25, 0.25]]
        with pytest.raises(InputError, match="external_inputs: the policy has no input 'joint_position'"):
            deployment.step({"joint_position": np.zeros((1, 2), np.float32)})


def test_several_environments_need_an_open_batch(cartpole: Exported) -> None:
    with pytest.raises(BindError, match='the package is for 1 environment, and num_envs is 2; export it with batch="d'):
        open_deployment(CARTPOLE, cartpole.package, num_envs=2)


def test_a_closed_deployment_environment_says_so(cartpole: Exported) -> None:
    deployment = open_deployment(CARTPOLE, cartpole.package)
    deployment.close()
    deployment.close()
    with pytest.raises(BindError, match="this deployment environment is closed"):
        deployment.step()


def test_another_scene_is_refused_with_both_sides(cartpole: Exported) -> None:
    with pytest.raises(BindError) as error:
        open_deployment("Mjlab-Lift-Cube-Yam", cartpole.package)
    message = str(error.value)
    assert "input 'joint_pos': there is no 'cartpole' in the scene" in message
    assert "output 'joint_effort_target': there is no 'cartpole' in the scene" in message
    assert "time step: the package was trained with 0.01 s, the scene has" in message
    assert "the scene has: " in message
    assert "robot" in message.split("the scene has: ")[-1]
