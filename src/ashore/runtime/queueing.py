"""The runner ``action_queue``: a decision gives a chunk of actions, and they are executed one call after the other.

In the manifest the queue is a stage, the processor ``action_queue``, with two states: what it holds and how much of it
is left. That says exactly what it does. Running it so would compute a chunk in every call and throw most of them away,
so the runtime takes the stage out of the graph and does its work here: while something is left, only what the other
states need is run, such as a history of observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from ashore.errors import InputError, ManifestError
from ashore.package import Array, Arrays
from ashore.runtime.plan import Plan
from ashore.spec import ACTION_QUEUE, Dim, Endpoint, Manifest, Port, Wire, Wiring, concrete

CHUNK = "chunk"
"""The output of a decision, where the queue is taken out."""


class Queue(NamedTuple):
    """What a manifest says of its queue."""

    stage: str
    chunk: Port
    output: str
    """The output of the package that it gives."""

    queue: str
    """The state with the actions."""

    shape: tuple[Dim, ...]
    """Of that state: ``[batch, n, dim]``."""

    left: str
    """The state with the number of actions that are left."""

    rest: Manifest
    """The manifest without the queue. Its output is the chunk."""


def find_queue(manifest: Manifest, where: str) -> Queue | None:
    """Take the queue out of a manifest whose runner is ``action_queue``; None for other runners.

    Args:
        manifest: a checked manifest.
        where: what to call the package in an error.
    """
    if manifest.runner.type != ACTION_QUEUE:
        return None
    names = [
        name for name, stage in manifest.stages.items() if stage.processor and stage.processor.type == ACTION_QUEUE
    ]
    if len(names) != 1 or manifest.runner.params:
        raise ManifestError(f"{where}: the runner {ACTION_QUEUE!r} needs one stage that is such a processor, no params")
    (name,), graph = names, Wiring(manifest)
    stage = manifest.stages[name]
    sources = {port: graph.into(Endpoint(name, port))[0] for port in stage.inputs}
    states = {port: source.name for port, source in sources.items() if source.group == "states"}
    outputs = [end for port in stage.outputs for end in graph.out_of(Endpoint(name, port)) if end.group != "states"]
    if len(sources) != 3 or len(states) != 2 or len(outputs) != 1 or outputs[0].group != "outputs":
        raise ManifestError(
            f"{where}: stage {name!r}: expected a chunk and two states as inputs, and one package output, got "
            f"{sorted(map(str, sources.values()))} and {sorted(map(str, outputs))}"
        )
    if set(manifest.outputs) != {outputs[0].name}:
        raise ManifestError(
            f"{where}: with {ACTION_QUEUE!r} all outputs come from the queue, got {sorted(manifest.outputs)}"
        )
    (chunk,) = sources.keys() - states.keys()
    left, queue = sorted(states.values(), key=lambda state: len(manifest.states[state].shape))
    if manifest.states[left].shape != (1,):
        raise ManifestError(
            f"{where}: state {left!r} has the shape {list(manifest.states[left].shape)}; expected [1], since the "
            f"runner {ACTION_QUEUE!r} decides for all rows at once"
        )
    rest = msgspec.structs.replace(
        manifest,
        outputs={CHUNK: stage.inputs[chunk]},
        stages={other: spec for other, spec in manifest.stages.items() if other != name},
        states={other: spec for other, spec in manifest.states.items() if other not in (queue, left)},
        wires=(
            *(wire for wire in manifest.wires if name not in (_group(wire.source), _group(wire.target))),
            Wire(str(sources[chunk]), f"outputs/{CHUNK}"),
        ),
    )
    return Queue(name, stage.inputs[chunk], outputs[0].name, queue, manifest.states[queue].shape, left, rest)


def _group(end: str) -> str:
    return end.partition("/")[0]


class ActionQueue:
    """The actions that were decided and not yet executed.

    Args:
        queue: what the manifest says.
        plan: of the manifest without the queue.
        batch: the length of the symbolic batch axis.
    """

    def __init__(self, queue: Queue, plan: Plan, batch: int) -> None:
        self._queue, self._decide = queue, plan.runs["policy"]
        self._remember, self._needed = plan.remember()
        rows, self._length, *rest = concrete(queue.shape, batch)
        self._actions = np.zeros((self._length, rows, *rest), queue.chunk.dtype)
        self.left = 0
        """How many actions are left."""

    @property
    def idle(self) -> bool:
        """Whether the next call looks at nothing."""
        return self.left > 0 and self._remember is None

    def step(self, inputs: Arrays) -> dict[str, Array]:
        """The next action; decide first if none is left."""
        if not self.left:
            self.fill(self._decide(inputs)[CHUNK])
        elif self._remember is not None:
            self._remember(self._pick(inputs))
        return {self._queue.output: self.pop()}

    def fill(self, chunk: Array) -> None:
        """Take the first actions of a chunk."""
        self._actions[...] = np.moveaxis(chunk[:, : self._length], 1, 0)
        self.left = self._length

    def pop(self) -> Array:
        """The next action of those that are left; the caller's own."""
        action = self._actions[self._length - self.left].copy()
        self.left -= 1
        return action

    def decide(self, inputs: Arrays) -> Array:
        """A chunk, which is not queued."""
        return self._decide(inputs)[CHUNK]

    def state(self) -> dict[str, Array]:
        """What the states of the queue hold."""
        return {
            self._queue.queue: np.moveaxis(self._actions, 0, 1).copy(),
            self._queue.left: np.array([self.left], np.int64),
        }

    def restore(self, values: Arrays) -> None:
        """Go back to what `state` gave."""
        left = int(values[self._queue.left].item())
        if not 0 <= left <= self._length:
            raise InputError(
                f"restore: state {self._queue.left!r} is {left}; the queue holds 0 to {self._length} actions"
            )
        self._actions[...] = np.moveaxis(values[self._queue.queue], 1, 0)
        self.left = left

    def _pick(self, inputs: Arrays) -> Mapping[str, Array]:
        missing = [name for name in self._needed if name not in inputs]
        if missing:
            raise InputError(
                f"step: input {missing[0]!r} is missing; expected {list(self._needed)}, got {sorted(inputs)}"
            )
        return {name: inputs[name] for name in self._needed}
