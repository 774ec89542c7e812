"""A policy that drives a robot: read, run, write, each at its rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ashore.errors import InputError, OrderError
from ashore.package import Array
from ashore.runtime.commands import Command, as_command
from ashore.runtime.guard import Watch
from ashore.runtime.matching import Match, Places
from ashore.runtime.robot import Robot, Signal
from ashore.spec import Port, Rate, concrete

if TYPE_CHECKING:
    from ashore.runtime.policy import Policy
    from ashore.runtime.ranges import Alarm


class Link(NamedTuple):
    """How an input is filled from a signal."""

    port: str
    signal: str
    places: Places
    signs: Array | None
    """1 or -1 for each element, where a joint turns the other way round."""

    shape: tuple[int, ...]
    """Of the signal."""

    image: bool
    """Whether its numbers have a range that depends on their type, so that whole numbers are no fractions."""

    value: Array
    """What the policy is given; the same array in every tick."""

    @classmethod
    def make(cls, found: Match, port: Port, signal: Signal) -> Link:
        """Make room for what an input will be."""
        value = np.zeros(concrete(port.shape, 1), port.dtype)
        shape = value.shape if signal.to_order else signal.shape
        image = signal.kind.startswith("sensor/image/")
        return cls(found.port, found.signal, found.places, _signs(signal, found.places), shape, image, value)

    def fill(self, values: Mapping[str, Array]) -> None:
        """Take the value out of what the robot read."""
        if self.signal not in values:
            raise InputError(f"robot.read: {self.signal!r} was asked for and is missing; got {sorted(values)}")
        array, dtype = np.asarray(values[self.signal]), self.value.dtype
        if array.shape != self.shape:
            raise InputError(
                f"robot.read: {self.signal!r}: expected shape {list(self.shape)}, got {list(array.shape)}; "
                f"nothing is broadcast"
            )
        fits = array.dtype.kind == dtype.kind if self.image else np.can_cast(array.dtype, dtype, "same_kind")
        if not fits:
            raise InputError(f"robot.read: {self.signal!r}: {array.dtype} does not fit the port's {dtype}")
        if self.places.rows is not None:
            array = array[self.places.rows]
        if self.places.elements is not None:
            array = array[..., self.places.elements]
        if self.signs is not None:
            array = array * self.signs
        self.value[...] = array.reshape(self.value.shape)


class Sink(NamedTuple):
    """Where an output goes in a signal."""

    port: str
    signal: str
    places: Array
    """Element of the port -> its place in what is written."""

    signs: Array | None
    width: int
    """How many elements are written."""

    @classmethod
    def make(cls, found: Match, signal: Signal, written: Sequence[str]) -> Sink:
        """Say where the elements of an output go among those that are written."""
        places = [written.index(element_name(signal, place)) for place in element_places(found)]
        width = len(written)
        return cls(found.port, found.signal, np.array(places, np.intp), _signs(signal, found.places), width)


def element_places(found: Match) -> list[int]:
    """Element of a port -> its place on the last axis of the signal."""
    return [] if found.places.elements is None else [int(place) for place in found.places.elements]


def element_name(signal: Signal, place: int) -> str:
    """What an element of a signal is called; its number, if it has no name."""
    return signal.names[place] if signal.names else str(place)


def _signs(signal: Signal, places: Places) -> Array | None:
    if places.elements is None or -1 not in signal.signs:
        return None
    return np.array(signal.signs, np.float64)[places.elements]


class Bound:
    """A policy bound to a robot. Made by `Policy.bind`; not for use by several threads at once.

    Call `tick` at the rate of the substeps, or `step` and `substep` yourself; not both within an episode.
    """

    def __init__(
        self,
        policy: Policy,
        robot: Robot,
        read: Mapping[Rate, Sequence[Link]],
        write: Mapping[Rate, Sequence[Sink]],
        commands: Mapping[str, Array | Callable[[], Any]],
        watch: Watch | None = None,
    ) -> None:
        self._policy = policy
        self._robot = robot
        self._read = read
        self._write = write
        self._commands = dict(commands)
        self._watch = watch
        self._needed = {rate: tuple(dict.fromkeys(link.signal for link in links)) for rate, links in read.items()}
        self._inputs: dict[Rate, tuple[str, ...]] = {"policy": policy.step_inputs, "substep": policy.substep_inputs}
        self._substeps = any(stage.rate == "substep" for stage in policy.manifest.stages.values())
        self._since: int | None = None
        """Ticks since the last decision; None until the first reset."""

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._policy

    @property
    def robot(self) -> Robot:
        """What is driven."""
        return self._robot

    @property
    def has_substeps(self) -> bool:
        """Whether the package also acts between decisions."""
        return self._substeps

    @property
    def decimation(self) -> int:
        """Ticks in a decision."""
        timing = self._policy.manifest.timing
        return timing.decimation if timing else 1

    @property
    def due(self) -> bool:
        """Whether the next `tick` decides."""
        return self._since is None or self._since % self.decimation == 0

    @property
    def tripped(self) -> str | None:
        """Why the guard has ended this episode, or None; `reset` starts a new one."""
        return self._watch.cause if self._watch is not None else None

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Inputs that were far outside of what the export saw, each once; see `Guard.ranges`."""
        return self._watch.alarms if self._watch is not None else ()

    @property
    def signals(self) -> Mapping[str, str]:
        """Port -> the signal of the robot that it is bound to; commands and unused outputs are not among them."""
        both = (*self._read.values(), *self._write.values())
        return MappingProxyType({one.port: one.signal for links in both for one in links})

    @property
    def commands(self) -> Mapping[str, Array]:
        """Command -> its value now, of the port's dtype and shape."""
        return MappingProxyType({name: self._command(name).copy() for name in self._commands})

    def command(self, name: str, value: Command) -> None:
        """Change a command, from the next tick on.

        Args:
            name: one of `commands`.
            value: a number for each element, or a function that gives them.
        """
        if name not in self._commands:
            raise InputError(f"command {name!r} is none of the commands that were bound: {sorted(self._commands)}")
        self._commands[name] = value if callable(value) else self._checked(name, value)

    def reset(self) -> None:
        """Start an episode: of the policy's states, and of the robot."""
        self._since = None
        self._policy.reset()
        self._robot.reset()
        if self._watch is not None:
            self._watch.reset()
        self._since = 0

    def step(self) -> dict[str, Array]:
        """Decide: read the robot, run the policy once, write what it gives.

        Returns:
            Every output of the policy rate, also those that are not written: name -> array, as `Policy.step` does.
        """
        outputs = self._run("policy", self._policy.step)
        self._since = 0
        return outputs

    def substep(self) -> dict[str, Array]:
        """Act between decisions: read, run the substep stages once, write. An error if the package has none."""
        outputs = self._run("substep", self._policy.substep)
        self._since = (self._since or 0) + 1
        return outputs

    def tick(self) -> dict[str, Array]:
        """Do what is due at this tick of the robot: decide in every `decimation`-th, and substep if there are any.

        Returns:
            The outputs that were computed; none in a tick between decisions of a package without substeps.
        """
        outputs = self.step() if self.due else {}
        if self._substeps:
            return {**outputs, **self.substep()}
        self._since = (self._since or 0) + 1
        return outputs

    def _run(self, rate: Rate, run: Callable[[dict[str, Array]], dict[str, Array]]) -> dict[str, Array]:
        if self._since is None:
            raise OrderError("a bound policy starts with reset(), so that robot and policy start together")
        if self.tripped is not None:
            raise OrderError(f"the guard has tripped, and nothing more is written before a reset(): {self.tripped}")
        try:
            return self._read_run_write(rate, run)
        except BaseException as error:  # Ctrl-C too: whatever ends a tick, the robot must be told
            if self._watch is not None:
                self._watch.trip(error)
            raise

    def _read_run_write(self, rate: Rate, run: Callable[[dict[str, Array]], dict[str, Array]]) -> dict[str, Array]:
        began, watch = perf_counter(), self._watch
        links, needed = self._read[rate], self._needed[rate]
        values: Mapping[str, Array] = self._robot.read(needed) if needed else {}
        if watch is not None:
            watch.check_read(values)
        for link in links:
            link.fill(values)
        inputs = {link.port: link.value for link in links}
        inputs |= {name: self._command(name) for name in self._inputs[rate] if name in self._commands}
        if watch is not None:
            watch.check_inputs(inputs)
        outputs = run(inputs)
        if watch is not None:
            watch.check_outputs(outputs, perf_counter() - began)
        written: dict[str, Array] = {}
        for sink in self._write[rate]:
            if sink.signal not in written:
                written[sink.signal] = np.zeros(sink.width)
            value = outputs[sink.port].reshape(-1)
            written[sink.signal][sink.places] = value if sink.signs is None else value * sink.signs
        if written:
            self._robot.write(written)
        return outputs

    def _command(self, name: str) -> Array:
        value = self._commands[name]
        return self._checked(name, value()) if callable(value) else value

    def _checked(self, name: str, value: Any) -> Array:
        return as_command(name, self._policy.manifest.inputs[name], value)
