"""A recording session: what both doors of the annotate kind share.

Steps are what happens between marks. A door declares tensors by node and port; everything else the session hears.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ashore.backends import exporter_name
from ashore.capture.contract import PortInfo
from ashore.capture.lines import Line, user_frame
from ashore.capture.listening import Listener
from ashore.capture.steps import Step
from ashore.capture.tape import Name, Tape
from ashore.errors import InputError
from ashore.spec import RATES, Rate


class Session:
    """Listens to the user's code, step by step."""

    def __init__(self) -> None:
        self._listener = Listener()
        self._tape: Tape | None = None
        self._steps: list[Step] = []
        self._rate: Rate = "policy"
        self._reset = True
        self._resetting: Tape | None = None
        self._rows: tuple[bool, ...] | None = None
        self._opened: set[Rate] = set()
        self._touched: dict[Rate, dict[int, torch.Tensor]] = {rate: {} for rate in RATES}
        self._gap: Tape | None = None
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._paths: dict[int, tuple[torch.Tensor, str | None]] = {}
        self.ports: dict[Name, PortInfo] = {}
        """What the user said about each declared port."""

        self.nodes: list[str] = []
        """The nodes, in the order in which they finished first."""

        self.rates: dict[str, Rate] = {}
        """Node -> its rate, for nodes that are not of the policy rate."""

        self.backends: dict[str, str] = {}
        """Node -> the exporter that the user chose for it."""

        self.targets: dict[str, dict[str, int]] = {}
        """Node -> ``opset`` and ``ir_version``, where the user chose them for it."""

        self.exclusive = False
        """Whether only the steps and resets may write into states, even if that changes nothing."""

        self.simulates = False
        """Whether a simulator runs after the outputs of a step, so that it is no wonder that values leave for it."""

        self.static: set[Name] = set()
        """Outputs that are meant to be constant."""

        self.named: dict[int, tuple[str, torch.Tensor]] = {}
        """Id -> (name, tensor) of what the user named without declaring it an input or a state."""

    # --- listening ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen."""
        self._listener.__enter__()

    def stop(self) -> None:
        """Stop listening. What was recorded stays."""
        self.end_step()
        self._listener.__exit__(None, None, None)

    @property
    def steps(self) -> list[Step]:
        """The steps that were recorded."""
        return self._steps

    # --- marks -------------------------------------------------------------------------------------------------------

    def begin_step(self, rate: Rate = "policy") -> None:
        """Mark the beginning of a step; a step that is still open ends here."""
        self.end_step()
        for known in self._touched.values():
            known |= self._listener.touched
        touched, self._touched[rate] = self._touched[rate], {}
        if self._gap is not None:  # whether this was a reset is said later, by `settle`
            written = self._gap.written()
            for one in RATES:
                self._touched[one] |= written if one != rate else {}
            touched = touched | written
        self._rate = rate
        begun = user_frame()
        self._tape = self._listener.tape = Tape(
            paths=self._paths,
            copies=self._copies,
            touched=touched,
            begun=begun,
            begun_at=-1 if begun is None else begun.f_lasti,
        )
        self._listener.touched, self._listener.resetting = {}, False

    def end_step(self) -> None:
        """Mark the end of a step. One in which nothing was declared is not counted."""
        tape, self._tape, self._listener.tape = self._tape, None, None
        if tape is None or not (tape.inputs or tape.outputs):
            return
        tape.finish()
        if self._reset and self._rows is None:
            self._opened = set()
        opening = self._rate not in self._opened
        self._opened.add(self._rate)
        between = None if self._reset else self._gap
        reset = self._reset, self._resetting
        self._steps.append(Step(len(self._steps), tape, *reset, self._rate, opening, self._rows, between))
        self._reset, self._resetting, self._rows, self._gap = False, None, None, None

    def pause(self) -> None:
        """Do not listen for a while; the step goes on with `resume`."""
        self._listener.tape = None

    def resume(self) -> None:
        """Listen again to the step that was paused."""
        self._listener.tape = self._tape

    def discard_step(self) -> None:
        """Forget the step that is open, as if what it did had been done between steps."""
        if self._tape is not None:
            self._listener.touched |= self._tape.written()
        self._tape = self._listener.tape = None

    def watch(self) -> None:
        """Say that what is done from here to the next step may be a reset; `settle` tells later whether it was."""
        self.end_step()
        self._gap = self._listener.tape = Tape(paths=self._paths)

    def settle(self, rows: Sequence[bool]) -> None:
        """Say which rows a reset started an episode in, before the step that is open, or none."""
        gap, tape = self._gap, self._tape
        if gap is None or tape is None or not any(rows):
            return
        self._reset, self._resetting = True, gap
        self._rows = None if all(rows) else tuple(rows)
        written = gap.written()
        tape.untouch(written)
        for rate, known in self._touched.items():
            self._touched[rate] = {memory: tensor for memory, tensor in known.items() if memory not in written}

    def resume_reset(self) -> None:
        """Go on with what is or may be a reset, in the middle of the step that follows it."""
        self._listener.tape = self._gap or self._resetting

    def start_at_reset(self) -> bool:
        """Forget what was recorded before the first reset; whether there was one."""
        first = next((step.index for step in self._steps if step.reset and step.index), None)
        if first is not None:
            self._steps = [dataclasses.replace(step, index=step.index - first) for step in self._steps[first:]]
        return first is not None

    def keep_rate(self, rate: Rate) -> None:
        """Forget the steps of other rates."""
        kept = [step for step in self._steps if step.rate == rate]
        self._steps = [dataclasses.replace(step, index=index) for index, step in enumerate(kept)]

    def mark_reset(self) -> None:
        """Mark that an episode ends here. What is done from here to the next step is resetting, not part of a step."""
        self.end_step()
        self._reset = self._listener.resetting = True
        self._resetting = self._listener.tape = self._resetting or Tape(paths=self._paths)

    def limit_reset(self, rows: Sequence[bool]) -> None:
        """Say which rows the reset that was marked before the step that is open started an episode in."""
        self._rows = None if all(rows) else tuple(rows)

    @property
    def opens_episode(self) -> bool:
        """Whether a reset was marked before the step that is open."""
        return self._reset

    @property
    def open(self) -> bool:
        """Whether a step is being recorded."""
        return self._tape is not None

    @property
    def declared_inputs(self) -> Collection[Name]:
        """The inputs that were declared in this step so far."""
        return self._tape.inputs if self._tape is not None else ()

    def enter_node(self, node: str | None) -> None:
        """Say that what follows is done in a node."""
        if self._tape is not None:
            self._tape.region = node

    # --- declarations ------------------------------------------------------------------------------------------------

    def declare_input(self, name: Name, value: Any, info: PortInfo, *, join: bool = False) -> torch.Tensor:
        """Declare a tensor an input of the step from here on."""
        tensor = self._tensor(name, value)
        with self._declaring("input", name, info) as tape:
            if name in tape.inputs:
                raise InputError(f"input {name[1]!r} was declared already in this step")
            tape.inputs[name] = tape.declare(tensor, join=join)
        return tensor

    def declare_called(self, name: Name, call: Callable[[], torch.Tensor], info: PortInfo, line: Line) -> torch.Tensor:
        """Declare what a callback gives an input of the step from here on; the callback is listened to."""
        since = 0 if self._tape is None else len(self._tape.ops)
        tensor = self._tensor(name, call())
        with self._declaring("input", name, info) as tape:
            tape.inputs[name] = tape.declare_called(tensor, since, line)
        return tensor

    def declare_output(
        self, name: Name, value: Any, info: PortInfo, *, static: bool = False, line: Line | None = None
    ) -> torch.Tensor:
        """Declare what a tensor holds here an output of the step; a static one is meant to be constant."""
        tensor = self._tensor(name, value)
        if static:
            self.static.add(name)
        with self._declaring("output", name, info) as tape:
            if name in tape.outputs:
                raise InputError(f"output {name[1]!r} was declared already in this step")
            tape.outputs[name] = tape.note(tensor)
            if line is not None:
                tape.outputs[name] = tape.outputs[name]._replace(line=line)
        return tensor

    def declare_state(self, name: Name, value: Any, info: PortInfo) -> torch.Tensor:
        """Declare a tensor a state, as it is at the start of the step."""
        tensor = self._tensor(name, value)
        with self._declaring("state", name, info) as tape:
            tape.states[name] = tape.declare(tensor)
        return tensor

    def update_state(self, name: Name, value: Any) -> torch.Tensor:
        """Say what a declared state becomes."""
        tensor = self._tensor(name, value)
        with self._declaring("state", name, None) as tape:
            if name not in tape.states:
                raise InputError(f"state {name[1]!r} is updated, but was not declared in this step")
            tape.updates[name] = tape.note(tensor)
        return tensor

    def choose_backend(self, node: str, exporter: str) -> None:
        """Choose the exporter of a node."""
        self.backends[node] = exporter_name(exporter)

    def name_tensor(self, name: str, tensor: Any) -> None:
        """Say what a tensor is called that the code keeps."""
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"{name!r}: expected a tensor, got {type(tensor).__name__}")
        self.named[id(tensor)] = name, tensor

    @contextmanager
    def _declaring(self, what: str, name: Name, info: PortInfo | None) -> Iterator[Tape]:
        if self._tape is None:
            raise InputError(f"{what} {name[1]!r} is declared outside a step")
        with self._listener.quiet():
            yield self._tape
        if info is not None:
            self.ports.setdefault(name, info)

    @staticmethod
    def _tensor(name: Name, value: Any) -> torch.Tensor:
        if not all(isinstance(part, str) and part for part in name):
            raise InputError(f"expected the name of a port, got {name[1]!r}")
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
            value = torch.from_numpy(np.array(value))
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{name[1]!r}: expected a tensor or an array of numbers, got {type(value).__name__}")
        if value.layout is not torch.strided or value.is_quantized or value.is_nested or value.is_meta:
            raise InputError(
                f"{name[1]!r}: expected an ordinary tensor, got a sparse, quantised, nested or meta tensor"
            )
        if value.numel() == 0:
            raise InputError(f"{name[1]!r}: has no elements, its shape is {list(value.shape)}")
        return value
