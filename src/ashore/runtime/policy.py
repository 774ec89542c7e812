"""The policy: a package that is ready to run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ashore.errors import InputError, OrderError
from ashore.package import Array, Arrays
from ashore.runtime.guard import Guard
from ashore.runtime.inputs import admit
from ashore.runtime.loops import Stepped
from ashore.runtime.memory import slot_of
from ashore.runtime.observing import Observed, observe
from ashore.runtime.queueing import ActionQueue
from ashore.runtime.whole import Runnable
from ashore.spec import BATCH, Manifest, Port, State, Wiring

if TYPE_CHECKING:
    from ashore.runtime.bound import Bound
    from ashore.runtime.ranges import Ranges
    from ashore.runtime.robot import Robot


class Snapshot(Mapping[str, Array]):
    """The state of a policy at one moment: state name -> a copy of its value."""

    def __init__(self, values: Arrays, *, decided: bool) -> None:
        self._values = dict(values)
        self.decided = decided
        """Whether a decision had been made since the last reset, so that substeps were allowed."""

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Whether two snapshots are of the same moment: the same values, and a decision in both or in neither."""
        if not isinstance(other, Snapshot) or self.keys() != other.keys() or self.decided != other.decided:
            return False
        return all(
            np.array_equal(value, other[name], equal_nan=value.dtype.kind == "f") for name, value in self.items()
        )

    __hash__ = None  # type: ignore[assignment]


@contextmanager
def _steps(stepped: Sequence[Stepped], num_steps: int | None) -> Generator[None]:
    """Have loops take so many steps while the block runs."""
    if num_steps is None:
        yield
        return
    if not stepped:
        raise InputError("num_steps: this policy generates nothing in steps; leave it out")
    before = [one.num_steps for one in stepped]
    for one in stepped:
        one.check_steps(num_steps)
    try:
        for one in stepped:
            one.num_steps = num_steps
        yield
    finally:
        for one, count in zip(stepped, before, strict=True):
            one.num_steps = count


