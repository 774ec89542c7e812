"""Tapes to test with: operations written by hand, and steps of a few lines that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from ashore.capture.analysis import Analysis, analyse
from ashore.capture.contract import PortInfo
from ashore.capture.lines import Line
from ashore.capture.operations import Op
from ashore.capture.session import Session
from ashore.capture.steps import Step
from ashore.capture.tape import Declared, Tape
from ashore.capture.tensors import place_of
from ashore.spec import Rate

HERE = Line("walk.py", 12)
NODE = "policy"
NO_RESETS: Mapping[int, Callable[[], None]] = MappingProxyType({})


def op(
    target: Any,
    *args: Any,
    gives: int | list[int | None],
    line: Line = HERE,
    region: str | None = None,
    writes: Collection[int] = (),
    overwrites: Collection[int] = (),
    **kwargs: Any,
) -> Op:
    """An operation by hand.

    Args:
        target: what is called.
        *args: its arguments; tensors are `Ref`s.
        gives: the slots of its results.
        line: where it was called.
        region: the node that was open.
        writes: the groups that it writes into.
        overwrites: those of them that it writes whole.
        **kwargs: further arguments.
    """
    leaves, structure = tree_flatten((args, kwargs))
    results = gives if isinstance(gives, list) else [gives]
    return Op(target, leaves, structure, results, line, region, frozenset(writes), frozenset(overwrites))


def declared(slot: int, at: int = 0, value: torch.Tensor | None = None, **fields: Any) -> Declared:
    """What a step declares, by hand: a slot, after so many operations."""
    tensor = torch.zeros(1, 2) if value is None else value
    return Declared(slot, tensor, tensor, at, fields.pop("line", HERE), place_of(tensor), **fields)


class Door:
    """What a recorded step says about its tensors: inputs, outputs and states of one node."""

    def __init__(self) -> None:
        self.session = Session()

    def input(self, name: str, value: torch.Tensor, *, join: bool = False) -> torch.Tensor:
        return self.session.declare_input((NODE, name), value, PortInfo(), join=join)

    def called(self, name: str, callback: Callable[[], torch.Tensor]) -> torch.Tensor:
        return self.session.declare_called((NODE, name), callback, PortInfo(), HERE)

    def output(self, name: str, value: torch.Tensor) -> None:
        self.session.declare_output((NODE, name), value, PortInfo())

    def state(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return self.session.declare_state((NODE, name), value, PortInfo())

    def update(self, name: str, value: torch.Tensor) -> None:
        self.session.update_state((NODE, name), value)

    @property
    def tape(self) -> Tape:
        """What is recorded of the step that is open."""
        tape = self.session._tape
        assert tape is not None
        return tape


def record(
    step: Callable[[Door], object],
    count: int = 1,
    *,
    resets: Mapping[int, Callable[[], object]] = NO_RESETS,
    substeps: Callable[[Door], object] | None = None,
) -> list[Step]:
    """Run a step so many times and record it.

    Args:
        step: what is done in a step of the policy rate.
        count: how many there are.
        resets: step -> what is done before it to start an episode.
        substeps: what is done after each of them in two steps of the substep rate.
    """
    door = Door()
    calls: list[tuple[Rate, Callable[[Door], object]]] = [("policy", step)]
    if substeps is not None:
        calls += [("substep", substeps), ("substep", substeps)]
    door.session.start()
    try:
        with torch.no_grad():
            for index in range(count):
                if index in resets:
                    door.session.mark_reset()
                    resets[index]()
                for rate, call in calls:
                    door.session.begin_step(rate)
                    call(door)
                    door.session.end_step()
    finally:
        door.session.stop()
    return door.session.steps


def analysed(steps: list[Step]) -> dict[Rate, Analysis]:
    """What is known about recorded steps, of which no tensor belongs to a module."""
    return analyse(steps, feedback=False, owned={}, named={}, lists=[])


def numbered(count: int, shape: tuple[int, ...] = (1, 3)) -> list[torch.Tensor]:
    """So many tensors, all of them different."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for _ in range(count)]
