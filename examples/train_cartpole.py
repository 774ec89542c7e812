"""Train mjlab's stock cartpole on the CPU, in a minute or two. Usage: train_cartpole.py [OUT.pt]

What is saved is what an export needs: the weights of the actor. It made examples/checkpoints/cartpole_balance.pt.
"""

import dataclasses
import sys
from pathlib import Path

import mjlab.tasks  # noqa: F401 - registers them
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

TASK, SEED = "Mjlab-Cartpole-Balance", 42


def train(out: Path, environments: int = 256, iterations: int = 60) -> float:
    """Train, save the actor, and give the mean reward of a step when it decides without noise (the most is 1)."""
    torch.manual_seed(SEED)
    cfg, agent = load_env_cfg(TASK), load_rl_cfg(TASK)
    cfg.scene.num_envs, cfg.seed = environments, SEED
    env = ManagerBasedRlEnv(cfg, device="cpu")
    wrapped = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
    runner = MjlabOnPolicyRunner(wrapped, dataclasses.asdict(agent), device="cpu")
    runner.learn(iterations, init_at_random_ep_len=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    weights = runner.alg.save()["actor_state_dict"]
    torch.save({"actor_state_dict": weights, "iter": runner.current_learning_iteration, "infos": None}, out)
    policy, rewards = runner.get_inference_policy(device="cpu"), []
    obs, _ = wrapped.reset()
    with torch.inference_mode():
        for _ in range(200):  # ten seconds
            obs, reward, _, _ = wrapped.step(policy(obs))
            rewards.append(reward)
    env.close()
    return float(torch.stack(rewards).mean() / env.step_dt)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "cartpole_balance.pt")
    print(f"mean reward {train(target):.4f}, saved to {target}")
