"""A stock task, changed to use what no stock task uses: histories, delays, clips, groups, recurrent policies.

Every package runs freely beside its environment, which starts where no export has been, with resets in the middle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mjlab.rl import RslRlBaseRunnerCfg
from mjlab.tasks import registry
from rsl_rl.runners import DistillationRunner

import ashore
from ashore.errors import ExportError
from ashore.integrations.mjlab import open_deployment
from ashore.spec import BATCH
from integrations.mjlab_tasks import (
    CARTPOLE,
    SHORT_EPISODE_STEPS,
    Change,
    Exported,
    check_exact,
    check_package,
    export,
    exported,
    opened,
    plain,
    refused,
    run_alone,
)

GEAR = 10.0
"""What the motor of the cart makes of its control."""


def term_history(cfg: Any, _: Any) -> None:
    terms = cfg.observations["actor"].terms
    terms["cart_pos"].history_length = 3
    terms["pole_angle"].history_length = 2


def group_history(cfg: Any, _: Any) -> None:
    cfg.observations["actor"].terms["cart_vel"].history_length = 7  # the group decides
    cfg.observations["actor"].history_length = 4


def delay(cfg: Any, _: Any) -> None:
    terms = cfg.observations["actor"].terms
    for name, lag in {"cart_pos": 1, "pole_vel": 3}.items():
        terms[name].delay_min_lag = terms[name].delay_max_lag = lag


def clip_and_scale(cfg: Any, _: Any) -> None:
    terms = cfg.observations["actor"].terms
    terms["cart_pos"].clip, terms["cart_pos"].scale = (-0.04, 0.01), 4.0
    terms["pole_angle"].scale = (0.5, -3.0)
    terms["cart_vel"].clip = (-0.004, 0.004)


def more_groups(cfg: Any, agent: Any) -> None:
    extra = deepcopy(cfg.observations["critic"])
    extra.history_length = 2
    cfg.observations["extra"] = extra
    agent.obs_groups = {"actor": ("actor", "extra"), "critic": ("critic",)}


def lstm(_: Any, agent: Any) -> None:
    actor = agent.actor
    actor.class_name, actor.rnn_type, actor.rnn_hidden_dim, actor.hidden_dims = "RNNModel", "lstm", 16, (16,)


def gru(_: Any, agent: Any) -> None:
    actor = agent.actor
    actor.class_name, actor.rnn_type, actor.rnn_hidden_dim, actor.hidden_dims = "RNNModel", "gru", 8, (16,)
    actor.rnn_num_layers = 2


def normalized(_: Any, agent: Any) -> None:
    agent.actor.obs_normalization = True


def together(*changes: Change) -> Change:
    def change(cfg: Any, agent: Any) -> None:
        for one in changes:
            one(cfg, agent)

    return change


def make(change: Change, folder: Path, **options: Any) -> Exported:
    return exported(
        CARTPOLE, folder, change=change, plainly=plain(change, episode_steps=SHORT_EPISODE_STEPS), **options
    )


def roles(one: Exported) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """State -> its role and its shape."""
    return {name: (state.role, state.shape) for name, state in one.package.manifest.states.items()}


@pytest.fixture
def close() -> Any:
    """Closes environments when a test is over."""
    opened: list[Any] = []
    yield opened.append
    for env in opened:
        env.close()


Close = Callable[[Any], None]


def test_the_history_of_a_term_is_a_state(tmp_path: Path, close: Close) -> None:
    one = make(term_history, tmp_path)
    close(one)
    assert one.package.manifest.outputs["obs.actor"].shape == (1, 3 + 2 * 2 + 1 + 1)
    states = {name: state for name, state in roles(one).items() if "history" in name}
    assert states == {
        "actor.cart_pos.history.frames": ("history", (1, 3, 1)),
        "actor.cart_pos.history.count": ("counter", (1,)),
        "actor.pole_angle.history.frames": ("history", (1, 2, 2)),
        "actor.pole_angle.history.count": ("counter", (1,)),
    }
    alone = check_exact(one, scale=GEAR)
    for first, second in itertools.pairwise(alone):
        if not second.begins[0]:  # oldest first: it moves up by one
            np.testing.assert_array_equal(second.obs["obs.actor"][0, :2], first.obs["obs.actor"][0, 1:3])


def test_the_history_of_a_group_is_that_of_all_its_terms(tmp_path: Path, close: Close) -> None:
    one = make(group_history, tmp_path)
    close(one)
    assert one.package.manifest.outputs["obs.actor"].shape == (1, 4 * 5)
    frames = [shape for name, (_, shape) in roles(one).items() if name.endswith("history.frames")]
    assert sorted(frames) == [(1, 4, 1), (1, 4, 1), (1, 4, 1), (1, 4, 2)]
    check_exact(one, scale=GEAR)
    assert one.compare(steps=30).worst["actions"] <= 1e-5


def test_a_constant_delay_is_a_state(tmp_path: Path, close: Close) -> None:
    one = make(delay, tmp_path)
    close(one)
    states = {name: shape for name, (_, shape) in roles(one).items() if name.endswith("delay.frames")}
    assert states == {"actor.cart_pos.delay.frames": (1, 2, 1), "actor.pole_vel.delay.frames": (1, 4, 1)}
    alone = check_exact(one, scale=GEAR)
    for begin in [index for index, decision in enumerate(alone) if decision.begins[0]][:3]:
        now, before = alone[begin + 5], alone[begin + 2]  # the speed of the pole is what it was three steps ago
        assert now.obs["obs.actor"][0, 4] == before.inputs["joint_vel"][0, 1] != now.inputs["joint_vel"][0, 1]


def test_a_random_delay_is_refused(tmp_path: Path, close: Close) -> None:
    def change(cfg: Any, _: Any) -> None:
        cfg.observations["actor"].terms["pole_vel"].delay_max_lag = 2

    env, actor = opened(CARTPOLE, change=change)
    close(env)
    (finding,) = [one for one in refused(env, actor, tmp_path / "p") if one.name == "random_delay"]
    assert finding.message == "observation actor/pole_vel is delayed by 0 to 2 steps, at random"
    assert finding.tensor == "actor/pole_vel"
    assert finding.severity == "error"


def test_a_random_delay_of_a_group_that_the_actor_does_not_read_is_no_matter(tmp_path: Path, close: Close) -> None:
    def change(cfg: Any, _: Any) -> None:
        cfg.observations["critic"] = deepcopy(cfg.observations["critic"])
        cfg.observations["critic"].terms["pole_vel"].delay_max_lag = 2

    env, actor = opened(CARTPOLE, change=change)
    close(env)
    package = export(env, actor, tmp_path / "p")
    assert "random_delay" not in {one.name for one in package.manifest.findings}


def test_clip_and_scale_are_in_the_package(tmp_path: Path, close: Close) -> None:
    one = make(clip_and_scale, tmp_path)
    close(one)
    alone = check_exact(one, scale=GEAR)
    positions = np.array([decision.obs["obs.actor"][0, 0] for decision in alone])
    assert {positions.min(), positions.max()} == {np.float32(-0.16), np.float32(0.04)}  # both limits are reached
    angles = np.array([decision.inputs["joint_pos"][0, 1] for decision in alone])
    seen = np.array([decision.obs["obs.actor"][0, 1:3] for decision in alone])
    np.testing.assert_allclose(seen, np.stack([0.5 * np.cos(angles), -3.0 * np.sin(angles)], axis=1), atol=1e-6)


def test_an_lstm_with_histories_delays_clips_and_several_groups_is_exact(tmp_path: Path, close: Close) -> None:
    """Everything at once; the hidden state starts every episode from zero."""
    one = make(together(term_history, delay, clip_and_scale, more_groups, normalized, lstm), tmp_path)
    close(one)
    manifest = one.package.manifest
    assert one.actor.groups == ["actor", "extra"]
    assert manifest.outputs["obs.extra"].shape == (1, 2 * 5)
    recurrent = [shape for role, shape in roles(one).values() if role == "recurrent"]
    assert recurrent == [(1, 1, 16), (1, 1, 16)]
    check_exact(one, scale=GEAR)
    found = one.compare(steps=40)
    assert found.resets >= 3
    assert found.worst["actions"] <= 1e-5
    assert found.worst["sim.qpos"] <= 1e-5


def test_the_hidden_state_of_an_lstm_decides(tmp_path: Path, close: Close) -> None:
    """Were it lost, as it is by others, the second step on the same inputs would give the same actions."""
    one = make(lstm, tmp_path)
    close(one)
    policy = ashore.load(one.package)
    inputs = run_alone(one.env, one.actor, one.package.manifest, 1)[0].inputs
    first, second = (float(policy.step(inputs)["actions"][0, 0]) for _ in range(2))
    policy.reset()
    assert float(policy.step(inputs)["actions"][0, 0]) == first != second


def test_a_gru_of_two_layers_is_exact(tmp_path: Path, close: Close) -> None:
    one = make(gru, tmp_path)
    close(one)
    assert [shape for role, shape in roles(one).values() if role == "recurrent"] == [(2, 1, 8)]
    check_exact(one, scale=GEAR)
    assert one.compare(steps=30).worst["actions"] <= 1e-5


def test_a_checkpoint_of_another_network_is_fitted(tmp_path: Path, close: Close, caplog: Any) -> None:
    """The stock configuration is of an MLP; the file says that it was an LSTM."""
    env, actor = opened(CARTPOLE, change=lstm)
    close(env)
    from integrations.mjlab_tasks import save_weights

    checkpoint = save_weights(actor, tmp_path / "model_3.pt")
    with caplog.at_level("WARNING", logger="ashore"):
        other, loaded = opened(CARTPOLE, checkpoint, seed=1)
    close(other)
    said = [one.getMessage() for one in caplog.records if one.name == "ashore"]
    assert any("class_name: MLPModel in the configuration, RNNModel in the checkpoint" in one for one in said)
    for name, value in actor.policy.state_dict().items():
        assert torch.equal(loaded.policy.state_dict()[name], value)


def distilled(hidden: int) -> RslRlBaseRunnerCfg:
    """The configuration of a runner that distils a student, who remembers."""
    model: dict[str, Any] = {"class_name": "MLPModel", "hidden_dims": [hidden], "activation": "elu"}
    model["distribution_cfg"] = {"class_name": "GaussianDistribution", "init_std": 1.0}
    memory: dict[str, Any] = {"rnn_type": "gru", "rnn_hidden_dim": 8, "rnn_num_layers": 1}

    @dataclass
    class Distilling(RslRlBaseRunnerCfg):
        student: dict[str, Any] = field(default_factory=lambda: {**model, **memory, "class_name": "RNNModel"})
        teacher: dict[str, Any] = field(default_factory=lambda: model)
        algorithm: dict[str, Any] = field(default_factory=lambda: {"class_name": "Distillation"})

    return Distilling(obs_groups={"student": ("actor",), "teacher": ("critic",)}, logger="tensorboard")


def test_of_a_student_it_is_the_students_weights(tmp_path: Path, close: Close, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the runner of the task asks for by itself would be the teacher's, or none."""
    cfg = registry.load_env_cfg(CARTPOLE, play=True)
    for name, hidden in (("Small", 16), ("Large", 32)):
        entry = registry._TaskCfg(cfg, cfg, distilled(hidden), DistillationRunner)
        monkeypatch.setitem(registry._REGISTRY, f"Test-Student-{name}", entry)
    env, actor = opened("Test-Student-Small", change=plain(episode_steps=SHORT_EPISODE_STEPS))
    close(env)
    checkpoint = tmp_path / "model_3.pt"
    torch.save({"student_state_dict": actor.policy.state_dict(), "iter": 3, "infos": None}, checkpoint)
    stock, loaded = opened("Test-Student-Large", checkpoint, seed=8)
    close(stock)
    package = export(stock, loaded, tmp_path / "p")
    assert [state.role for state in package.manifest.states.values()].count("recurrent") == 1
    check_package(package, run_alone(env, actor, package.manifest, 20), scale=GEAR)


