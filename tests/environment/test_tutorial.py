"""The neighbour's tutorial: its three environments, its own evaluation, and every substep, which that leaves out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ashore
from ashore.environment import SessionWrapper, add_actor_memory, export_environment_as_onnx
from environment import tutorial
from environment.worlds import QUIET, Decision, check_one_file, check_package

DECISIONS = 35  # the environments reset themselves every ten


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


@pytest.fixture(params=[plain, with_module, with_rnn], ids=["plain", "module", "rnn"])
def case(request: pytest.FixtureRequest) -> tuple[tutorial.ExportableEnv, Any]:
    torch.manual_seed(3)
    return request.param()


@torch.no_grad()
def run_alone(env: Any, actor: Any, decisions: int) -> list[Decision]:
    """What the environment does by itself: its own step, with a note of `_output` after every apply_actions."""
    found: list[Decision] = []
    observe, apply = env.compute_obs, env.apply_actions

    def inputs() -> dict[str, np.ndarray]:
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
        obs = observe()
        if done:
            actor.reset(torch.tensor([True]))
        found.append(Decision([done], inputs(), {"obs": obs.numpy().copy()}))
        actions = actor(obs)
        found[-1].actions = actions.numpy().copy()
        _, done = env.step(actions)
    return found


def test_the_tutorial_runs_and_its_evaluation_passes(case: tuple[tutorial.ExportableEnv, Any]) -> None:
    exp_env, actor = case
    assert tutorial.export_and_evaluate(exp_env, actor, "policy.onnx", num_eval_steps=20)


def test_every_substep_of_the_tutorial_is_right(
    case: tuple[tutorial.ExportableEnv, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exp_env, actor = case
    exporter: Callable[..., Any] = export_environment_as_onnx

    def keep_the_files(env: Any, actor: Any, path: Path, **options: Any) -> Any:
        exporter(env=env, actor=actor, path=tmp_path, **{**options, **QUIET})
        return exporter(env=env, actor=actor, path=path, **{**options, **QUIET})

    monkeypatch.setattr(tutorial, "export_environment_as_onnx", keep_the_files)
    monkeypatch.setattr(tutorial, "evaluate", lambda **_: (True, None))
    tutorial.export_and_evaluate(exp_env, actor, "policy.onnx", num_eval_steps=20)
    env, alone_actor = copy.deepcopy(exp_env.env), copy.deepcopy(actor)
    alone = run_alone(env, alone_actor, DECISIONS)
    assert sum(one.resets[0] for one in alone) >= 3
    assert all(len(one.ticks) == 4 for one in alone)
    check_package(tmp_path / "policy", alone)
    check_one_file(tmp_path, alone)
    assert ashore.load(tmp_path / "policy").manifest.timing.decimation == 4  # type: ignore[union-attr]
    assert SessionWrapper(tmp_path, "policy.onnx", optimize=False).decimation == 4