class Policy:
    """Runs a package: `step` decides, `substep` acts between decisions, `reset` starts an episode.

    Not for use by several threads at once; load one policy for each. Made by `ashore.load`.
    """

    def __init__(
        self,
        manifest: Manifest,
        plan: Runnable,
        initial: Arrays,
        *,
        batch: int,
        check_finite: bool,
        queue: ActionQueue | None = None,
        stepped: Sequence[Stepped] = (),
        seen: Callable[[], Ranges | None] = lambda: None,
    ) -> None:
        self._manifest = manifest
        self._batch = batch
        self._check_finite = check_finite
        self._graph = Wiring(manifest)
        self._memory = plan.memory
        self._initial = {
            name: np.repeat(value, batch, axis=state.shape.index(BATCH)) if BATCH in state.shape else value.copy()
            for name, state in manifest.states.items()
            for value in (initial[name],)
        }
        self._queue = queue
        self._stepped = stepped
        self._seen = seen
        self._ranges: Ranges | None = None
        self._looked = False
        self._generator: np.random.Generator | None = None
        self._single = False
        self._decide = plan.runs["policy"] if queue is None else queue.step
        self._act = plan.runs.get("substep")
        self._memory.replace(self._initial, decided=False)

    def __repr__(self) -> str:
        return f"Policy({self._manifest.name!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    def __reduce__(self) -> str:
        raise TypeError("a policy cannot be copied or pickled; load the package again, and use state() and restore()")

    @property
    def manifest(self) -> Manifest:
        """The contract of the package."""
        return self._manifest

    @property
    def batch(self) -> int:
        """The length of the symbolic batch axis."""
        return self._batch

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Input name -> port, of both rates; `step_inputs` and `substep_inputs` say which call takes which."""
        return MappingProxyType(self._manifest.inputs)

    @property
    def step_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that `step` takes."""
        return self._graph.inputs_of("policy")

    @property
    def substep_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that `substep` takes."""
        return self._graph.inputs_of("substep")

    @property
    def outputs(self) -> Mapping[str, Port]:
        """Output name -> port, of both rates."""
        return MappingProxyType(self._manifest.outputs)

    @property
    def states(self) -> Mapping[str, State]:
        """State name -> what it is."""
        return MappingProxyType(self._manifest.states)

    def ranges(self) -> Ranges | None:
        """What the inputs were in the golden rollout, to raise alarms with; None if the package holds none.

        The rollout is read from the package on the first call; a robot that is bound does it then.
        """
        if not self._looked:
            self._ranges, self._looked = self._seen(), True
        return self._ranges

    def reset(self, rows: Array | None = None) -> None:
        """Start an episode: every state whose rule is ``"initial"`` gets its initial value.

        Args:
            rows: with a symbolic batch, a boolean array of length `batch`: which rows start an episode. None is all.
        """
        chosen = None if rows is None else self._check_rows(rows)
        values = self._memory.current()
        for name, state in self._manifest.states.items():
            if state.reset == "keep":
                continue
            if chosen is None:
                values[name] = self._initial[name]
            else:
                where = (*(slice(None),) * state.shape.index(BATCH), chosen)
                values[name] = values[name].copy()
                values[name][where] = self._initial[name][where]
        if self._queue is not None:
            self._queue.restore(values)
        untouched = chosen is not None and not chosen.any()
        self._memory.replace(values, decided=untouched and self._memory.decided)

    def step(self, inputs: Arrays) -> dict[str, Array]:
        """Decide: run the policy-rate stages once.

        Args:
            inputs: name -> array, exactly those of the policy rate, in the dtypes and shapes of `inputs`. An input may
                also be given as ``stage/port``, where its wire ends; its own name is faster.

        Returns:
            Output name -> array. They are the caller's: a later call does not change them.

        Raises:
            InputError: a name, dtype, shape or value is wrong. The state is as it was before the call.
            NonFiniteError: a result is NaN or infinite. The state is as it was before the call.
        """
        return self._decide(inputs)

    def substep(self, inputs: Arrays) -> dict[str, Array]:
        """Act between decisions: run the substep-rate stages once. Arguments and errors are those of `step`.

        Raises:
            OrderError: nothing has been decided since the last reset, or the package has no substeps.
        """
        if self._act is None:
            raise OrderError("substep: this package has no stage at the substep rate; call step only")
        if not self._memory.decided:
            raise OrderError("substep: nothing has been decided since the last reset; call step first")
        return self._act(inputs)

    def select_action(self, observation: Mapping[str, Any], *, noise: Any = None, seed: int | None = None) -> Array:
        """The action for an observation: of the chunk that is being executed, if the policy has a queue.

        Args:
            observation: name -> array or text, as a robot has them. Arrays may all come without a batch axis; the
                action then has none either. While a queue has actions left, and nothing remembers observations, it is
                not looked at.
            noise: what a generating policy starts from, where it decides.
            seed: draws that noise instead. If neither is given, it is drawn from the operating system's randomness.

        Returns:
            The one output of the policy.
        """
        queue = self._queue
        if queue is not None and queue.idle:
            action = queue.pop()
            return action[0] if self._single else action
        observed = self._observe("select_action", observation, noise, seed)
        (action,) = self._only_output("select_action", self._decide(observed.inputs))
        self._single = observed.single
        return action[0] if observed.single else action

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        num_steps: int | None = None,
        noise: Any = None,
        seed: int | None = None,
    ) -> Array:
        """All actions that the policy decides on for an observation. A queue is not touched.

        Args:
            observation: as for `select_action`.
            num_steps: how many steps a generating policy takes, if not as many as it was exported with.
            noise: as for `select_action`.
            seed: likewise.
        """
        observed = self._observe("predict_action_chunk", observation, noise, seed)
        with _steps(self._stepped, num_steps):
            if self._queue is not None:
                chunk = self._queue.decide(observed.inputs)
            else:
                (chunk,) = self._only_output("predict_action_chunk", self._decide(observed.inputs))
        return chunk[0] if observed.single else chunk

    def state(self) -> Snapshot:
        """A copy of every state, to be given to `restore`."""
        values = {name: value.copy() for name, value in self._memory.current().items()}
        values |= self._queue.state() if self._queue is not None else {}
        return Snapshot(values, decided=self._memory.decided)

    def restore(self, state: Arrays) -> None:
        """Go back to a state.

        Args:
            state: what `state` returned, or any mapping with exactly the names, dtypes and shapes of the states. With
                a plain mapping, the next call must be a `step`.
        """
        slots = {name: slot_of(spec, self._batch) for name, spec in self._manifest.states.items()}
        values = admit("restore: state", state, slots)
        for name, value in values.items() if self._check_finite else ():
            if slots[name].finite and value.dtype.kind == "f" and not np.isfinite(value).all():
                raise InputError(f"restore: state {name!r} holds NaN or an infinity; the state is unchanged")
        if self._queue is not None:
            self._queue.restore(values)
        self._memory.replace(values, decided=isinstance(state, Snapshot) and state.decided)

    def bind(
        self,
        robot: Robot,
        *,
        commands: Mapping[str, Any] | None = None,
        signals: Mapping[str, str] | None = None,
        unused: Sequence[str] = (),
        guard: Guard | None = Guard(),  # noqa: B008 - frozen
    ) -> Bound:
        """Bind this policy to a robot, by kinds and element names; see `ashore.deploy.bind`.

        Args:
            robot: what it shall drive.
            commands: input -> what is asked for, or a function that gives it.
            signals: port -> signal of the robot, where the kind alone does not decide.
            unused: outputs that are not written to the robot.
            guard: what ends an episode, and what the robot does then; None goes on whatever happens.

        Raises:
            BindError: something does not fit; the message has all of it, and both sides.
        """
        from ashore.runtime.binding import bind  # a policy that is only stepped does not pay for it

        return bind(self, robot, commands=commands, signals=signals, unused=unused, guard=guard)

    def _observe(self, call: str, observation: object, noise: object, seed: int | None) -> Observed:
        if self._generator is None:
            self._generator = np.random.default_rng()
        ports = {name: self._manifest.inputs[name] for name in self.step_inputs}
        return observe(call, observation, ports, batch=self._batch, noise=noise, seed=seed, generator=self._generator)

    def _only_output(self, call: str, outputs: dict[str, Array]) -> Iterable[Array]:
        if len(outputs) != 1:
            raise InputError(
                f"{call}: this policy has the outputs {sorted(outputs)}; use step, which gives them by name"
            )
        return outputs.values()

    def _check_rows(self, rows: Array) -> Array:
        states = self._manifest.states
        fixed = [name for name, state in states.items() if BATCH not in state.shape and state.reset != "keep"]
        if fixed:
            raise InputError(f"reset: state {fixed[0]!r} has no batch axis, so its rows cannot be reset one by one")
        if type(rows) is not np.ndarray or rows.dtype != np.bool_ or rows.shape != (self._batch,):
            raise InputError(f"reset: rows: expected a boolean array of length {self._batch}, got {rows!r}")
        return rows
