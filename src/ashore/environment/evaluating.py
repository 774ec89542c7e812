"""Comparing an exported file with its environment, tick by tick.

The environment runs by its own step. At every decision the file must give the same observations and actions, and at
every tick the same outputs and the same memory. Each row of several environments is a robot of its own, with a memory
of its own. The environment is as it was when this is done.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ashore.environment.components import Input, Memory
from ashore.environment.context import ContextManager
from ashore.environment.exportable import ExportableEnvironment, Observations
from ashore.environment.keeping import kept
from ashore.environment.recognition import PartName
from ashore.environment.session import SessionWrapper
from ashore.environment.walking import Shapes, Walk, named_observations, prepare
from ashore.errors import InputError, VerificationError
from ashore.interop.exploy.note import read_note
from ashore.package import Array
from ashore.runtime.one_file import NOTE
from ashore.spec import Wiring

_SHOWN = 20


@dataclass(frozen=True)
class Mismatch:
    """An element that differs too much."""

    decision: int
    tick: int
    """Within the decision, from 0."""

    episode: int
    row: int
    port: str
    element: str
    environment: float
    file: float


@dataclass
class Evaluation:
    """What a comparison found, over everything that was compared."""

    decisions: int = 0
    ticks: int = 0
    resets: int = 0
    compared: int = 0
    """How many numbers were compared."""

    worst: dict[str, float] = field(default_factory=dict[str, float])
    """Port -> the largest absolute difference."""

    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])

    @property
    def ok(self) -> bool:
        """Whether everything agreed."""
        return not self.mismatches


def evaluate(
    env: ExportableEnvironment,
    context_manager: ContextManager,
    session_wrapper: SessionWrapper,
    num_steps: int | None = None,
    verbose: bool = True,
    pause_on_failure: bool = False,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    reset_from_onnx_counter_steps: int | None = 50,
    *,
    num_episodes: int | None = None,
    max_episode_steps: int | None = None,
) -> tuple[bool, Observations]:
    """Run an environment and its exported file side by side, and compare them at every tick.

    Args:
        env: the environment. Everything is put back when this returns.
        context_manager: what was registered about it.
        session_wrapper: the file, with the actor that the environment is to be driven by.
        num_steps: how many decisions to compare, over as many episodes as there are among them.
        verbose: whether to show progress, and every mismatch in a table.
        pause_on_failure: whether to wait for a key after a decision with a mismatch, on a terminal.
        atol: absolute tolerance.
        rtol: relative tolerance.
        reset_from_onnx_counter_steps: after how many decisions the memory that was registered is taken from the
            environment again, so that rounding does not add up for ever; None is never.
        num_episodes: instead of `num_steps`: how many episodes to compare,
        max_episode_steps: and after how many decisions an episode counts as one.

    Returns:
        Whether everything agreed, and the last observations.

    Raises:
        VerificationError: nothing was compared.
    """
    limit, episodes = _extent(num_steps, num_episodes, max_episode_steps)
    actor = session_wrapper.get_actor()
    if actor is None:
        raise InputError("evaluate: the session has no actor to compare with; give it one: SessionWrapper(..., actor=)")
    console = Console(stderr=True)
    with kept(env, actor), torch.no_grad(), Progress(console=console, disable=not verbose, transient=True) as progress:
        prepare(env, actor)
        bar = progress.add_task("comparing", total=limit)
        comparer = _Comparer(env, context_manager, session_wrapper, atol, rtol, reset_from_onnx_counter_steps)
        walk = Walk(env, actor, comparer)
        found, shown = comparer.evaluation, 0
        obs = walk.begin()
        while found.decisions < limit and (episodes is None or found.resets < episodes):
            obs, _ = walk.step(obs)
            progress.advance(bar)
            if verbose and len(found.mismatches) > shown:
                console.print(_table(found.mismatches[shown:]))
                shown = len(found.mismatches)
                if pause_on_failure and sys.stdin.isatty():
                    console.input("a decision differs; press ENTER to go on ")
        last = _copied(obs)
    if found.compared == 0:
        raise VerificationError("evaluate: nothing was compared: the file shares no output with the environment")
    if verbose:
        console.print(_summary(found), soft_wrap=True)
    return found.ok, last


def _extent(num_steps: int | None, num_episodes: int | None, max_episode_steps: int | None) -> tuple[int, int | None]:
    """How many decisions to compare at most, and how many episodes."""
    if (num_steps is None) == (num_episodes is None):
        raise InputError("evaluate: expected num_steps, or num_episodes with max_episode_steps")
    if num_steps is not None:
        counts = {"num_steps": num_steps}
    else:
        counts = {"num_episodes": num_episodes, "max_episode_steps": max_episode_steps}
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise VerificationError(f"evaluate: {name}: expected a whole number from 1, got {count!r}")
    if num_steps is not None:
        return num_steps, None
    return (num_episodes or 1) * (max_episode_steps or 1), num_episodes


class _Comparer:
    """Runs the file along with the environment."""

    def __init__(
        self,
        env: ExportableEnvironment,
        context: ContextManager,
        wrapper: SessionWrapper,
        atol: float,
        rtol: float,
        refresh: int | None,
    ) -> None:
        self.evaluation = Evaluation()
        self._env, self._context, self._wrapper = env, context, wrapper
        self._atol, self._rtol, self._refresh = atol, rtol, refresh
        shapes = Shapes.of(env)
        self._names, rows = shapes.names, shapes.rows
        self._sampled_late = _substep_inputs(wrapper)
        self._runs = [wrapper, *(copy.copy(wrapper) for _ in range(rows - 1))]
        """The file once for each row, each with a memory of its own."""

        for one in context.get_output_components():
            if not isinstance(one, Memory) and one.output_name not in wrapper.output_names:
                raise VerificationError(
                    f"evaluate: the output {one.output_name!r} is registered, but not in {wrapper.onnx_file_path.name};"
                    " export again"
                )
        for run in self._runs:
            run.reset()
        self._fresh = [True] * rows
        self._inputs: dict[str, Array] = {}
        self._memory: dict[str, Array] = {}
        self._obs: dict[str, Array] = {}
        self._actions: Array | None = None
        self._tick = 0

    # --- what happens ------------------------------------------------------------------------------------------------

    def enter(self, part: PartName) -> None:
        if part == "observe":
            self._inputs, self._memory = self._read(), self._memory_now()
        elif part == "apply":
            late = self._read()
            self._inputs = late if self._tick else {**self._inputs, **{name: late[name] for name in self._sampled_late}}

    def aside(self, going_on: bool) -> None:
        pass

    def leave(self, part: PartName) -> None:
        if part == "process":
            self._tick = 0
        elif part == "apply":
            self._compare_tick()
            self._fresh = [False] * len(self._runs)
            self._tick += 1

    def observed(self, obs: Observations, resets: list[bool]) -> None:
        self._obs = {name: _array(value) for name, value in named_observations(obs).items()}
        if any(resets) and self.evaluation.decisions:
            self.evaluation.resets += 1
            for row, reset in enumerate(resets):
                if reset:
                    self._runs[row].reset()
                    self._fresh[row] = True

    def deciding(self) -> None:
        self._memory |= self._memory_now()
        if self.evaluation.ticks == 0 and self._is_under_way():
            self._fresh = [False] * len(self._runs)  # so that its memory is taken from the environment

    def _is_under_way(self) -> bool:
        """Whether an episode had begun before this: memory that was registered is not what a file starts with."""
        for name, value in self._memory.items():
            start = self._wrapper.initial_memory.get(name)
            if start is not None and not np.allclose(_row(value, start.shape, 0, len(self._runs)), start):
                return True
        return False

    def decided(self, actions: torch.Tensor) -> None:
        self._actions = _array(actions)

    def forgetting(self) -> None:
        pass

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _compare_tick(self) -> None:
        found = self.evaluation
        outputs = {
            one.output_name: one.value_numpy
            for one in self._context.get_output_components()
            if one.output_name in self._wrapper.output_names
        }
        if self._tick == 0:
            outputs |= {name: value for name, value in self._obs.items() if name in self._wrapper.output_names}
            outputs["actions"] = self._actions if self._actions is not None else np.zeros(0)
        for row, run in enumerate(self._runs):
            run(**self._of_row(self._inputs, row), **self._given_memory(row))
            for name, value in outputs.items():
                result = run.get_output_value(name)
                self._compare(row, name, _row(value, result.shape, row, len(self._runs)), result)
        found.ticks += 1
        if self._tick == self._env.decimation - 1:
            found.decisions += 1

    def _given_memory(self, row: int) -> dict[str, Array]:
        """The memory to take from the environment before a decision, now and then."""
        if self._tick or self._fresh[row] or not self._refresh or self.evaluation.decisions % self._refresh:
            return {}
        shapes = {port.name: port.shape for port in self._wrapper.session.get_inputs()}
        return {
            name: np.ascontiguousarray(_row(value, tuple(shapes[name]), row, len(self._runs)))
            for name, value in self._memory.items()
            if name in shapes
        }

    def _compare(self, row: int, port: str, expected: Array, got: Array) -> None:
        found = self.evaluation
        if expected.shape != got.shape:
            raise VerificationError(
                f"evaluate: {port}: the environment has shape {list(expected.shape)}, the file {list(got.shape)}"
            )
        difference = np.abs(expected.astype(np.float64) - got.astype(np.float64))
        difference = np.where(np.isnan(difference), np.inf, difference)
        found.compared += difference.size
        found.worst[port] = max(found.worst.get(port, 0.0), float(difference.max(initial=0.0)))
        allowed = self._atol + self._rtol * np.abs(expected.astype(np.float64)) if expected.dtype.kind == "f" else 0.0
        for index in np.argwhere(difference > allowed):
            place = tuple(int(part) for part in index)
            element = self._names[place[-1]] if port == "obs" and len(self._names) == expected.shape[-1] else ""
            found.mismatches.append(
                Mismatch(
                    found.decisions,
                    self._tick,
                    found.resets,
                    row,
                    port,
                    element or str(list(place)),
                    float(expected[place]),
                    float(got[place]),
                )
            )

    def _read(self) -> dict[str, Array]:
        """The inputs as they are now."""
        wanted = set(self._wrapper.input_names)
        components = self._context.get_input_components()
        plain: Iterable[Input] = (one for one in components if not isinstance(one, Memory))
        return {one.input_name: one.value_numpy for one in plain if one.input_name in wanted}

    def _memory_now(self) -> dict[str, Array]:
        return {one.input_name: one.value_numpy for one in self._context.get_memory_components()}

    def _of_row(self, values: Mapping[str, Array], row: int) -> dict[str, Array]:
        if len(self._runs) == 1:
            return dict(values)
        return {name: value[row : row + 1] for name, value in values.items()}


def _row(value: Array, shape: tuple[Any, ...], row: int, rows: int) -> Array:
    """What a row has of an array of the environment, in the shape that the file has."""
    if rows == 1:
        return value
    for axis, length in enumerate(value.shape):
        if length == rows and axis < len(shape) and shape[axis] != rows:
            return np.take(value, [row], axis=axis)
    return value


def _substep_inputs(wrapper: SessionWrapper) -> set[str]:
    """Inputs that only what runs every tick takes, where the file says so."""
    if NOTE not in wrapper.metadata:
        return set()
    wiring = Wiring(read_note(wrapper.metadata[NOTE], str(wrapper.onnx_file_path))[1])
    return set(wiring.inputs_of("substep")) - set(wiring.inputs_of("policy"))


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().numpy().copy()


def _copied(obs: Observations) -> Observations:
    if isinstance(obs, torch.Tensor):
        return obs.clone()
    return {name: _copied(value) for name, value in obs.items()}  # type: ignore[misc] # groups may be nested


def _table(mismatches: list[Mismatch]) -> Table:
    table = Table("decision", "tick", "row", "port", "element", "environment", "file", "difference")
    for one in mismatches[:_SHOWN]:
        table.add_row(*map(str, _cells(one)))
    if len(mismatches) > _SHOWN:
        table.caption = f"and {len(mismatches) - _SHOWN} more"
    return table


def _cells(one: Mismatch) -> Iterator[object]:
    yield from (one.decision, one.tick, one.row, one.port, one.element)
    yield from (f"{one.environment:.6g}", f"{one.file:.6g}", f"{abs(one.environment - one.file):.3g}")


def _summary(found: Evaluation) -> str:
    verdict = "agree" if found.ok else f"differ in {len(found.mismatches)} numbers"
    worst = ", ".join(f"{port} {error:.2g}" for port, error in found.worst.items())
    story = (
        f"environment and file {verdict}: {found.decisions} decisions, {found.ticks} ticks, {found.resets} resets;"
        f" largest differences: {worst}"
    )
    if found.mismatches and found.resets and all(one.episode == 0 for one in found.mismatches):
        story += "; all before the first reset: was the environment in the middle of an episode? Reset it first"
    return story
