"""What stands in for a ring has its values, and is refused where it has not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from mjlab.utils.buffers import CircularBuffer, DelayBuffer

from ashore.errors import ExportError
from ashore.integrations.buffers import Delay, History, is_constant, unheard

ROWS, WIDTH = 2, 3


def frames(count: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(ROWS, WIDTH) for _ in range(count)]


def ring(length: int = 4, fed: int = 1) -> Any:
    made = CircularBuffer(length, ROWS, "cpu")
    for one in frames(fed):
        made.append(one)
    return made


def delay(lag: int = 2, **options: Any) -> Any:
    made = DelayBuffer(min_lag=lag, max_lag=lag, batch_size=ROWS, device="cpu", **options)
    made.append(frames(1)[0])
    return made


def test_a_history_gives_what_the_ring_gives_through_resets() -> None:
    alone, history = ring(fed=2), History(ring(fed=2), "here")
    for step, frame in enumerate(frames(12)):
        if step == 5:
            alone.reset(torch.tensor([1]))
            history.reset(torch.tensor([1]))
        if step == 9:
            alone.reset()
            history.reset()
        alone.append(frame)
        history.append(frame)
        assert torch.equal(history.buffer, alone.buffer)
        assert torch.equal(history.current_length, alone.current_length)
    assert history.is_initialized


def test_a_history_never_writes_in_place_of_its_pointer() -> None:
    """The newest frame is always last, so that every step does the same."""
    history = History(ring(), "here")
    for frame in frames(6):
        history.append(frame)
        assert torch.equal(history.frames[:, -1], frame)


def test_a_ring_that_says_something_else_is_refused() -> None:
    inner = ring()
    history = History(inner, "observation actor/x")
    history.append(frames(1)[0])
    inner.append(frames(2)[1])
    with pytest.raises(ExportError, match="observation actor/x: the buffer gives other frames than what stands in"):
        _ = history.buffer


def test_a_backfill_of_all_rows_is_a_first_frame() -> None:
    history, frame = History(ring(fed=3), "here"), frames(5)[4]
    history.backfill(frame, torch.arange(ROWS))
    assert torch.equal(history.buffer, frame.unsqueeze(1).repeat(1, 4, 1))


def test_a_backfill_of_some_rows_is_refused() -> None:
    with pytest.raises(ExportError, match="here: only some rows were reset by hand"):
        History(ring(), "here").backfill(frames(1)[0], torch.tensor([1]))


def test_what_is_unknown_about_a_buffer_is_refused() -> None:
    with pytest.raises(ExportError, match="here: the environment uses 'pop' of a CircularBuffer, unknown here"):
        History(ring(), "here").pop()


@pytest.mark.parametrize("lag", [1, 3])
def test_a_delay_gives_what_the_buffer_gives_through_resets(lag: int) -> None:
    alone, stand_in = delay(lag), Delay(delay(lag), "here")
    for step, frame in enumerate(frames(10)):
        if step == 6:
            alone.reset(torch.tensor([0]))
            stand_in.reset(torch.tensor([0]))
        alone.append(frame)
        stand_in.append(frame)
        assert torch.equal(stand_in.compute(), alone.compute())
        assert torch.equal(stand_in.current_lags, alone.current_lags)


def test_only_a_delay_without_chance_is_constant() -> None:
    assert is_constant(delay(2))
    assert is_constant(delay(2, update_period=3, per_env_phase=False))
    assert not is_constant(delay(2, hold_prob=0.5))
    assert not is_constant(delay(2, update_period=3, per_env_phase=True))
    assert not is_constant(DelayBuffer(min_lag=0, max_lag=2, batch_size=ROWS, device="cpu"))


def test_nothing_is_recorded_while_unheard() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    heard: list[Any] = []

    class Listener(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append(func)
            return func(*args, **(kwargs or {}))

    with Listener():
        with unheard():
            torch.ones(1) + 1.0
        assert heard == []
        torch.ones(1)
    assert len(heard) == 1
