"""What every kind of trained actor has to say, so that one recording and one set of checks serve them all."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Spread:
    """A normal distribution to draw actions from."""

    mean: torch.Tensor
    std: torch.Tensor
    finish: Callable[[torch.Tensor], torch.Tensor] = field(default=lambda drawn: drawn)
    """What becomes of a draw, such as a squashing function or a clip."""


class Actor(abc.ABC):
    """A trained actor, which decides as its trainer's own inference call does.

    Args:
        modules: name -> module that it computes with; they are put in evaluation mode and on the CPU while it is
            exported.
        inputs: name -> an example of the input, with one row.
        trainer: what trained it.
    """

    def __init__(self, modules: Mapping[str, torch.nn.Module], inputs: Tensors, trainer: str) -> None:
        self.modules, self.inputs, self.trainer = dict(modules), dict(inputs), trainer
        self.tools: tuple[str, ...] = ()
        """Distributions whose versions are recorded."""

        self.clip_actions: tuple[float, float] | None = None
        """The least and the largest action, where the trainer's wrapper of the environment clips them."""

        self.counts: dict[str, int] = {}
        """Input of whole numbers -> how many there are, from 0."""

        self.could_value = False
        """Whether nothing about it says that it decides: what then gives one number could as well be a critic."""

        self.about: dict[str, Any] = {}
        """What else is worth knowing about it; it goes into the manifest."""

    @abc.abstractmethod
    def decide(self, inputs: Tensors) -> torch.Tensor:
        """The action of every row, without drawing; the hidden state goes on by one step."""

    def spread(self, inputs: Tensors) -> Spread | None:
        """What the actions of a step would be drawn from, in place of `decide`; None where nothing says."""
        del inputs
        return None

    def hidden(self) -> Tensors:
        """What it remembers now, by name: ``h`` and ``c`` of an LSTM, ``h`` of a GRU."""
        return {}

    def forget(self, dones: torch.Tensor | None) -> None:
        """Begin an episode in the rows that are done; with None in all of them, of any number."""
        del dones

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Make it ready to be recorded, and leave it as it was."""
        yield
