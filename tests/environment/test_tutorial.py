"""The neighbour's tutorial: its three environments, its own evaluation, and every substep, which that leaves out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import ashore
from ashore.environment import SessionWrapper, add_actor_memory
from environment import tutorial
from environment.worlds import QUIET, Arrays, Decision, check_one_file, check_package

DECISIONS = 35  # the environments reset themselves every ten


class Run(NamedTuple):
    """What the tutorial's own code said, the files that it wrote, and the environment that it wrote them of."""

    verdict: bool
    folder: Path
    env: Any
    actor: Any


def plain() -> tuple[tutorial.ExportableEnv, Any]:
    env = tutorial.Environment(data_source=tutorial.DataSource())
    return tutorial.ExportableEnv(env=env), tutorial.Actor(num_obs=env.num_obs, num_act=env.num_act).eval()


def with_module() -> tuple[tutorial.ExportableEnv, Any]:
    env = tutorial.EnvironmentWithTorchModule(data_source=tutorial.DataSource())
    exp_env = tutorial.ExportableEnv(env=env)
    exp_env.context_manager().add_module(env.module)
    return exp_env, tutorial.Actor(num_obs=env.num_obs, num_act=env.num_act).eval()


def with_rnn() -> tuple[tutorial.ExportableEnv, Any]:
    env = tutorial.EnvironmentWithTorchModule(data_source=tutorial.DataSource())
    exp_env = tutorial.ExportableEnv(env=env)
    exp_env.context_manager().add_module(env.module)
    actor = tutorial.RNNActor(num_obs=env.num_obs, num_act=env.num_act).eval()
    actor(exp_env.empty_actor_observations())
    add_actor_memory(context_manager=exp_env.context_manager(), get_hidden_states_func=actor.get_state)
    return exp_env, actor


@pytest.fixture(scope="module", params=[plain, with_module, with_rnn], ids=["plain", "module", "rnn"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The tutorial's `export_and_evaluate`, as it is, with a copy of the files that it throws away."""
    torch.manual_seed(3)
    exp_env, actor = request.param()
    folder = tmp_path_factory.mktemp("tutorial") / "files"
    with pytest.MonkeyPatch.context() as patch:
        export = tutorial.export_environment_as_onnx

        def keep_the_files(path: Path, **options: Any) -> None:
            export(path=path, **options, **QUIET)
            shutil.copytree(path, folder)

        patch.setattr(tutorial, "export_environment_as_onnx", keep_the_files)
        verdict = tutorial.export_and_evaluate(exp_env, actor, "policy.onnx", num_eval_steps=20)
    return Run(verdict, folder, exp_env.env, actor)


@torch.no_grad()
def run_alone(env: Any, actor: Any, decisions: int) -> list[Decision]:
    """What the environment does by itself: its own step, with a note of `_output` after every apply_actions."""
    found: list[Decision] = []
    apply = env.apply_actions

    def inputs() -> Arrays:
        source = env.data_source
        tensors = {"foo": source.foo, "bar_baz_group.bar": source.bar, "bar_baz_group.baz": source.baz}
        return {name: tensor.numpy().copy() for name, tensor in tensors.items()}

    def applied() -> None:
        before = inputs()
        apply()
        found[-1].ticks.append((before, {"out": env._output.numpy().copy()}))

    env.apply_actions = applied
    done = True
    for _ in range(decisions):
        obs = env.compute_obs()
        if done:
            actor.reset(torch.tensor([True]))
        found.append(Decision([done], inputs(), {"obs": obs.numpy().copy()}))
        actions = actor(obs)
        found[-1].actions = actions.numpy().copy()
        _, done = env.step(actions)
    return found


def test_the_tutorial_runs_and_its_own_evaluation_passes(run: Run) -> None:
    assert run.verdict is True


def test_every_substep_of_the_tutorial_is_right(run: Run) -> None:
    alone = run_alone(run.env, run.actor, DECISIONS)
    assert sum(one.resets[0] for one in alone) >= 3
    assert all(len(one.ticks) == 4 for one in alone)
    check_package(run.folder / "policy", alone)
    check_one_file(run.folder, alone)


def test_the_files_have_the_names_that_the_tutorial_registered(run: Run) -> None:
    manifest = ashore.load(run.folder / "policy").manifest
    assert set(manifest.inputs) == {"foo", "bar_baz_group.bar", "bar_baz_group.baz"}
    assert set(manifest.outputs) == {"obs", "actions", "out"}
    assert manifest.timing is not None
    assert manifest.timing.decimation == 4
    wrapper = SessionWrapper(run.folder, "policy.onnx", optimize=False)
    assert wrapper.decimation == 4
    assert {*manifest.inputs, "ctx.step_count", "memory.actions.in"} <= set(wrapper.input_names)
    assert wrapper.output_names[:3] == ["actions", "obs", "out"]
    assert "memory.actions.out" in wrapper.output_names
    assert wrapper.metadata["env_name"] == "Env"
    assert {one.name for one in (run.folder / "debug").iterdir()} >= {
        "policy_default.onnx",
        "policy_process_actions.onnx",
    }
