"""What one step of the user's code did: every tensor operation, as it was executed.

A tensor is known by its *slot*, a number in the order of first appearance. In-place operations and views are kept as
they were; slots that share memory share a *group*, so that a write through one is known to change the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils._pytree import tree_flatten

from ashore.capture.counting import Number, Numbers
from ashore.capture.formulas import Formulas
from ashore.capture.lines import Line, attribute_path, line_of, user_frame, user_line
from ashore.capture.operations import Op, Ref, Target, forgets, schema_name
from ashore.capture.tensors import Place, memory_of, place_of, same, snapshot, span_of, version_of
from ashore.capture.views import express

Name: TypeAlias = tuple[str, str]
"""(node, port)."""

_COPYING = frozenset(f"aten::{name}" for name in ("clone", "detach", "alias", "_to_copy", "lift_fresh", "contiguous"))

aten = torch.ops.aten


class Held(list[torch.Tensor]):
    """Tensors that a tape holds, to be told from lists of the user's."""


class Expected(NamedTuple):
    """An operation that is about to be executed."""

    target: Target
    leaves: list[Any]
    structure: Any
    memories: dict[int, int]
    """Memory -> a slot that lies in it, among its arguments."""

    written: tuple[int, ...]
    """The slots that it writes into."""


class Capture(NamedTuple):
    """A tensor that a step read, that nobody had declared and no operation of the step had produced."""

    slot: int
    tensor: torch.Tensor
    value: torch.Tensor
    """A copy of what it held when it was first read."""

    version: int | None
    line: Line
    path: str | None
    created: bool
    """Whether it was made in the step itself, by `torch.tensor` and the like."""

    place: Place
    """Where in memory it lay then."""

    touched: bool = False
    """Whether something wrote into its memory since the step before, outside of resets."""


class Declared(NamedTuple):
    """A tensor that the user declared."""

    slot: int
    tensor: torch.Tensor
    value: torch.Tensor
    """A copy of what it held then."""

    at: int
    """How many operations had been recorded by then."""

    line: Line
    place: Place
    """Where in memory it lay then."""

    inner: bool = False
    """For an input: whether the step had computed it from what was declared before, so that it comes from inside."""

    captured: bool = False
    """For an output: whether no operation of the step has it as its result."""


class Leak(NamedTuple):
    """A value that left the tape into Python."""

    slot: int
    how: str
    at: int
    line: Line
    outputs: int = 0
    """How many outputs had been declared."""


