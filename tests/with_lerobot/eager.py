"""The reference: a saved policy run by LeRobot itself, from what a camera gives to what a motor is told.

What policies draw at random is recorded, in order, or given: another implementation fed the same draws must give the
same actions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pi05_shaped  # noqa: F401  registers its policy
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.utils.control_utils import predict_action
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
NORMAL = (torch.randn, torch.normal)
ELSEWHERE = (torch.rand, torch.randint, torch.randn_like, torch.rand_like, torch.bernoulli, torch.randperm)


class Draw(NamedTuple):
    """Random numbers a policy took at once. `kind` is "normal", or "exponential": see Noise."""

    kind: str
    value: np.ndarray


class Noise(TorchFunctionMode):
    """Records the draws inside `with`; given draws, hands those out instead and leaves torch's generator alone.

    Diffusion and flow draw normal numbers. VQ-BeT chooses codes with `torch.multinomial(p, 1)`, which torch computes
    as argmax(p / q) with q exponential: so q is the draw, of the shape of p.
    """

    def __init__(self, given: Iterable[Draw] | None = None) -> None:
        super().__init__()
        self.given = None if given is None else iter(given)
        self.drawn: list[Draw] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in NORMAL:
            if self.given is None:
                value = func(*args, **kwargs)
            else:
                value = self.next("normal", size_of(args, kwargs))
            self.drawn.append(Draw("normal", value.numpy().copy()))
            return value
        if func is torch.multinomial:
            probabilities = args[0]
            count = kwargs.get("num_samples", args[1] if len(args) > 1 else None)
            if count != 1:
                raise NotImplementedError(f"a policy draws {count} codes at once, which is not recorded")
            if self.given is None:
                q = torch.empty_like(probabilities).exponential_(1)
            else:
                q = self.next("exponential", tuple(probabilities.shape))
            self.drawn.append(Draw("exponential", q.numpy().copy()))
            return torch.argmax(probabilities / q, dim=-1, keepdim=True)
        if func in ELSEWHERE:
            raise NotImplementedError(f"a policy draws with {func.__name__}, which is not recorded")
        return func(*args, **kwargs)

    def next(self, kind: str, shape: tuple[int, ...]) -> torch.Tensor:
        draw = next(self.given, None) if self.given is not None else None
        if draw is None or draw.kind != kind or draw.value.shape != shape:
            got = None if draw is None else (draw.kind, draw.value.shape)
            raise ValueError(f"the policy draws {kind} numbers of shape {shape}; given: {got}")
        return torch.from_numpy(draw.value.copy())


def size_of(args: Any, kwargs: Any) -> tuple[int, ...]:
    """The shape that a call of torch.randn or torch.normal asks for."""
    if "size" in kwargs:
        return tuple(kwargs["size"])
    return tuple(args[0] if isinstance(args[0], (tuple, list)) else args)


class Eager:
    """A policy loaded from its folder by LeRobot, with its processors."""

    def __init__(self, folder: Path) -> None:
        self.config = PreTrainedConfig.from_pretrained(folder)
        self.policy = get_policy_class(self.config.type).from_pretrained(folder, config=self.config)
        self.before, self.after = make_pre_post_processors(self.config, pretrained_path=str(folder))
        self.reset()

    def reset(self) -> None:
        """As LeRobot does at the start of an episode."""
        self.policy.reset()
        self.before.reset()
        self.after.reset()

    def act(
        self, seen: dict[str, np.ndarray], task: str, given: Iterable[Draw] | None = None
    ) -> tuple[np.ndarray, list[Draw]]:
        """The action (action,) float32 for one observation without batch, and what was drawn for it."""
        with Noise(given) as noise:
            action = predict_action(dict(seen), self.policy, CPU, self.before, self.after, use_amp=False, task=task)
        return action.squeeze(0).numpy().copy(), noise.drawn

    def prepare(self, seen: dict[str, np.ndarray], task: str) -> dict[str, Any]:
        """What the policy itself is given for an observation: after LeRobot's preprocessor, batch 1."""
        return self.before(prepare_observation_for_inference(dict(seen), CPU, task))

    def chunk(
        self, seen: dict[str, np.ndarray], task: str, given: Iterable[Draw] | None = None, **rtc: Any
    ) -> tuple[np.ndarray, np.ndarray, list[Draw]]:
        """A whole chunk (steps, action), as the policy gives it and as the robot takes it.

        For policies that need no history. `rtc` is what real-time chunking takes: prev_chunk_left_over (as the policy
        gives it), inference_delay, and execution_horizon.
        """
        with torch.no_grad(), Noise(given) as noise:
            raw = self.policy.predict_action_chunk(self.prepare(seen, task), **rtc)
            actions = self.after(raw)
        return raw.squeeze(0).numpy().copy(), actions.squeeze(0).numpy().copy(), noise.drawn


class Run(NamedTuple):
    """Actions (ticks, action) float32, and what was drawn in each tick."""

    actions: np.ndarray
    draws: list[list[Draw]]


def run(
    eager: Eager,
    seen: Iterable[dict[str, np.ndarray]],
    task: str,
    resets: Iterable[int] = (),
    given: list[list[Draw]] | None = None,
) -> Run:
    """Act on each observation, with a reset before the first and before each tick in `resets`."""
    at = set(resets)
    eager.reset()
    actions, draws = [], []
    for tick, one in enumerate(seen):
        if tick in at:
            eager.reset()
        action, drawn = eager.act(one, task, None if given is None else given[tick])
        actions.append(action)
        draws.append(drawn)
    return Run(np.stack(actions), draws)


def main(seed: str, ticks: str, reset: str, out: str, *folders: str) -> None:
    """Run policies in a process of their own and write their actions: for test_eager.py."""
    from statistics_of_data import TASK, observations

    actions = {}
    for folder in folders:
        eager = Eager(Path(folder))
        torch.manual_seed(int(seed))
        actions[Path(folder).name] = run(eager, observations(eager.config, int(ticks)), TASK, [int(reset)]).actions
    np.savez(out, **actions)


if __name__ == "__main__":
    main(*sys.argv[1:])
