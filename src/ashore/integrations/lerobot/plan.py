"""What an adapter of one kind of policy says: the modules, what surrounds them, and what is drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch

from ashore.errors import ExportError
from ashore.package import Arrays
from ashore.staged import ExportInputs
from ashore.staged.exportable import ProcessorSpec

STATE = "observation.state"
ENVIRONMENT = "observation.environment_state"
TOKENS = "observation.language.tokens"
TOKEN_MASK = "observation.language.attention_mask"  # noqa: S105
ACTION = "action"


class Draw(NamedTuple):
    """Random numbers that a policy takes at once. `kind` is "normal", or "exponential": see draws.py."""

    kind: str
    value: torch.Tensor


Draws: TypeAlias = Callable[[Arrays], Sequence[Draw]]
"""The noise that a package is given -> what LeRobot would have drawn, in order, to compute the same."""


def no_draws(noise: Arrays) -> Sequence[Draw]:  # noqa: ARG001
    """Of a policy without chance."""
    return ()


@dataclass(frozen=True)
class Plan:
    """How a policy is exported, but for the processors that were saved beside it."""

    inference: str
    modules: Mapping[str, torch.nn.Module]
    inputs: Mapping[str, ExportInputs]
    features: Sequence[str]
    """The observations that the policy reads."""

    before: Sequence[ProcessorSpec] = ()
    """What the policy itself does to observations, once they are preprocessed."""

    after: Sequence[ProcessorSpec] = ()
    """What the policy does to actions, before they are postprocessed."""

    params: Mapping[str, Any] = field(default_factory=dict)
    """Of the runner."""

    draws: Draws = no_draws


@dataclass(frozen=True)
class Seen:
    """What a robot has for a policy, under the names that the policy has for it."""

    images: Mapping[str, tuple[int, int, int]]
    """Camera -> channels, height and width, in the order of the policy."""

    vectors: Mapping[str, int]
    """Other observations -> their length."""

    missing_images: int = 0
    """How many cameras the policy was configured with that the robot does not have."""

    guided: bool = False
    """Whether chunks are drawn towards the chunk before: real-time chunking."""


def example(shape: Sequence[int], seed: int) -> torch.Tensor:
    """Numbers like those that a network is given, float32."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def examples(shapes: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
    """Port -> numbers like those that a network is given."""
    return {name: example(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}


def action_width(policy: Any) -> int:
    """How many numbers an action has."""
    return int(policy.config.action_feature.shape[0])


def refuse(policy: Any, what: str, why: str, remedy: str) -> ExportError:
    """The error for an option that cannot be carried exactly."""
    return ExportError(f"{type(policy).__name__}: {what}: {why}; {remedy}")
