"""Hidden states, wherever an actor keeps them: found, named, and put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

_ATTRIBUTES = ("hidden_state", "hidden_states")
_NOT_THE_ACTOR = ("critic", "memory_c", "teacher", "memory_t", "value")
_NAMES = ("h", "c")


class HiddenStates:
    """The hidden states of a model of the RSL-RL kind, which keeps them in attributes of its memories.

    Args:
        module: the model.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._holders = list(_holders(module))
        self._before = [getattr(holder, name) for holder, name in self._holders]

    @property
    def recurrent(self) -> bool:
        """Whether there are any."""
        return bool(self._holders)

    def clear(self) -> None:
        """Take them away, as in a model that never ran: the first step makes them, for any number of rows."""
        for holder, name in self._holders:
            setattr(holder, name, None)

    def restore(self) -> None:
        """Put back what there was when they were found."""
        for (holder, name), value in zip(self._holders, self._before, strict=True):
            setattr(holder, name, value)

    def tensors(self) -> dict[str, torch.Tensor]:
        """``h`` and ``c``, or ``h``; those of further memories with a number."""
        return named(*(getattr(holder, name) for holder, name in self._holders))


def named(*states: Any) -> dict[str, torch.Tensor]:
    """Hidden states by name: those of each memory are a tensor, a pair of them, or nothing yet."""
    found: dict[str, torch.Tensor] = {}
    for number, value in enumerate(states, start=1):
        parts = (value,) if isinstance(value, torch.Tensor) else value or ()
        for letter, tensor in zip(_NAMES, parts, strict=False):
            found[letter if number == 1 else f"{letter}_{number}"] = tensor
    return found


def _holders(module: torch.nn.Module) -> Iterator[tuple[Any, str]]:
    for path, one in module.named_modules():
        if any(word in part for part in path.split(".") for word in _NOT_THE_ACTOR):
            continue
        for name in _ATTRIBUTES:
            if name in vars(one):
                yield one, name


class Groups(dict[str, Any]):
    """Observations by group, as a TensorDict gives them to a model."""


def grouped(inputs: Mapping[str, torch.Tensor]) -> Groups:
    """Inputs as a model takes observations by group."""
    return Groups(inputs)
