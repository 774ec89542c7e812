"""Train the walking Go1 of examples/checkpoints. Usage: train_go1.py OUT.pt [--lstm]

It wants a GPU: 4,096 environments take about 20 minutes on one, and days on a CPU. The checkpoints that are committed
were trained on one GPU with these settings: mjlab's stock configuration, seed 42, 650 iterations, or 450 with an LSTM.
What is saved is what an export needs: the weights of the actor.
"""

import argparse
import dataclasses
from pathlib import Path

import mjlab.tasks  # noqa: F401 - registers them
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

TASK, SEED = "Mjlab-Velocity-Flat-Unitree-Go1", 42
LSTM = {
    "class_name": "RNNModel",
    "rnn_type": "lstm",
    "rnn_hidden_dim": 128,
    "rnn_num_layers": 1,
    "hidden_dims": (128, 64),
}


def train(out: Path, *, lstm: bool, environments: int, iterations: int, device: str) -> None:
    torch.manual_seed(SEED)
    cfg, agent = load_env_cfg(TASK), dataclasses.asdict(load_rl_cfg(TASK))
    cfg.scene.num_envs, cfg.seed = environments, SEED
    if lstm:
        agent["actor"] |= LSTM
        agent["critic"] |= LSTM
    env = ManagerBasedRlEnv(cfg, device=device)
    wrapped = RslRlVecEnvWrapper(env, clip_actions=agent["clip_actions"])
    runner = MjlabOnPolicyRunner(wrapped, agent, device=device)
    runner.learn(iterations, init_at_random_ep_len=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: value.cpu() for name, value in runner.alg.save()["actor_state_dict"].items()}
    torch.save({"actor_state_dict": weights, "iter": runner.current_learning_iteration, "infos": None}, out)
    env.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lstm", action="store_true")
    parser.add_argument("--environments", type=int, default=4096)
    parser.add_argument("--iterations", type=int, help="650, or 450 with an LSTM")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    rounds = given.iterations or (450 if given.lstm else 650)
    train(given.out, lstm=given.lstm, environments=given.environments, iterations=rounds, device=given.device)
    print(f"saved to {given.out}")
