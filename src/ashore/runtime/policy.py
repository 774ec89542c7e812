"""The policy: a package that is ready to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from ashore.errors import InputError, OrderError
from ashore.package import Array, Arrays
from ashore.runtime.inputs import admit
from ashore.runtime.memory import slot_of
from ashore.runtime.plan import Plan
from ashore.spec import BATCH, Manifest, Port, State


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


class Policy:
    """Runs a package: `step` decides, `substep` acts between decisions, `reset` starts an episode.

    Not for use by several threads at once; load one policy for each. Made by `ashore.load`.
    """

    def __init__(self, manifest: Manifest, plan: Plan, initial: Arrays, *, backend: str, batch: int) -> None:
        self._manifest = manifest
        self._backend = backend
        self._batch = batch
        self._memory = plan.memory
        self._initial = {
            name: np.repeat(value, batch, axis=state.shape.index(BATCH)) if BATCH in state.shape else value.copy()
            for name, state in manifest.states.items()
            for value in (initial[name],)
        }
        self._decide = plan.runs["policy"]
        self._act = plan.runs.get("substep")
        self._decided = False
        for name, value in self._memory.current().items():
            value[...] = self._initial[name]

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"Policy({self._manifest.name!r}: {inputs} -> {outputs}; backend {self._backend!r})"

    @property
    def manifest(self) -> Manifest:
        """The contract of the package."""
        return self._manifest

    @property
    def backend(self) -> str:
        """What runs the stages."""
        return self._backend

    @property
    def batch(self) -> int:
        """The length of the symbolic batch axis."""
        return self._batch

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Input name -> port, of both rates; `step_inputs` and `substep_inputs` say which call takes which."""
        return MappingProxyType(self._manifest.inputs)

    @property
    def outputs(self) -> Mapping[str, Port]:
        """Output name -> port, of both rates."""
        return MappingProxyType(self._manifest.outputs)

    @property
    def states(self) -> Mapping[str, State]:
        """State name -> what it is."""
        return MappingProxyType(self._manifest.states)

    def reset(self, rows: Array | None = None) -> None:
        """Start an episode: every state whose rule is ``"initial"`` gets its initial value.

        Args:
            rows: with a symbolic batch, a boolean array of length `batch`: which rows start an episode. None is all.
        """
        chosen = None if rows is None else self._check_rows(rows)
        for name, value in self._memory.current().items():
            state = self._manifest.states[name]
            if state.reset == "keep":
                continue
            where = ... if chosen is None else (*(slice(None),) * state.shape.index(BATCH), chosen)
            value[where] = self._initial[name][where]
        self._decided = False

    def step(self, inputs: Arrays) -> dict[str, Array]:
        """Decide: run the policy-rate stages once.

        Args:
            inputs: name -> array, exactly those of the policy rate, in the dtypes and shapes of `inputs`.

        Returns:
            Output name -> array. They are the caller's: a later call does not change them.

        Raises:
            InputError: a name, dtype, shape or value is wrong. Nothing was run.
            NonFiniteError: a result is NaN or infinite. The state is as it was before the call.
        """
        outputs = self._decide(inputs)
        self._decided = True
        return outputs

    def substep(self, inputs: Arrays) -> dict[str, Array]:
        """Act between decisions: run the substep-rate stages once. Arguments and errors are those of `step`.

        Raises:
            OrderError: nothing has been decided since the last reset, or the package has no substeps.
        """
        if self._act is None:
            raise OrderError("substep: this package has no stage at the substep rate; call step only")
        if not self._decided:
            raise OrderError("substep: nothing has been decided since the last reset; call step first")
        return self._act(inputs)

    def state(self) -> Snapshot:
        """A copy of every state, to be given to `restore`."""
        values = {name: value.copy() for name, value in self._memory.current().items()}
        return Snapshot(values, decided=self._decided)

    def restore(self, state: Arrays) -> None:
        """Go back to a state.

        Args:
            state: what `state` returned, or any mapping with exactly the names, dtypes and shapes of the states. With
                a plain mapping, the next call must be a `step`.
        """
        slots = {name: slot_of(spec, self._batch) for name, spec in self._manifest.states.items()}
        values = admit("restore: state", state, slots)
        for name, value in values.items():
            if slots[name].finite and value.dtype.kind == "f" and not np.isfinite(value).all():
                raise InputError(f"restore: state {name!r} holds NaN or an infinity; the state is unchanged")
        for name, place in self._memory.current().items():
            place[...] = values[name]
        self._decided = state.decided if isinstance(state, Snapshot) else False

    def _check_rows(self, rows: Array) -> Array:
        fixed = [name for name, state in self._manifest.states.items() if BATCH not in state.shape]
        if fixed:
            raise InputError(f"reset: state {fixed[0]!r} has no batch axis, so its rows cannot be reset one by one")
        if type(rows) is not np.ndarray or rows.dtype != np.bool_ or rows.shape != (self._batch,):
            raise InputError(f"reset: rows: expected a boolean array of length {self._batch}, got {rows!r}")
        return rows
