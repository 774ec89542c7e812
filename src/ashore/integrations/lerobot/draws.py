"""LeRobot with random numbers that are given, so that it can be compared with something else, draw by draw.

Diffusion and flow draw normal numbers. VQ-BeT draws codes with ``torch.multinomial(p, 1)``, which torch computes as
``argmax(p / q)`` with q exponential, of the shape of p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ashore.errors import ExportError
from ashore.integrations.lerobot.plan import Draw

_NORMAL = (torch.randn, torch.normal)
_ELSEWHERE = (torch.rand, torch.randint, torch.randn_like, torch.rand_like, torch.bernoulli, torch.randperm)


class Given(TorchFunctionMode):
    """Hands out draws, in order, inside ``with``; what else is drawn is an error."""

    def __init__(self, draws: Iterable[Draw]) -> None:
        super().__init__()
        self.left = list(draws)
        self.taken = 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Replace what draws."""
        kwargs = kwargs or {}
        if func in _NORMAL:
            return self._next("normal", _size(args, kwargs))
        if func is torch.multinomial:
            probabilities = args[0]
            return torch.argmax(
                probabilities / self._next("exponential", tuple(probabilities.shape)), dim=-1, keepdim=True
            )
        if func in _ELSEWHERE:
            raise ExportError(f"the policy draws with torch.{func.__name__}, which a package is not given")
        return func(*args, **kwargs)

    def _next(self, kind: str, shape: tuple[int, ...]) -> torch.Tensor:
        if self.taken == len(self.left):
            raise ExportError(f"the policy draws {kind} numbers {list(shape)}, which the package is not given")
        draw = self.left[self.taken]
        if draw.kind != kind or tuple(draw.value.shape) != shape:
            raise ExportError(
                f"the policy draws {kind} numbers {list(shape)}; the package is given {draw.kind} ones "
                f"{list(draw.value.shape)}"
            )
        self.taken += 1
        return draw.value.clone()


def _size(args: Any, kwargs: Any) -> tuple[int, ...]:
    """The shape that a call of torch.randn or torch.normal asks for."""
    if "size" in kwargs:
        return tuple(kwargs["size"])
    return tuple(args[0] if isinstance(args[0], tuple | list) else args)
