"""A TorchScript module that remembers, as controllers of such files expect it: ``forward(obs)`` and ``reset()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch


def resettable(
    body: torch.jit.ScriptModule,
    example: Sequence[torch.Tensor],
    initial: Mapping[str, torch.Tensor],
    reads: Sequence[int],
    writes: Sequence[int],
) -> torch.jit.ScriptModule:
    """A module around a function of inputs and states.

    Args:
        body: takes inputs and states, gives outputs and states, by position.
        example: an example of each input.
        initial: state -> value after a reset.
        reads: the place of each input, then of each state, among what the body takes.
        writes: the place of each output, then of each state, among what the body gives.
    """
    module = _Resettable(body, initial, reads, writes)
    with torch.no_grad():
        return cast("torch.jit.ScriptModule", _scripted(module, tuple(example)))


def _scripted(module: _Resettable, example: tuple[torch.Tensor, ...]) -> Any:
    """The module as a script; both of its methods are straight lines, so a trace says all there is."""
    made = torch.jit.trace_module(module, {"forward": example, "reset": ()}, check_trace=False)
    for name, value in module.initial.items():
        getattr(made, f"state_{name}").copy_(value)  # the trace ran it
    return made


class _Resettable(torch.nn.Module):
    def __init__(
        self,
        body: torch.jit.ScriptModule,
        initial: Mapping[str, torch.Tensor],
        reads: Sequence[int],
        writes: Sequence[int],
    ) -> None:
        super().__init__()
        self.body, self.initial, self._reads, self._writes = body, dict(initial), list(reads), list(writes)
        for name, value in initial.items():
            self.register_buffer(f"state_{name}", value.clone())
            self.register_buffer(f"initial_{name}", value.clone())

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = [*inputs, *(getattr(self, f"state_{name}") for name in self.initial)]
        made = self.body(*(given[self._reads.index(place)] for place in range(len(given))))
        made = made if isinstance(made, tuple) else (made,)
        ordered = [made[place] for place in self._writes]
        count = len(ordered) - len(self.initial)
        for name, value in zip(self.initial, ordered[count:], strict=True):
            getattr(self, f"state_{name}").copy_(value)
        return ordered[0] if count == 1 else tuple(ordered[:count])

    def reset(self) -> Any:
        for name in self.initial:
            getattr(self, f"state_{name}").copy_(getattr(self, f"initial_{name}"))
        return torch.zeros(())  # a trace has to give something
