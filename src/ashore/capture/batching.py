"""Making programs that were recorded with some number of rows work on any number.

The recorded step is run again with another number of rows, operation by operation. Comparing shapes shows along which
axis each value holds the rows. Lengths that were written into the code (``view(1, 12)``) are replaced by ones that grow
with the batch; operations that mix or lose rows are findings. Whether each row then gets what it would have got alone
is checked with the saved files.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ashore.capture.findings import Finding
from ashore.capture.lines import NOWHERE
from ashore.capture.operations import RECURRENT, Op, Ref, schema_name
from ashore.capture.program import Program, Programs, Rows, Source, all_states, execute
from ashore.capture.steps import Step
from ashore.capture.tensors import close
from ashore.spec import Rate

aten = torch.ops.aten
_RESHAPES = ("aten::view", "aten::reshape", "aten::_unsafe_view")
_CREATIONS = (
    "aten::zeros",
    "aten::ones",
    "aten::full",
    "aten::empty",
    "aten::new_zeros",
    "aten::new_full",
    "aten::rand",
)
_TRIAL_ROWS = (7, 11)
_TRIALS = 256
_WATCHED = 2
_FAR = 10.0
"""How far the other rows are moved: a limit may be far away."""


@dataclass
class Batched:
    """Programs for any number of rows."""

    length: int
    """How many rows were recorded."""

    axes: dict[Rate, dict[int, int]] = field(default_factory=dict)
    """Rate -> value -> the axis of its rows, for those that have one."""

    states: dict[str, int | None] = field(default_factory=dict)
    """State -> the axis of its rows."""

    def start(self, name: str, initial: torch.Tensor) -> torch.Tensor:
        """The initial value of a state, with as many rows as were recorded."""
        axis = self.states[name]
        return initial if axis is None else initial.repeat_interleave(self.length, dim=axis)


class _MixedError(Exception):
    def __init__(self, message: str, op: Op | None = None) -> None:
        super().__init__(message)
        self.op = op


def make_batched(programs: Programs, steps: Mapping[Rate, Step]) -> tuple[Batched | None, list[Finding]]:
    """Rewrite programs in place for any number of rows, or say why that cannot be.

    Args:
        programs: with their initial states.
        steps: rate -> the step that its program was made of.
    """
    given = {name: steps[rate].tape.inputs[name].value for rate, one in programs.items() for name in one.inputs}
    lengths = {tuple(value.shape[:1]) for value in given.values()}
    if len(lengths) != 1 or lengths == {()}:
        shapes = ", ".join(f"{name[1]} {list(value.shape)}" for name, value in given.items())
        return None, [Finding("batch", f"the inputs have no common first axis: {shapes}")]
    rows = lengths.pop()[0]
    states = all_states(programs)
    uneven = [state for state in states.values() if rows > 1 and not _same_rows(state.start, rows)]
    if uneven:
        message = f"the state {uneven[0].name} starts with other values in other rows"
        return None, [Finding("batch", message, uneven[0].line, uneven[0].path)]
    batched = Batched(rows)
    trials: dict[Rate, _Trial] = {}
    for rate, program in programs.items():
        trial, problem = _first_that_works(program, steps[rate], rows, batched.states)
        if trial is None:
            return None, [problem or Finding("batch", "the states do not keep their rows in one place")]
        lost = [name[1] for name, value in program.outputs.items() if value not in trial.axes]
        if lost:
            return None, [Finding("batch", f"the output {lost[0]} has no rows", None, lost[0])]
        trials[rate], batched.axes[rate] = trial, trial.axes
        batched.states |= trial.states
    for rate, trial in trials.items():
        trial.apply(programs[rate], rows)
    if rows > 1:  # a package keeps one row of each
        for name, state in states.items():
            if (axis := batched.states[name]) is not None:
                state.initial = state.start.narrow(axis, 0, 1).clone()
    return batched, []


def _first_that_works(
    program: Program, step: Step, rows: int, known: Mapping[str, int | None]
) -> tuple[_Trial | None, Finding | None]:
    """Try where the states could have their rows; the first trial in which they end up where they began."""
    read = {source.name for source in program.sources.values() if source.kind == "state"}
    choices = {
        name: [known[name]] if name in known else _axes(program.states[name].start, rows) for name in sorted(read)
    }
    problem, furthest = None, -1
    repeated = (True, False) if rows > 1 else (False,)
    tried = itertools.product(itertools.product(*choices.values()), repeated)
    for axes, repeat in itertools.islice(tried, _TRIALS):
        trial = _Trial(program, step, rows, dict(zip(choices, axes, strict=True)), repeat=repeat)
        try:
            trial.run()
        except _MixedError as error:
            if len(trial.ops) > furthest:
                furthest, line = len(trial.ops), error.op.line if error.op is not None else None
                problem = Finding("batch", str(error), line)
            continue
        written = {name: trial.axes.get(value) for name, value in program.next.items()}
        if all(axis == {**written, **known, **trial.states}[name] for name, axis in written.items()):
            trial.states |= written
            return trial, None
    return None, problem


class _Trial:
    """One run of the recorded step with another number of rows."""

    def __init__(self, program: Program, step: Step, rows: int, states: dict[str, int | None], *, repeat: bool) -> None:
        """Make a trial.

        Args:
            program: what to run.
            step: with which inputs.
            rows: how many rows were recorded.
            states: the axes of the rows of those states that it reads.
            repeat: whether constants that have as many rows, all of them the same, are made of one row.
        """
        self._program, self._rows, self.states = program, rows, states
        self._more = next(number for number in _TRIAL_ROWS if number != rows)
        self._count = program.next_value()
        self.axes: dict[int, int] = {}
        self._outer: dict[int, int] = {}
        """Value -> how often all rows follow each other on their axis, where it is more than once."""

        self._reshaped: int | None = None
        """The same, for what the operation at hand reshapes."""

        self.ops: list[Op] = []
        self._single: dict[int, tuple[int, str]] = {}
        plain: dict[int, torch.Tensor] = {}
        for value, source in program.sources.items():
            if source.kind == "input":
                name = next(name for name in program.inputs if "/".join(name) == source.name)
                plain[value], axis = step.tape.inputs[name].value.clone(), 0
            elif source.kind == "state":
                plain[value], axis = program.states[source.name].start.clone(), states[source.name]
            else:
                constant = program.constants[source.name]
                plain[value], axis = constant.clone(), None
                if repeat and constant.dim() > 1 and len(constant) == rows and _same_rows(constant, rows):
                    axis = 0
                    self._single[value] = self._count, source.name
                    self._count += 1
            if axis is not None:
                self.axes[value] = axis
        self._plain = plain
        self._values = {value: self._grow(value, tensor) for value, tensor in plain.items()}
        generator = torch.Generator().manual_seed(0)
        self._others: dict[int, torch.Tensor] | None = {
            value: self._disturb(value, tensor, generator) for value, tensor in self._values.items()
        }
        """The same but for all rows other than `_WATCHED`; None where that cannot be computed."""

    def apply(self, program: Program, rows: int) -> None:
        """Make a program of the trial."""
        repeats: list[Op] = []
        for value, (single, name) in self._single.items():
            one = f"{name} (one row)"
            program.constants[one] = program.constants[name].narrow(0, 0, 1).clone()
            del program.sources[value]
            program.sources[single] = Source("constant", one)
            shape: list[Any] = [Rows(1), *[1] * (program.constants[one].dim() - 1)]
            leaves, structure = tree_flatten(((Ref(single), shape), {}))
            repeats.append(Op(aten.repeat.default, leaves, structure, [value], NOWHERE, None))
        program.ops, program.batch = [*repeats, *self.ops], rows

    def run(self) -> None:
        with torch.no_grad():
            for op in self._program.ops:
                self._do(op)

    def _grow(self, value: int, tensor: torch.Tensor) -> torch.Tensor:
        axis = self.axes.get(value)
        if axis is None:
            return tensor.clone()
        index = torch.arange(self._more) % self._rows
        return tensor.index_select(axis, index).clone()

    def _disturb(self, value: int, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        axis = self.axes.get(value)
        if axis is None or not tensor.is_floating_point():
            return tensor.clone()
        noise = torch.randn(tensor.shape, generator=generator).to(tensor.dtype) * _FAR
        noise.select(axis, _WATCHED).zero_()
        return tensor + noise

    def _do(self, op: Op) -> None:
        before = {value: self._plain[value] for value in op.reads()}
        shapes = {value: tensor.shape for value, tensor in before.items()}
        execute([op], self._plain)
        made = _with_leaves(op, self._rewritten(op, shapes))
        try:
            self._execute(made)
        except (RuntimeError, IndexError, ValueError):
            made = self._spread(made)
            try:
                self._execute(made)
            except (RuntimeError, IndexError, ValueError) as error:
                first = str(error).splitlines()[0]
                raise _MixedError(f"{_name(op)} works on {self._rows} rows only: {first}", op) from error
        self.ops.append(made)
        for value in op.results:
            if value is not None:
                self._find_axis(op, value)
        self._check_rows(op, made)

    def _execute(self, op: Op) -> None:
        if schema_name(op) in RECURRENT:  # which torch runs without looking whether the rows agree
            args, _ = tree_unflatten(op.leaves, op.structure)
            given, hidden = self._values[args[0].slot], tree_flatten(args[1])[0]
            rows = given.shape[0 if args[-1] else 1]
            if any(self._values[one.slot].shape[1] != rows for one in hidden):
                raise ValueError("the hidden state has another number of rows")
        execute([op], self._values, self._more)

    def _check_rows(self, op: Op, made: Op) -> None:
        """See whether what one row gets depends on the others."""
        if self._others is None:
            return
        try:
            execute([made], self._others, self._more)
        except (RuntimeError, IndexError, ValueError):  # numbers that it cannot work with
            self._others = None
            return
        for value in (*op.results, *op.reads()):
            if value is None or (axis := self.axes.get(value)) is None:
                continue
            ours, theirs = (self._watched(value, values[value], axis) for values in (self._values, self._others))
            if not close(ours, theirs):
                raise _MixedError(f"{_name(op)} lets the rows depend on each other", op)

    def _watched(self, value: int, tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """What belongs to the row that is watched: its place on an axis, or its places, such as those of its heads."""
        outer = self._outer.get(value, 1)
        if outer * self._more == tensor.shape[axis]:
            return tensor[(slice(None),) * axis + (slice(_WATCHED, None, self._more),)]
        return tensor.unflatten(axis, (outer, self._more, -1)).select(axis + 1, _WATCHED)

    def _find_axis(self, op: Op, value: int) -> None:
        plain, grown = self._plain[value].shape, self._values[value].shape
        if len(plain) != len(grown):
            raise _MixedError(f"{_name(op)} takes the rows for something else", op)
        differing = [axis for axis, (old, new) in enumerate(zip(plain, grown, strict=True)) if old != new]
        if len(differing) > 1 or any(grown[axis] * self._rows != plain[axis] * self._more for axis in differing):
            raise _MixedError(f"{_name(op)} mixes the rows with something else", op)
        if differing:
            self.axes[value] = differing[0]
            outer = self._reshaped or max((self._outer.get(read, 1) for read in op.reads()), default=1)
            if grown[differing[0]] % (outer * self._more) == 0:
                self._outer[value] = outer
        elif any(read in self.axes for read in op.reads()) and value not in self.axes:
            raise _MixedError(f"{_name(op)} mixes the rows, or takes one of them", op)

    def _rewritten(self, op: Op, shapes: dict[int, torch.Size]) -> list[Any]:
        """Its arguments, with lengths that grow with the batch."""
        name, leaves = schema_name(op), list(op.leaves)
        self._reshaped = None
        first = leaves[0].slot if leaves and isinstance(leaves[0], Ref) else None
        axis = self.axes.get(first) if first is not None else None
        if name in _RESHAPES and axis is not None and first is not None:
            shape = list(self._plain[next(value for value in op.results if value is not None)].shape)
            found = _same_place(list(shapes[first]), axis, shape, self._rows, self._outer.get(first, 1))
            if found is not None:
                place, self._reshaped = found
                if leaves[1 + place] != -1:
                    leaves[1 + place] = Rows(shape[place] // self._rows)
        elif name in ("aten::expand", "aten::repeat") and axis is None and first is not None and self._rows > 1:
            sizes = [place for place, leaf in enumerate(leaves) if place and leaf == self._rows]
            if len(sizes) == 1 and _is_broadcast(list(shapes[first]), sizes[0] - 1, leaves):
                leaves[sizes[0]] = Rows(1)
        elif name == "aten::expand" and axis is not None and first is not None:
            sizes = [leaf for leaf in leaves[1:] if isinstance(leaf, int) and not isinstance(leaf, bool)]
            place = axis + len(sizes) - len(shapes[first])
            if leaves[1 + place] != -1:
                leaves[1 + place] = Rows(1)
        elif name in _CREATIONS and self._rows > 1:
            place = 1 if first is not None else 0
            if place < len(leaves) and leaves[place] == self._rows:
                leaves[place] = Rows(1)
        return leaves

    def _spread(self, op: Op) -> Op:
        """Give every argument that has no rows, and could have them, as many as the others have."""
        axes = {self.axes[value] for value in op.reads() if value in self.axes}
        if len(axes) != 1 or op.mutates:
            return op
        axis, leaves = axes.pop(), list(op.leaves)
        for place, leaf in enumerate(leaves):
            if not isinstance(leaf, Ref) or leaf.slot in self.axes:
                continue
            tensor = self._values[leaf.slot]
            if tensor.dim() > axis and tensor.shape[axis] == 1:
                leaves[place] = Ref(self._expanded(op, leaf.slot, axis))
        return _with_leaves(op, leaves)

    def _expanded(self, op: Op, value: int, axis: int) -> int:
        shape: list[Any] = [-1] * self._values[value].dim()
        shape[axis] = Rows(1)
        leaves, structure = tree_flatten(((Ref(value), shape), {}))
        made = Op(aten.expand.default, leaves, structure, [self._count], op.line, op.region)
        self._count += 1
        execute([made], self._plain, self._rows)
        execute([made], self._values, self._more)
        if self._others is not None:
            execute([made], self._others, self._more)
        self.axes[made.results[0] or 0] = axis
        self.ops.append(made)
        return self._count - 1


def _with_leaves(op: Op, leaves: list[Any]) -> Op:
    return dataclasses.replace(op, leaves=leaves)


def _same_place(before: list[int], axis: int, after: list[int], rows: int, outer: int) -> tuple[int, int] | None:
    """The axis of a reshaped tensor that holds what an axis held before, and how often all rows come on it, in a row.

    As much lies in front of the rows as before: on other axes, or on their own one (``view(length * rows, …)``).
    """
    if before == after:
        return axis, outer
    front, found = math.prod(before[:axis]) * outer, list[tuple[int, int]]()
    for place, length in enumerate(after):
        ahead = math.prod(after[:place])
        if ahead and front % ahead == 0 and length % (front // ahead * rows) == 0:
            found.append((place, front // ahead))
    return min(found, key=lambda one: one[1] != 1, default=None)


def _is_broadcast(before: list[int], place: int, leaves: list[Any]) -> bool:
    """Whether a size of an expansion is one that the tensor does not have yet."""
    there = place - (sum(isinstance(leaf, int) for leaf in leaves[1:]) - len(before))
    return there < 0 or before[there] == 1


def _axes(tensor: torch.Tensor, rows: int) -> list[int | None]:
    """Where a state could have its rows; None is nowhere."""
    return [*(axis for axis, length in enumerate(tensor.shape) if length == rows), None]


def _same_rows(tensor: torch.Tensor, rows: int) -> bool:
    axis = _axes(tensor, rows)[0]
    return axis is None or bool((tensor == tensor.narrow(axis, 0, 1)).all())


def _name(op: Op) -> str:
    return f"`{op.line.text or schema_name(op)}`"
