"""The adapter that a person writes around an environment, and the actor that decides in it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch

from ashore.environment.context import ContextManager, Hidden
from ashore.errors import InputError

Observations: TypeAlias = torch.Tensor | Mapping[str, torch.Tensor]
"""One tensor, or one for each group."""


class ExportableEnvironment(abc.ABC):
    """An environment as Ashore sees it. A subclass hands each method on to the environment it wraps.

    `step` is the environment's own step. It is run as it is; while it runs, what `compute_observations`,
    `process_actions` and `apply_actions` call is recognised in it, so that what is recorded is what really happened.
    """

    def __init__(self) -> None:
        self._context_manager = ContextManager()
        self._command_updates: list[Callable[[], object]] = []

    def context_manager(self) -> ContextManager:
        """What was registered about it."""
        return self._context_manager

    def register_command_update(self, command_update: Callable[[], object]) -> None:
        """Say that commands are updated by a function before observations are computed, and belong to them."""
        self._command_updates.append(command_update)

    @property
    def command_updates(self) -> list[Callable[[], object]]:
        """What was registered to update commands."""
        return self._command_updates

    def watched_calls(self) -> Mapping[CodeType, Callable[[FrameType], object]]:
        """Functions that the adapter wants to hear of when a step calls them: their code -> what to tell.

        What such a function does is recorded like everything else, unless the answer is True: then it is the affair of
        the simulator.
        """
        return {}

    @abc.abstractmethod
    def compute_observations(self) -> Observations:
        """The observations of the actor, computed from what the environment has now."""

    @abc.abstractmethod
    def process_actions(self, actions: torch.Tensor) -> object:
        """Take a decision, once a step."""

    @abc.abstractmethod
    def apply_actions(self) -> object:
        """Act on the decision, `decimation` times a step."""

    @abc.abstractmethod
    def step(self, actions: torch.Tensor) -> tuple[Observations, Any]:
        """Advance by one decision; the next observations, and whether there was a reset (one flag, or one a row)."""

    @property
    @abc.abstractmethod
    def decimation(self) -> int:
        """How often a decision is applied."""

    @abc.abstractmethod
    def prepare_export(self) -> object:
        """Switch off what only training needs, such as noise. Called before an export."""

    @abc.abstractmethod
    def empty_actor_observations(self) -> Observations:
        """Observations of the right shape."""

    @abc.abstractmethod
    def empty_actions(self) -> torch.Tensor:
        """Actions of the right shape."""

    @abc.abstractmethod
    def metadata(self) -> dict[str, Any]:
        """JSON values about the environment. ``sim_dt``, ``update_rate`` or ``step_dt`` also say how fast it runs."""

    @abc.abstractmethod
    def register_evaluation_hooks(self, *args: Any, **kwargs: Any) -> object:
        """Kept for code that has it; nothing needs it here."""

    @abc.abstractmethod
    def get_observation_names(self) -> list[str]:
        """A name for each element of the observations."""

    @abc.abstractmethod
    def observations_reset(self) -> Observations:
        """The observations after a reset."""


class ExportableActor(torch.nn.Module, abc.ABC):
    """An actor: observations in, actions out, perhaps with a hidden state."""

    @abc.abstractmethod
    def forward(self, obs: Any) -> torch.Tensor:
        """Decide."""

    def reset(self, dones: torch.Tensor) -> object:
        """Forget the hidden state of the rows that start an episode.

        Args:
            dones: one boolean a row.
        """

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        """The hidden state, or None where there is none."""
        return None


class _Wrapped(ExportableActor):
    def __init__(self, actor: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self._actor = actor

    def forward(self, obs: Any) -> torch.Tensor:
        return self._actor(obs)

    def reset(self, dones: torch.Tensor) -> object:
        reset = getattr(self._actor, "reset", None)
        return reset(dones) if callable(reset) else None

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        get: Callable[[], Any] = getattr(self._actor, "get_state", super().get_state)
        return get()


def make_exportable_actor(actor: Callable[[Any], torch.Tensor]) -> ExportableActor:
    """An actor of any module, scripted module or callable, with its own ``reset`` and ``get_state`` if it has them."""
    if not callable(actor):
        raise InputError(f"make_exportable_actor: expected a module or another callable, got {type(actor).__name__}")
    return actor if isinstance(actor, ExportableActor) else _Wrapped(actor)


def add_actor_memory(context_manager: ContextManager, get_hidden_states_func: Hidden) -> None:
    """Name the hidden states of an actor ``actor_hidden_state_0`` and so on. They need not be there yet."""
    if not callable(get_hidden_states_func):
        raise InputError(f"add_actor_memory: expected a callable, got {type(get_hidden_states_func).__name__}")
    context_manager.add_hidden(get_hidden_states_func)
