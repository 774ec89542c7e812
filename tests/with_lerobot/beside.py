"""A package run as the eager policy was: on what it saw, with what it drew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from eager import Draw

from ashore.runtime import Policy
from ashore.spec import NOISE


def noise_of(draws: Sequence[Draw], policy: Policy) -> dict[str, np.ndarray]:
    """What a package is given for what LeRobot drew: by name, anything where nothing was drawn."""
    wanted = {name: port for name, port in policy.inputs.items() if port.kind == NOISE}
    noise = {name: np.zeros([int(dim) for dim in port.shape], np.float32) for name, port in wanted.items()}
    if draws and draws[0].kind == "exponential":
        noise["noise"][..., 0] = np.sqrt(2 * draws[0].value)  # half the sum of two squares
    elif draws:
        noise["noise"][...] = draws[0].value
        for row, draw in enumerate(draws[1:]):
            noise["step_noise"][row] = draw.value
    return noise


def run_package(
    policy: Policy,
    seen: Iterable[Mapping[str, np.ndarray]],
    task: str | Sequence[str],
    resets: Iterable[int],
    draws: Sequence[Sequence[Draw]],
) -> np.ndarray:
    """Actions (ticks, action) float32, with a reset before the first and before each tick in `resets`."""
    at, told, actions = set(resets), "task" in policy.inputs, []
    policy.reset()
    for tick, one in enumerate(seen):
        if tick in at:
            policy.reset()
        words: dict[str, Any] = {"task": task if isinstance(task, str) else task[tick]} if told else {}
        noise = noise_of(draws[tick], policy)
        actions.append(policy.select_action(dict(one) | words, noise=noise or None))
    return np.stack(actions)
