"""Train the small policies in ``checkpoints/``: python tests/integrations/actors/train.py NAME …

Each takes up to two minutes on one core. What belongs to RSL-RL 3 and rl_games is run with those on the path, which
cannot live beside the versions in constraints.txt:

    pip install --no-deps --target old rsl-rl-lib==3.3.0
    PYTHONPATH=old python tests/integrations/actors/train.py rsl3_mlp …
    pip install --no-deps --target games rl-games==1.6.5 setproctitle tensorboardX
    PYTHONPATH=games python tests/integrations/actors/train.py rl_games_mlp …

Beside these checkpoints lies what their own trainer decides on a fixed trajectory, for the tests to compare with.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from integrations.actors import pendulum
from integrations.actors.networks import Agent

FOLDER = Path(__file__).parent / "checkpoints"
STEPS, ROWS = 100, 3
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.6}


# --- RSL-RL -----------------------------------------------------------------------------------------------------------


def rsl_rl(name: str, actor: Mapping[str, Any], iterations: int = 60, image: bool = False) -> None:
    """PPO of RSL-RL 5."""
    from rsl_rl.runners import OnPolicyRunner

    groups = ["policy", "camera"] if image else ["policy"]
    critic = {"class_name": "MLPModel", "hidden_dims": [32], "activation": "elu"}
    settings = _rsl(actor=dict(actor), critic=critic, obs_groups={"actor": groups, "critic": ["policy"]})
    (FOLDER / f"{name}.json").write_text(json.dumps(settings, indent=1))
    runner = OnPolicyRunner(pendulum.Pendulums(image=image), json.loads(json.dumps(settings)), None, "cpu")
    runner.learn(iterations)
    kept = {key: value for key, value in runner.alg.save().items() if key != "optimizer_state_dict"}
    torch.save({**kept, "iter": iterations, "infos": None}, FOLDER / f"{name}.pt")
    _judge(name, lambda obs: runner.alg.get_policy()(obs), runner.alg.get_policy().reset, image)


def _rsl(**more: Any) -> dict[str, Any]:
    algorithm = {
        "class_name": "PPO", "learning_rate": 1e-3, "num_learning_epochs": 5, "num_mini_batches": 4, "gamma": 0.95,
        "lam": 0.95, "entropy_coef": 0.0, "desired_kl": 0.01, "schedule": "adaptive", "value_loss_coef": 1.0,
        "clip_param": 0.2, "use_clipped_value_loss": True, "max_grad_norm": 1.0,
    }  # fmt: skip
    return {
        "num_steps_per_env": 64, "save_interval": 10_000, "clip_actions": 1.0, "algorithm": algorithm,
        "logger": "tensorboard", "multi_gpu": None, **more,
    }  # fmt: skip


def rsl_rl_student(name: str) -> None:
    """A student of RSL-RL 5 that learned from the teacher `rsl_rl_teacher` left."""
    from rsl_rl.runners import DistillationRunner

    one = {"class_name": "MLPModel", "hidden_dims": [16, 16], "activation": "elu", "obs_normalization": True}
    settings = _rsl(
        student={
            **one,
            "class_name": "RNNModel",
            "rnn_type": "gru",
            "rnn_hidden_dim": 8,
            "rnn_num_layers": 1,
            "distribution_cfg": dict(GAUSSIAN),
        },
        teacher={**one, "hidden_dims": [32, 32], "distribution_cfg": dict(GAUSSIAN)},
        obs_groups={"student": ["policy"], "teacher": ["policy"]},
    )
    settings["algorithm"] = {
        "class_name": "Distillation", "num_learning_epochs": 2, "learning_rate": 3e-3, "gradient_length": 8,
        "max_grad_norm": 1.0, "loss_type": "mse",
    }  # fmt: skip
    (FOLDER / f"{name}.json").write_text(json.dumps(settings, indent=1))
    runner = DistillationRunner(pendulum.Pendulums(), json.loads(json.dumps(settings)), None, "cpu")
    runner.alg.load(torch.load(FOLDER / "rsl5_mlp.pt", weights_only=True), None, True)
    runner.learn(30)
    kept = {key: value for key, value in runner.alg.save().items() if key == "student_state_dict"}
    torch.save({**kept, "iter": 30, "infos": None}, FOLDER / f"{name}.pt")
    policy = runner.alg.get_policy()
    _judge(name, lambda obs: policy(obs), policy.reset)


def rsl_rl_3(name: str, policy: Mapping[str, Any], iterations: int = 60, image: bool = False) -> None:
    """PPO of RSL-RL 3, with what it decides."""
    from rsl_rl.runners import OnPolicyRunner

    groups = ["policy", "camera"] if image else ["policy"]
    settings = _rsl(policy=dict(policy), obs_groups={"policy": groups, "critic": ["policy"]})
    settings["algorithm"] |= {"rnd_cfg": None, "symmetry_cfg": None}
    _rsl_rl_3(name, settings, OnPolicyRunner, iterations, image)


def rsl_rl_3_student(name: str) -> None:
    """A recurrent student of RSL-RL 3 that learned from `rsl3_mlp`."""
    from rsl_rl.runners import DistillationRunner

    policy = {
        "class_name": "StudentTeacherRecurrent", "init_noise_std": 0.1, "student_hidden_dims": [16],
        "teacher_hidden_dims": [32, 32], "activation": "elu", "student_obs_normalization": True,
        "teacher_obs_normalization": True, "rnn_type": "gru", "rnn_hidden_dim": 8, "rnn_num_layers": 1,
    }  # fmt: skip
    settings = _rsl(policy=policy, obs_groups={"policy": ["policy"], "teacher": ["policy"]})
    settings["algorithm"] = {
        "class_name": "Distillation", "num_learning_epochs": 2, "learning_rate": 3e-3, "gradient_length": 8,
        "max_grad_norm": 1.0, "loss_type": "mse",
    }  # fmt: skip
    teacher = torch.load(FOLDER / "rsl3_mlp.pt", weights_only=True)["model_state_dict"]
    _rsl_rl_3(name, settings, DistillationRunner, 30, teacher=teacher)


def _rsl_rl_3(
    name: str, settings: dict[str, Any], runner_class: Any, iterations: int, image: bool = False, teacher: Any = None
) -> None:
    (FOLDER / f"{name}.json").write_text(json.dumps(settings, indent=1))
    with tempfile.TemporaryDirectory() as logs:
        runner = runner_class(pendulum.Pendulums(image=image), json.loads(json.dumps(settings)), logs, "cpu")
        if teacher is not None:
            runner.alg.policy.load_state_dict(teacher)
        runner.learn(iterations)
    module = runner.alg.policy
    torch.save({"model_state_dict": module.state_dict(), "iter": iterations, "infos": None}, FOLDER / f"{name}.pt")
    _judge(name, lambda obs: module.act_inference(obs), module.reset, image)

    def decide(obs: torch.Tensor) -> torch.Tensor:
        return module.act_inference({"policy": obs, "camera": pendulum.picture(obs)})

    _keep(name, decide, module.reset, clip=1.0)


# --- stable-baselines3, skrl, rl_games, CleanRL -----------------------------------------------------------------------


def sb3(name: str, kind: str, steps: int, task: str = "Pendulum-v1", normalise: bool = False, **options: Any) -> None:
    """A model of stable-baselines3 or sb3-contrib."""
    import sb3_contrib
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    env = make_vec_env(task, n_envs=1 if kind in ("SAC", "TD3", "DQN") else 8, seed=0)
    env = VecNormalize(env, gamma=0.95) if normalise else env
    made = getattr(stable_baselines3, kind, None) or getattr(sb3_contrib, kind)
    model = made("MlpLstmPolicy" if kind == "RecurrentPPO" else "MlpPolicy", env, seed=0, device="cpu", **options)
    model.learn(steps)
    if normalise:
        env.training, env.norm_reward = False, False
        env.save(FOLDER / f"{name}_vecnormalize.pkl")
    sys.stderr.write(f"{name}: mean return {evaluate_policy(model, env, 10)[0]:.1f}\n")
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model.zip", exclude=["ep_info_buffer", "replay_buffer"])
        with (
            zipfile.ZipFile(Path(scratch) / "model.zip") as whole,
            zipfile.ZipFile(FOLDER / f"{name}.zip", "w") as kept,
        ):
            for member in sorted(set(whole.namelist()) - {"system_info.txt"}):
                kept.writestr(member, whole.read(member), zipfile.ZIP_DEFLATED)


def skrl(name: str) -> None:
    """PPO of skrl, with its preprocessor."""
    import gymnasium
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.trainers.torch import SequentialTrainer

    from integrations.actors.networks import skrl_agent

    env = wrap_env(gymnasium.make_vec("Pendulum-v1", num_envs=16))
    agent = skrl_agent()
    SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 6000, "headless": True}).train()
    kept = {"policy": agent.policy.state_dict(), "value": agent.value.state_dict()}
    kept["observation_preprocessor"] = agent._observation_preprocessor.state_dict()
    torch.save(kept, FOLDER / f"{name}.pt")


def rl_games(name: str, network: Mapping[str, Any], epochs: int = 60) -> None:
    """PPO of rl_games, with what its player decides."""
    from rl_games.common import env_configurations, vecenv
    from rl_games.torch_runner import Runner

    vecenv.register("PENDULUM", lambda _, rows, **__: pendulum.RlGames(rows))
    env_configurations.register("pendulum", {"vecenv_type": "PENDULUM", "env_creator": lambda **_: pendulum.RlGames(1)})
    space = {
        "mu_activation": "None", "sigma_activation": "None", "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": -0.5}, "fixed_sigma": True,
    }  # fmt: skip
    config = {
        "name": name, "env_name": "pendulum", "ppo": True, "mixed_precision": False, "normalize_input": True,
        "normalize_value": True, "reward_shaper": {"scale_value": 1.0}, "normalize_advantage": True, "gamma": 0.95,
        "tau": 0.95, "learning_rate": 1e-3, "lr_schedule": "adaptive", "kl_threshold": 0.01, "num_actors": 64,
        "horizon_length": 64, "minibatch_size": 1024, "mini_epochs": 4, "e_clip": 0.2, "clip_value": True,
        "entropy_coef": 0.0, "critic_coef": 1.0, "grad_norm": 1.0, "truncate_grads": True, "max_epochs": epochs,
        "score_to_win": 1e9, "save_best_after": 1e9, "save_frequency": 0, "print_stats": False, "seq_length": 16,
        "device": "cpu", "device_name": "cpu", "clip_actions": True, "bounds_loss_coef": 0.0,
        "value_bootstrap": True, "player": {"deterministic": True},
    }  # fmt: skip
    mlp = {"units": [32, 16], "activation": "elu", "initializer": {"name": "default"}}
    params = {
        "seed": 0, "algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"},
        "network": {"name": "actor_critic", "separate": False, "space": {"continuous": space}, "mlp": mlp, **network},
        "config": config,
    }  # fmt: skip
    (FOLDER / f"{name}.json").write_text(json.dumps({"params": params}, indent=1))
    runner = Runner()
    runner.load(json.loads(json.dumps({"params": params})))
    agent = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
    agent.train()
    torch.save({"model": agent.model.state_dict(), "epoch": epochs}, FOLDER / f"{name}.pt")
    rl_games_player(name)


def rl_games_player(name: str) -> None:
    """What the player of rl_games decides with a checkpoint."""
    from rl_games.common import env_configurations, vecenv
    from rl_games.torch_runner import Runner

    vecenv.register("PENDULUM", lambda _, rows, **__: pendulum.RlGames(rows))
    env_configurations.register("pendulum", {"vecenv_type": "PENDULUM", "env_creator": lambda **_: pendulum.RlGames(1)})
    runner = Runner()
    runner.load(json.loads((FOLDER / f"{name}.json").read_text()))
    player = runner.create_player()
    player.restore(str(FOLDER / f"{name}.pt"))
    player.has_batch_dimension = True
    player.model.eval()

    def reset(dones: torch.Tensor | None) -> None:
        if dones is None or not player.is_rnn or player.states is None or player.states[0].shape[1] != len(dones):
            player.batch_size = ROWS if dones is None else len(dones)
            player.init_rnn()
            if player.is_rnn:
                player.states = [torch.zeros(one.shape[0], player.batch_size, one.shape[2]) for one in player.states]
            return
        for state in player.states:
            state[:, dones] = 0.0

    everyone = torch.ones(64, dtype=torch.bool)
    _judge(name, lambda obs: player.get_action(obs["policy"], True), lambda _: reset(everyone))
    _keep(name, lambda obs: player.get_action(obs, True), reset)


def cleanrl(name: str, iterations: int = 80) -> None:
    """PPO as CleanRL writes it, for `Agent`."""
    env, agent = pendulum.Pendulums(), Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2e-3)
    obs = env.reset()[0]["policy"]
    for _ in range(iterations):
        kept: list[list[torch.Tensor]] = []
        with torch.no_grad():
            for _ in range(64):
                action, logprob, _, value = agent.get_action_and_value(obs)
                following, reward, dones, _ = env.step(action)
                kept.append([obs, action, logprob, value[:, 0], reward, dones.float()])
                obs = following["policy"]
            value, advantage, advantages = agent.critic(obs)[:, 0], torch.zeros(env.num_envs), list[torch.Tensor]()
            for _, _, _, before, reward, done in reversed(kept):
                delta = reward + 0.95 * value * (1 - done) - before
                advantage = delta + 0.95 * 0.95 * (1 - done) * advantage
                advantages.insert(0, advantage)
                value = before
        seen, taken, old, values = (torch.cat([row[index] for row in kept]) for index in range(4))
        gains = torch.cat(advantages)
        for _ in range(4):
            for rows in torch.randperm(len(seen)).chunk(4):
                _, logprob, _, value = agent.get_action_and_value(seen[rows], taken[rows])
                scaled = (gains[rows] - gains[rows].mean()) / (gains[rows].std() + 1e-8)
                ratio = (logprob - old[rows]).exp()
                loss = torch.max(-scaled * ratio, -scaled * ratio.clamp(0.8, 1.2)).mean()
                loss = loss + 0.5 * (value[:, 0] - (gains + values)[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
    torch.save(agent.state_dict(), FOLDER / f"{name}.pt")
    _judge(name, lambda obs: agent.actor_mean(obs["policy"]), lambda _: None)


# --- what came of it --------------------------------------------------------------------------------------------------


def _judge(name: str, decide: Callable[..., torch.Tensor], reset: Callable[..., Any], image: bool = False) -> None:
    """Say how well it plays without exploring; hanging still gives about -1.2 a step, the best about -0.1."""
    torch.manual_seed(1)
    env, total = pendulum.Pendulums(image=image), 0.0
    reset(None)
    with torch.no_grad():
        obs = env.get_observations()
        for _ in range(190):
            obs, reward, _, _ = env.step(decide(obs))
            total += float(reward.mean())
    reset(None)
    sys.stderr.write(f"{name}: {total / 190:.3f} a step\n")


def _keep(name: str, decide: Callable[..., torch.Tensor], reset: Callable[..., Any], clip: float | None = None) -> None:
    """Keep what the trainer decides, for one row and for several."""
    kept: dict[str, np.ndarray] = {}
    for rows in (1, ROWS):
        path = pendulum.trajectory(STEPS, rows, seed=rows)
        reset(None)
        made = []
        with torch.no_grad():
            for obs, dones in zip(path.obs, path.dones, strict=True):
                reset(dones)
                made.append(decide(obs.clone()).clone())
        actions = torch.stack(made)
        kept[f"actions_{rows}"] = (actions if clip is None else actions.clamp(-clip, clip)).numpy()
    np.savez_compressed(FOLDER / f"{name}.npz", **kept)


ACTOR = {"hidden_dims": [32, 32], "activation": "elu", "obs_normalization": True, "distribution_cfg": GAUSSIAN}
UNEVEN = {**GAUSSIAN, "class_name": "HeteroscedasticGaussianDistribution"}
OLD_LSTM = {"class_name": "ActorCriticRecurrent", "rnn_type": "lstm", "rnn_hidden_dim": 16, "rnn_num_layers": 1}
SMALL = {"hidden_dims": [16], "rnn_hidden_dim": 16, "class_name": "RNNModel"}
CNN = {"output_channels": [4, 4], "kernel_size": 3, "stride": 2, "flatten": True}
OLD = {
    "class_name": "ActorCritic", "init_noise_std": 0.6, "actor_hidden_dims": [32, 32], "critic_hidden_dims": [32],
    "activation": "elu", "actor_obs_normalization": True, "critic_obs_normalization": False,
}  # fmt: skip
LSTM = {"name": "lstm", "units": 16, "layers": 1, "before_mlp": True, "layer_norm": True}
POLICIES: Mapping[str, Callable[[str], None]] = {
    "rsl5_mlp": lambda name: rsl_rl(name, {"class_name": "MLPModel", **ACTOR}),
    "rsl5_lstm": lambda name: rsl_rl(name, {**ACTOR, **SMALL, "rnn_type": "lstm"}, 30),
    "rsl5_gru": lambda name: rsl_rl(name, {**ACTOR, **SMALL, "rnn_type": "gru", "rnn_num_layers": 2}, 30),
    "rsl5_cnn": lambda name: rsl_rl(name, {**ACTOR, "class_name": "CNNModel", "cnn_cfg": CNN}, 30, image=True),
    "rsl5_std": lambda name: rsl_rl(name, {"class_name": "MLPModel", **ACTOR, "distribution_cfg": UNEVEN}),
    "rsl5_student": rsl_rl_student,
    "rsl3_mlp": lambda name: rsl_rl_3(name, OLD),
    "rsl3_std": lambda name: rsl_rl_3(name, {**OLD, "state_dependent_std": True, "noise_std_type": "log"}, 30),
    "rsl3_lstm": lambda name: rsl_rl_3(name, {**OLD, **OLD_LSTM}, 30),
    "rsl3_cnn": lambda name: rsl_rl_3(name, {**OLD, "class_name": "ActorCriticCNN", "actor_cnn_cfg": CNN}, 30, True),
    "rsl3_student": rsl_rl_3_student,
    "sb3_ppo": lambda name: sb3(
        name, "PPO", 100_000, normalise=True, gamma=0.95, n_steps=128, batch_size=256, learning_rate=1e-3,
        policy_kwargs={"net_arch": [32, 32], "log_std_init": -0.5},
    ),
    "sb3_a2c": lambda name: sb3(name, "A2C", 100_000, "CartPole-v1", policy_kwargs={"net_arch": [32]}),
    "sb3_sac": lambda name: sb3(name, "SAC", 5_000, learning_rate=2e-3, policy_kwargs={"net_arch": [32, 32]}),
    "sb3_td3": lambda name: sb3(name, "TD3", 5_000, learning_rate=2e-3, policy_kwargs={"net_arch": [32, 32]}),
    "sb3_dqn": lambda name: sb3(
        name, "DQN", 15_000, "CartPole-v1", learning_rate=2e-3, train_freq=8, gradient_steps=8, learning_starts=500,
        exploration_fraction=0.3, target_update_interval=200, policy_kwargs={"net_arch": [32, 32]},
    ),
    "sb3_recurrent": lambda name: sb3(
        name, "RecurrentPPO", 20_000, "CartPole-v1", n_steps=64, batch_size=128, learning_rate=1e-3,
        policy_kwargs={"net_arch": [16], "lstm_hidden_size": 16},
    ),
    "skrl": skrl,
    "rl_games_mlp": lambda name: rl_games(name, {}),
    "rl_games_lstm": lambda name: rl_games(name, {"rnn": LSTM}, 30),
    "cleanrl": cleanrl,
}  # fmt: skip


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for chosen in sys.argv[1:]:
        torch.manual_seed(0)
        POLICIES[chosen](chosen)
