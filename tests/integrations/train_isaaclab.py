"""Train the policies in `checkpoints`: python tests/integrations/train_isaaclab.py Isaac-Cartpole-v0 lstm

Stock algorithm, small networks. Cartpole is played after every 25 iterations, and training ends when nothing falls; Ant
is trained for 60. It takes 40 to 100 seconds on one core.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from integrations.isaac_tasks import ANT, OVERRIDES, checkpoint, here


def settings(agent: Any, task: str, variant: str) -> dict[str, Any]:
    """The configuration of the runner with the networks of a variant."""
    found, normalised = agent.to_dict(), (task == ANT) == (variant == "mlp")
    found["obs_groups"] = {"actor": ["policy"], "critic": ["policy"]}
    for name in ("actor", "critic"):
        found[name]["obs_normalization"] = normalised
        if variant == "lstm":
            memory = {"rnn_type": "lstm", "rnn_hidden_dim": 48 if task == ANT else 32, "rnn_num_layers": 1}
            found[name] |= {"class_name": "RNNModel", "hidden_dims": [32], **memory}
        elif task == ANT:
            found[name]["hidden_dims"] = [128, 64]
    return found


def play(runner: Any, steps: int) -> float:
    """The share of episodes that last to the end, without exploration."""
    env, policy = runner.env, runner.get_inference_policy()
    obs, _ = env.reset()
    policy.reset()
    ended = lasted = 0
    with torch.no_grad():
        for _ in range(steps):
            obs, _, dones, extras = env.step(policy(obs))
            policy.reset(dones)
            ended, lasted = ended + int(dones.sum()), lasted + int((dones.bool() & extras["time_outs"].bool()).sum())
    return lasted / max(ended, 1)


def main(task: str, variant: str) -> None:
    """Train, and save what a load needs, without the optimizer's moments."""
    import gymnasium
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from rsl_rl.runners import OnPolicyRunner

    from ashore.integrations.isaaclab_configs import task_configs

    torch.set_num_threads(1)
    cfg, agent = task_configs(task, overrides=OVERRIDES)
    here(task)(cfg)
    cfg.seed, cfg.scene.num_envs = 42, 64 if task == ANT else 128
    env: Any = gymnasium.make(task, cfg=cfg).unwrapped
    try:
        wrapped = RslRlVecEnvWrapper(env, clip_actions=agent.clip_actions)
        runner = OnPolicyRunner(wrapped, settings(agent, task, variant), log_dir=None, device="cpu")
        for _ in range(1 if task == ANT else 6):
            runner.learn(60 if task == ANT else 25, init_at_random_ep_len=True)
            share = play(runner, 400 if task == ANT else int(env.max_episode_length) + 1)
            runner.alg.actor.reset()
            runner.alg.critic.reset()
            sys.stderr.write(f"{share:.0%} of the episodes that ended had lasted to the end\n")
            if share == 1.0:
                break
        saved = {**runner.alg.save(), "iter": runner.current_learning_iteration, "infos": {"task": task}}
        saved["optimizer_state_dict"]["state"] = {}
        torch.save(saved, checkpoint(task, variant))
    finally:
        env.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