# --- several environments --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batched(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An open batch, recorded with two robots."""
    env, actor = opened(CARTPOLE, change=together(term_history, delay, gru), num_envs=2)
    package = export(env, actor, tmp_path_factory.mktemp("batched") / "p", batch="dynamic")
    yield package, actor
    env.close()


def test_an_open_batch_runs_any_number_of_rows(batched: Any, close: Close) -> None:
    package, actor = batched
    assert package.manifest.inputs["joint_pos"].shape == (BATCH, 2)
    assert {BATCH in state.shape for state in package.manifest.states.values()} == {True}
    change = plain(together(term_history, delay, gru), episode_steps=SHORT_EPISODE_STEPS)
    env, _ = opened(CARTPOLE, change=change, num_envs=3)
    close(env)
    alone = run_alone(env, actor, package.manifest, 20)
    assert [any(one.begins) for one in alone].count(True) == 3
    assert np.ptp(alone[5].inputs["joint_pos"], axis=0).min() > 0.0  # the robots are in different places
    check_package(package, alone, scale=GEAR)
    for row in range(3):
        check_package(package, alone, row=row, scale=GEAR)


def test_three_robots_at_once_go_where_three_alone_go(batched: Any) -> None:
    package, _ = batched
    starts = np.array([[0.05, 0.02], [-0.08, -0.03], [0.0, 0.01]], np.float32)

    def run(positions: np.ndarray) -> np.ndarray:
        rows = []
        with open_deployment(CARTPOLE, package, num_envs=len(positions)) as deployment:
            deployment.reset()
            deployment.sim.data.qpos[:] = torch.from_numpy(positions)
            deployment.sense()
            for _ in range(25):
                deployment.step()
                rows.append(deployment.sim.data.qpos[:].numpy().copy())
        return np.stack(rows)

    together_ = run(starts)
    alone = np.concatenate([run(starts[row : row + 1]) for row in range(3)], axis=1)
    np.testing.assert_allclose(together_, alone, atol=1e-6)
    assert np.ptp(together_[-1], axis=0).min() > 0.01


def test_resetting_only_some_histories_by_hand_is_refused(tmp_path: Path, close: Close) -> None:
    env, actor = opened(CARTPOLE, change=group_history, num_envs=2)
    close(env)
    reset = env.reset

    def reset_one(**options: Any) -> Any:
        return reset(env_ids=torch.tensor([1]), **options)

    env.reset = reset_one
    with pytest.raises(ExportError, match="only some rows were reset by hand; reset all of them, or in a step"):
        export(env, actor, tmp_path / "p", batch="dynamic")
