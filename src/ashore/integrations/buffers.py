"""Standing in for ring buffers that have a pointer in Python, while an environment is recorded.

A ring makes every step do something else: it writes where its pointer is. The stand-in shifts instead, and gives the
same values. It takes the place of one buffer in one environment for the time of an export; the ring itself runs along,
unheard, and has to agree with it in everything that is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils import _python_dispatch

from ashore.errors import ExportError


@contextmanager
def unheard() -> Iterator[None]:
    """Nothing that is done in the block is recorded."""
    with ExitStack() as stack:
        stack.enter_context(_python_dispatch._disable_current_modes())  # pyright: ignore[reportPrivateUsage]
        stack.enter_context(torch._C.DisableTorchFunction())  # pyright: ignore[reportPrivateUsage]
        yield


class History:
    """A history of frames, oldest first, in place of a ring with ``append``, ``backfill``, ``reset`` and ``buffer``.

    Args:
        ring: the buffer it stands in for.
        where: what to call it in an error.
    """

    def __init__(self, ring: Any, where: str) -> None:
        self._ring, self._where = ring, where
        self._length = int(ring.max_length)
        self.frames = ring.buffer.clone()
        """The frames of each row, oldest first."""

        self.count = ring.current_length.clone()
        """How many of them were appended in this episode."""

        self.batch_size, self.device, self.max_length = len(self.frames), ring.device, self._length

    def __getattr__(self, name: str) -> Any:
        raise ExportError(
            f"{self._where}: the environment uses {name!r} of a {type(self._ring).__name__}, unknown here"
        )

    @property
    def is_initialized(self) -> bool:
        """Whether anything was appended."""
        return True

    @property
    def current_length(self) -> torch.Tensor:
        """How many frames each row has."""
        return self.count

    @property
    def buffer(self) -> torch.Tensor:
        """The frames of each row, oldest first."""
        with unheard():
            self._agree(self._ring.buffer, self.frames)
        return self.frames

    def append(self, data: torch.Tensor) -> None:
        """Add a frame; the first of an episode fills the whole history."""
        with unheard():
            self._ring.append(data)
        newest = data.unsqueeze(1)
        first = (self.count == 0).view(-1, *([1] * data.dim()))
        self.frames = torch.where(first, newest, torch.cat([self.frames[:, 1:], newest], dim=1))
        self.count = (self.count + 1).clamp(max=self._length)

    def backfill(self, data: torch.Tensor, batch_ids: torch.Tensor) -> None:
        """Fill the history of rows that were reset with one frame."""
        with unheard():
            if len(set(batch_ids.tolist())) != self.batch_size:
                raise ExportError(f"{self._where}: only some rows were reset by hand; reset all of them, or in a step")
            self._ring.reset()
        self.reset()
        self.append(data)

    def reset(self, batch_ids: Any = None) -> None:
        """Forget rows."""
        with unheard():
            self._ring.reset(batch_ids)
        rows = slice(None) if batch_ids is None else batch_ids
        self.frames[rows] = 0.0
        self.count[rows] = 0

    def _agree(self, theirs: torch.Tensor, ours: torch.Tensor) -> None:
        if not torch.equal(theirs, ours):
            raise ExportError(f"{self._where}: the buffer gives other frames than what stands in for it")


class Delay(History):
    """A constant delay, in place of a buffer that draws its lag: the oldest frame of a history as long as the lag."""

    def __init__(self, delay: Any, where: str) -> None:
        super().__init__(delay._buffer, where)
        self._delay = delay

    @property
    def current_lags(self) -> torch.Tensor:
        """The lag of each row."""
        return self._delay.current_lags

    def append(self, data: torch.Tensor) -> None:
        """Add a frame."""
        super().append(data)
        with unheard():
            self._delay._update_lags()

    def reset(self, batch_ids: Any = None) -> None:
        """Forget rows."""
        super().reset(batch_ids)
        with unheard():
            self._delay.reset(batch_ids)

    def compute(self) -> torch.Tensor:
        """The delayed frame."""
        return self.peek()

    def peek(self) -> torch.Tensor:
        """The delayed frame."""
        with unheard():
            self._agree(self._delay.peek(), self.frames[:, 0])
        return self.frames[:, 0]


def is_constant(delay: Any) -> bool:
    """Whether a delay buffer always delays by the same."""
    in_step = delay.update_period == 0 or not delay.per_env_phase
    return delay.min_lag == delay.max_lag and delay.hold_prob == 0.0 and in_step