@dataclass
class Tape:
    """The record of one step."""

    ops: list[Op] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    """Slot -> group."""

    captures: dict[int, Capture] = field(default_factory=dict)
    """Slot -> what was captured."""

    inputs: dict[Name, Declared] = field(default_factory=dict)
    outputs: dict[Name, Declared] = field(default_factory=dict)
    states: dict[Name, Declared] = field(default_factory=dict)
    """States that the user declared, as they were when the step began with them."""

    updates: dict[Name, Declared] = field(default_factory=dict)
    """What the user said those states become."""

    leaks: list[Leak] = field(default_factory=list)
    odd: list[tuple[str, Line]] = field(default_factory=list)
    """Operations on tensors that cannot be recorded, such as sparse ones."""

    region: str | None = None
    """The node that is open."""

    begun: FrameType | None = None
    """The function of the user's code in which the step began."""

    begun_at: int = -1
    """The instruction at which that function was then."""

    paths: dict[int, tuple[torch.Tensor, str | None]] = field(default_factory=dict)
    """Id -> (tensor, path) of what earlier steps had captured, so that it is looked for once."""

    copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    """Id -> (tensor, copy) of what earlier steps had captured."""

    touched: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """Memory that was written to since the step before."""

    numbers: dict[tuple[int, str], tuple[Number, str, Line]] = field(default_factory=dict)
    """Numbers of Python that the step could see when it ended."""

    _counting: Numbers = field(default_factory=Numbers)
    _tensors: Held = field(default_factory=Held)
    _places: list[Place] = field(default_factory=list)
    _by_id: dict[int, int] = field(default_factory=dict)
    _by_place: dict[Place, int] = field(default_factory=dict)
    _at: dict[Place, list[int]] = field(default_factory=dict)
    _roots: dict[int, list[int]] = field(default_factory=dict)
    """Memory -> the slots in it that are no views of others."""

    _derived: set[int] = field(default_factory=set)
    """Groups that hold something computed from what was declared."""

    _cuts: set[int] = field(default_factory=set)
    """Slots of inputs that were declared by their callbacks, which the code may read by other ways."""

    _formulas: Formulas = field(default_factory=Formulas)

    _kept: Held = field(default_factory=Held)
    """Everything seen stays alive while the tape does, so that no other tensor can take its place in memory."""

    def use(self, tensor: torch.Tensor, *, created: bool = False) -> int:
        """The slot of a tensor that is read: known, a view of something known, or else captured."""
        slot = self.find(tensor)
        if slot is not None:
            return slot
        for root in reversed(self._roots.get(memory_of(tensor), [])):
            steps = express(self._tensors[root], tensor)
            if steps is not None:
                return self._view(root, tensor, steps)
        if parts := self._parts(tensor):
            return self._compose(tensor, parts)
        if aliases := self._aliases(tensor):
            self._merge(tensor, aliases)
            return self.use(tensor)
        slot = self._add(tensor)
        path = None if created else self._path(tensor)
        created = created or (path is None and tensor.dim() == 0)  # a number that was written into a tensor
        where = user_line()
        self.captures[slot] = Capture(
            slot,
            tensor,
            self._shared_snapshot(tensor),
            version_of(tensor),
            where,
            path,
            created,
            place_of(tensor),
            memory_of(tensor) in self.touched,
        )
        return slot

    def find(self, tensor: torch.Tensor) -> int | None:
        """The slot of a tensor, or of one that lies at the same place in memory."""
        slot, place = self._by_id.get(id(tensor)), place_of(tensor)
        # `t.data = other` moves a tensor without any operation, so the place decides.
        if slot is None or self._places[slot] != place:
            slot = self._by_place.get(place)
            if slot is not None:
                self._by_id[id(tensor)] = slot
                self._kept.append(tensor)
        return slot

    def given(self) -> list[Declared]:
        """What was declared that the step starts from: inputs and states."""
        return [*self.inputs.values(), *self.states.values()]

    def dtype(self, slot: int) -> torch.dtype:
        """The dtype of a slot."""
        return self._tensors[slot].dtype

    def place(self, slot: int) -> Place:
        """Where a slot lies."""
        return self._places[slot]

    def slots_at(self, place: Place) -> list[int]:
        """Every slot that lies there, since the last declaration there."""
        return self._at.get(place, [])

    def finish(self) -> None:
        """Say that the step has ended."""
        self.begun = None
        self.numbers = self._counting.read()

    def tensor(self, slot: int) -> torch.Tensor:
        """The tensor of a slot, as it is now."""
        return self._tensors[slot]

    def writes(self, slot: int) -> bool:
        """Whether an operation wrote into what a slot is a part of."""
        return any(self.groups[slot] in op.mutates for op in self.ops)

    def written(self) -> dict[int, torch.Tensor]:
        """Memory that operations wrote into -> a tensor in it."""
        groups = {group for op in self.ops for group in op.mutates}
        return {self._places[slot][0]: self._tensors[slot] for slot in groups}

    def untouch(self, memories: Collection[int]) -> None:
        """Say that what was written there since the step before was a reset."""
        for slot, capture in self.captures.items():
            if capture.place[0] in memories:
                self.captures[slot] = capture._replace(touched=False)

    def writes_at(self, place: Place) -> bool:
        """Whether an operation wrote into the memory of a place, through whatever tensor."""
        groups = {self.groups[slot] for slot, other in enumerate(self._places) if other[0] == place[0]}
        return any(groups & op.mutates for op in self.ops)

    def declare_called(self, tensor: torch.Tensor, since: int, line: Line) -> Declared:
        """Declare what a callback gave: a tensor, a part of one, or something that it computed.

        Where the code takes the same part later, or computes the same from the same tensors, that is what was declared.

        Args:
            tensor: what it gave.
            since: how many operations had been recorded when it was called.
            line: where it was written.
        """
        # What it gives is an input, however it was made.
        self.leaks[:] = [leak for leak in self.leaks if leak.at < since]
        made = self.use(tensor)
        while (copied := self._copied(made, since)) is not None:
            made = copied
        tensor = self._tensors[made]
        memory = memory_of(tensor)
        # What the callback found in this memory is found anew, as a part of what is declared.
        for slot, capture in self.captures.items():
            if self._places[slot][0] == memory:
                self.paths.pop(id(capture.tensor), None)
        self._by_id = {key: slot for key, slot in self._by_id.items() if self._places[slot][0] != memory}
        self._by_place = {
            place: slot for place, slot in self._by_place.items() if place[0] != memory or slot in self._cuts
        }
        self._at = {place: slots for place, slots in self._at.items() if place[0] != memory}
        self._roots[memory] = [slot for slot in self._roots.get(memory, ()) if slot in self._cuts]
        declared = self.declare(tensor)._replace(line=line)
        self._cuts.add(declared.slot)
        for op in self.ops[since:]:
            self._formulas.learn(op, self, declared.slot if op.results == [made] else None)
        return declared

    def _copied(self, slot: int, since: int) -> int | None:
        """What a slot is a plain copy of, where a callback made it."""
        for op in reversed(self.ops[since:]):
            if op.results == [slot] and op.reads() != [slot] and schema_name(op) in _COPYING:
                source = op.reads()[0]
                return source if self.dtype(source) == self.dtype(slot) else None
        return None

    def declare(self, tensor: torch.Tensor, *, join: bool = False) -> Declared:
        """Give a tensor a slot of its own from here on, cut off from whatever computed it.

        Args:
            tensor: what is declared.
            join: do not cut it off if it was computed from something that was declared earlier in the step.
        """
        slot = self.find(tensor)
        inner = join and slot is not None and self.groups[slot] in self._derived
        if slot is None or not inner:
            self._at.pop(place_of(tensor), None)
            slot = self._add(tensor)
        self._derived.add(self.groups[slot])
        return Declared(slot, tensor, snapshot(tensor), len(self.ops), user_line(), place_of(tensor), inner)

    def note(self, tensor: torch.Tensor) -> Declared:
        """Remember which slot a tensor has, and what it holds, at this point."""
        slot = self.use(tensor)
        captured = slot in self.captures
        if captured:  # then no operation of the step has it as its result yet
            copy = snapshot(tensor)
            self.record(self.expect(aten.clone.default, (tensor,), {}), copy)
            slot = self.use(copy)
        return Declared(slot, tensor, snapshot(tensor), len(self.ops), user_line(), place_of(tensor), captured=captured)

    def expect(
        self,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: Sequence[torch.Tensor] = (),
        *,
        created: bool = False,
    ) -> Expected:
        """Look at the arguments of an operation before it is executed, since it may change them.

        Args:
            target: the operation.
            args: its positional arguments.
            kwargs: its keyword arguments.
            written: those of its arguments that it writes into.
            created: whether it takes up a tensor that was just made of numbers.
        """
        flat, structure = tree_flatten((args, kwargs))
        leaves, memories = list(flat), {}
        for place, leaf in enumerate(flat):
            if isinstance(leaf, torch.Tensor):
                leaves[place] = Ref(self.use(leaf, created=created))
                memories[memory_of(leaf)] = leaves[place].slot
            elif isinstance(leaf, torch.device):
                leaves[place] = torch.device("cpu")  # where it will be done again
        return Expected(target, leaves, structure, memories, tuple(self.use(tensor) for tensor in written))

    def record(self, expected: Expected, result: Any) -> None:
        """Add an operation that has just been executed, with what it gave."""
        target, leaves, structure, memories, written = expected
        results: list[int | None] = []
        for value in tree_flatten(result)[0]:
            if not isinstance(value, torch.Tensor):
                results.append(None)
                continue
            if value.layout is not torch.strided or value.is_nested:
                self.odd.append((str(target), user_line()))
                return
            slot = self.find(value)
            if slot is None:
                source = memories.get(memory_of(value))
                slot = self._add(value, None if source is None else self.groups[source])
            results.append(slot)
        mutates = frozenset(self.groups[slot] for slot in written)
        whole = (
            frozenset(self.groups[slot] for slot in written if self._covers(slot)) if forgets(target) else frozenset()
        )
        frame = user_frame()
        if frame is not None:
            self._counting.look(frame)
        op = Op(target, leaves, structure, results, line_of(frame), self.region, mutates, whole)
        if self._cuts and not mutates:
            single = len(results) == 1 and results[0] is not None
            if single and self._cut_of(tree_flatten(result)[0][0], op) is not None:
                return
            declared = self._formulas.recognise(op, self)
            if declared is not None:
                flat, structure = tree_flatten(((Ref(declared),), {}))
                op = dataclasses.replace(op, target=aten.clone.default, leaves=flat, structure=structure)
        self.ops.append(op)
        self._formulas.follow(op)
        if any(self.groups[slot] in self._derived for slot in op.reads()):
            self._derived |= mutates | {self.groups[slot] for slot in results if slot is not None}

    def _parts(self, tensor: torch.Tensor) -> dict[int, list[tuple[Target, tuple[Any, ...]]]]:
        """Inputs declared by callbacks that a tensor is made of, if they are all of it, and where they lie in it."""
        inside = [slot for slot in sorted(self._cuts) if self._places[slot][0] == memory_of(tensor)]
        parts = {slot: steps for slot in inside if (steps := express(tensor, self._tensors[slot]))}
        covered = torch.zeros(tensor.shape, dtype=torch.bool)
        for steps in parts.values():
            if _copies(steps):
                return {}
            _through(covered, steps).fill_(True)
        return parts if parts and bool(covered.all()) else {}

    def _compose(self, tensor: torch.Tensor, parts: dict[int, list[tuple[Target, tuple[Any, ...]]]]) -> int:
        """Record how a tensor is put together from its parts."""
        line, root = user_line(), self._add(tensor)
        leaves, structure = tree_flatten(((list(tensor.shape),), {"dtype": tensor.dtype}))
        self.ops.append(Op(aten.zeros.default, leaves, structure, [root], line, self.region))
        for part, steps in parts.items():
            value, slot = tensor, root
            for target, arguments in steps:
                value = target(value, *arguments)
                leaves, structure = tree_flatten(((Ref(slot), *arguments), {}))
                slot = len(self.groups)
                self.groups.append(root)
                self._tensors.append(value)
                self._places.append(place_of(value))
                self.ops.append(Op(target, leaves, structure, [slot], line, self.region))
            leaves, structure = tree_flatten(((Ref(slot), Ref(part)), {}))
            self.ops.append(
                Op(aten.copy_.default, leaves, structure, [slot], line, self.region, mutates=frozenset({root}))
            )
        return root

    def _cut_of(self, value: torch.Tensor, op: Op) -> int | None:
        """The slot of a view, where it is a part of an input that was declared by its callback."""
        slot = op.results[0]
        if slot is None or not any(self._places[read][0] == place_of(value)[0] for read in op.reads()):
            return None
        if slot in self._cuts:
            return slot
        if any(self.groups[read] in self._cuts for read in op.reads()):
            return None
        for root in self._cuts:
            if self._places[root][0] == self._places[slot][0]:
                steps = express(self._tensors[root], value)
                if steps:
                    return self._view(root, value, steps)
        return None

    def _covers(self, slot: int) -> bool:
        """Whether a slot is all there is of its group."""
        return self._tensors[slot].numel() == self._tensors[self.groups[slot]].numel()

    def _add(self, tensor: torch.Tensor, group: int | None = None) -> int:
        slot, place = len(self.groups), place_of(tensor)
        self.groups.append(slot if group is None else group)
        self._tensors.append(tensor)
        self._places.append(place)
        self._by_id[id(tensor)] = slot
        self._by_place[place] = slot
        self._at.setdefault(place, []).append(slot)
        if group is None:
            self._roots.setdefault(place[0], []).append(slot)
        return slot

    def _shared_snapshot(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor, shared with earlier steps while it holds the same."""
        known = self.copies.get(id(tensor))
        if known is None or known[0] is not tensor or not same(known[1], tensor):
            known = self.copies[id(tensor)] = tensor, snapshot(tensor)
        return known[1]

    def _path(self, tensor: torch.Tensor) -> str | None:
        if id(tensor) not in self.paths:
            self.paths[id(tensor)] = tensor, attribute_path(tensor)
        return self.paths[id(tensor)][1]

    def _aliases(self, tensor: torch.Tensor) -> list[int]:
        """Captured tensors that lie partly where another tensor lies, so that writing into one changes the other."""
        low, high = span_of(tensor)
        roots = [slot for slot in self._roots.get(memory_of(tensor), []) if slot in self.captures]
        spans = {slot: span_of(self._tensors[slot]) for slot in roots if self._tensors[slot].dtype == tensor.dtype}
        return [slot for slot, (first, last) in spans.items() if first <= high and low <= last]

    def _merge(self, tensor: torch.Tensor, aliases: list[int]) -> None:
        """Capture the memory that several tensors lie in, and make those that were captured already views of it."""
        whole = _whole_of(tensor, [self._tensors[slot] for slot in aliases])
        views = {slot: express(whole, self._tensors[slot]) or [] for slot in aliases}
        root = self._add(whole)
        value = snapshot(whole)
        for slot in aliases:  # as they were when the step found them
            _through(value, views[slot]).copy_(self.captures[slot].value)
        first = self.captures[aliases[0]]
        self.captures[root] = first._replace(slot=root, tensor=whole, value=value, place=place_of(whole))
        made: list[Op] = []
        for slot in aliases:
            line = self.captures.pop(slot).line
            made += self._view_ops(root, slot, views[slot], line)
            self._regroup(slot, root)
        self.ops[:0] = made
        for declared in (self.inputs, self.outputs, self.states, self.updates):
            declared.update({name: one._replace(at=one.at + len(made)) for name, one in declared.items()})
        self.leaks[:] = [leak._replace(at=leak.at + len(made)) for leak in self.leaks]

    def _view_ops(self, root: int, slot: int, steps: list[tuple[Target, tuple[Any, ...]]], line: Line) -> list[Op]:
        """Operations that make a known slot a view of another."""
        value, source, made = self._tensors[root], root, []
        for number, (target, arguments) in enumerate(steps):
            value = target(value, *arguments)
            result = slot if number == len(steps) - 1 else self._add(value, self.groups[root])
            leaves, structure = tree_flatten(((Ref(source), *arguments), {}))
            made.append(Op(target, leaves, structure, [result], line, None))
            source = result
        return made

    def _regroup(self, old: int, new: int) -> None:
        """Let everything that belonged to one group belong to another."""
        self.groups[:] = [new if group == old else group for group in self.groups]
        self._roots[memory_of(self._tensors[old])].remove(old)
        for op in self.ops:
            if old in op.mutates:
                op.mutates = op.mutates - {old} | {new}
                op.overwrites = op.overwrites - {old}
        if old in self._derived:
            self._derived.add(new)

    def _view(self, root: int, tensor: torch.Tensor, steps: list[tuple[Target, tuple[Any, ...]]]) -> int:
        """Record the operations that make a view which the user holds."""
        value, slot = self._tensors[root], root
        for number, (target, arguments) in enumerate(steps):
            made = target(value, *arguments)
            group = self.groups[slot] if memory_of(made) == memory_of(value) else None
            value = tensor if number == len(steps) - 1 and group is not None else made
            leaves, structure = tree_flatten(((Ref(slot), *arguments), {}))
            slot = self._add(value, group)
            self.ops.append(Op(target, leaves, structure, [slot], user_line(), self.region))
        self._by_id[id(tensor)] = slot
        self._by_place[place_of(tensor)] = slot
        self._kept.append(tensor)
        return slot


def _whole_of(tensor: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    """A tensor that all of those are views of: one of them, what they were made from, or all of their memory."""
    for whole in (tensor, tensor._base):
        if whole is not None and whole.dtype == tensor.dtype:
            views = [express(whole, other) for other in (tensor, *others)]
            if all(steps is not None and not _copies(steps) for steps in views):
                return whole.detach()
    storage = tensor.untyped_storage()
    return tensor.detach().new_empty(0).set_(storage, 0, (storage.nbytes() // tensor.element_size(),), (1,))


def _copies(steps: list[tuple[Target, tuple[Any, ...]]]) -> bool:
    return any(target is aten.index_select.default for target, _ in steps)


def _through(tensor: torch.Tensor, steps: list[tuple[Target, tuple[Any, ...]]]) -> torch.Tensor:
    for target, arguments in steps:
        tensor = target(tensor, *arguments)
    return tensor
