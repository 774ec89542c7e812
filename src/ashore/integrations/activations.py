"""Activations by the names that trainers' configurations have for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import torch
from torch import nn

from ashore.errors import InputError, suggestion

ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "elu": nn.ELU,
    "selu": nn.SELU,
    "relu": nn.ReLU,
    "crelu": nn.CELU,
    "celu": nn.CELU,
    "lrelu": nn.LeakyReLU,
    "leaky_relu": nn.LeakyReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "mish": nn.Mish,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "identity": nn.Identity,
    "none": nn.Identity,
}


def activation(where: object, name: object) -> nn.Module:
    """The activation of a name."""
    found = ACTIVATIONS.get(str(name).lower())
    if found is None:
        hint = suggestion(str(name), ACTIVATIONS, f"; there are {sorted(ACTIVATIONS)}")
        raise InputError(f"{where}: unknown activation {name!r}{hint}")
    return found()


def dense(sizes: list[int], make: Callable[[], nn.Module], last: bool) -> nn.Sequential:
    """Linear layers with activations between them, and after the last one too if asked for."""
    layers: list[nn.Module] = []
    for index, (narrow, wide) in enumerate(itertools.pairwise(sizes)):
        layers.append(nn.Linear(narrow, wide))
        if last or index < len(sizes) - 2:
            layers.append(make())
    return nn.Sequential(*layers)


class Memory(nn.Module):
    """A recurrent network that remembers, as trainers' own do while they play.

    Args:
        rnn: takes a sequence of length one, rows second.
    """

    hidden_state: torch.Tensor | tuple[torch.Tensor, torch.Tensor] | None

    def __init__(self, rnn: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.rnn, self.hidden_state = rnn, None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One step of every row."""
        out, self.hidden_state = self.rnn(x.unsqueeze(0), self.hidden_state)
        return out.squeeze(0)

    def reset(self, dones: torch.Tensor | None) -> None:
        """Forget what the rows that are done remember."""
        if dones is None or self.hidden_state is None:
            self.hidden_state = None
            return
        for state in self.hidden_state if isinstance(self.hidden_state, tuple) else (self.hidden_state,):
            state[:, dones] = 0.0


def recurrent(weight_ih: torch.Tensor, weight_hh: torch.Tensor, layers: int) -> nn.LSTM | nn.GRU:
    """The recurrent network that weights are of: an LSTM has four gates, a GRU three."""
    hidden = int(weight_hh.shape[1])
    kind = {4: nn.LSTM, 3: nn.GRU}.get(int(weight_hh.shape[0]) // hidden)
    if kind is None:
        raise InputError(f"expected the weights of an LSTM or a GRU, got {list(weight_hh.shape)}")
    return kind(int(weight_ih.shape[1]), hidden, num_layers=layers)
