"""Running an environment with an actor, and telling of every moment that matters.

One decision is: the observations of the step before, the actor, and what the environment's step does with the actions.
Where the parts of the step are recognised inside it, they are told of as they happen. Where they are not, because the
adapter computes something itself or the step does everything in another way, the adapter's own methods are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import torch

from ashore.environment.exportable import ExportableEnvironment, Observations
from ashore.environment.keeping import kept
from ashore.environment.recognition import Part, PartName, Recognition, learn
from ashore.errors import ExportError, InputError


class Watcher(Protocol):
    """Who is told what happens."""

    def enter(self, part: PartName) -> object:
        """A part of a step begins."""

    def leave(self, part: PartName) -> object:
        """It ends."""

    def aside(self, going_on: bool) -> object:
        """Something that does not belong to the part is done in the middle of it, or has been done."""

    def observed(self, obs: Observations, resets: list[bool]) -> object:
        """The observations that the actor is about to see, and which rows start an episode with them."""

    def deciding(self) -> object:
        """The actor is about to decide."""

    def decided(self, actions: torch.Tensor) -> object:
        """The actor has decided."""

    def forgetting(self) -> object:
        """The actor is about to be reset."""


@dataclass(frozen=True)
class Shapes:
    """What an environment works on. Asking for it may change an environment, so it is put back."""

    rows: int
    """How many environments it is."""

    actions: torch.Tensor
    names: list[str]
    """A name for each element of the observations."""

    @classmethod
    def of(cls, env: ExportableEnvironment) -> Shapes:
        """Ask an environment."""
        with kept(env), torch.no_grad():
            rows, actions = rows_of(env.empty_actor_observations()), env.empty_actions()
            if not isinstance(actions, torch.Tensor):
                raise InputError(f"empty_actions() gave {type(actions).__name__}, expected a tensor")
            return cls(rows, actions.clone(), list(env.get_observation_names()))


class Walk:
    """An environment and an actor that take turns.

    Args:
        env: the environment.
        actor: any callable from observations to actions; its ``reset`` is called where it has one.
        watcher: who is told.
    """

    def __init__(self, env: ExportableEnvironment, actor: Callable[[Any], torch.Tensor], watcher: Watcher) -> None:
        self._env, self._actor, self._watcher = env, actor, watcher
        self._shapes = Shapes.of(env)
        self._counts: dict[PartName, int] = {"observe": 0, "process": 0, "apply": 0}
        self._obs: Observations | None = None
        self._parts = self._learn()
        self._recognition = self._recognise(*self._parts.values())
        self.observes_often = False
        """Whether a step computes observations more than once, so that only the last are those of the actor."""

        self.inside = self._try()
        """Whether the step was seen to do by itself what `process_actions` and `apply_actions` do."""

        if not self.inside:
            self._recognition = self._recognise(self._parts["observe"])

    def begin(self) -> Observations:
        """Start: the observations after a reset."""
        self._forget([True] * self._shapes.rows)
        given = self._watched(self._env.observations_reset)
        return self._observe(given, [True] * rows_of(given))

    def step(self, obs: Observations) -> tuple[Observations, list[bool]]:
        """One decision; the observations after it, and which rows were reset."""
        self._watcher.deciding()
        actions = self._actor(obs)
        if not isinstance(actions, torch.Tensor):
            raise InputError(f"the actor gave {type(actions).__name__}, expected a tensor of actions")
        self._watcher.decided(actions)
        if not self.inside:
            self._call("process", partial(self._env.process_actions, actions))
            for _ in range(self._env.decimation):
                self._call("apply", self._env.apply_actions)
        stepped = self._watched(partial(self._env.step, actions))
        if not isinstance(stepped, tuple) or len(stepped) != 2:
            what = f"{len(stepped)} things" if isinstance(stepped, tuple) else type(stepped).__name__
            raise InputError(f"step() gave {what}, expected the observations, and whether there was a reset")
        given, done = cast("tuple[Observations, Any]", stepped)
        if self.inside:
            self._check_counts()
        resets = _flags(done, rows_of(given))
        return self._observe(given, resets), resets

    def _observe(self, given: Observations, resets: list[bool]) -> Observations:
        """The observations for the actor: those that the environment was seen to compute, or computed here."""
        if self._obs is None:
            self._watcher.enter("observe")
            for update in self._env.command_updates:
                update()
            self._obs = self._env.compute_observations()
            self._watcher.leave("observe")
        obs, self._obs = self._obs, None
        _check_same(given, obs, self._shapes.names)
        self._watcher.observed(obs, resets)
        if any(resets):
            self._forget(resets)
        return obs

    def _forget(self, resets: list[bool]) -> None:
        reset = getattr(self._actor, "reset", None)
        if callable(reset):
            self._watcher.forgetting()
            reset(torch.tensor(resets, device=self._shapes.actions.device))

    # --- recognising ------------------------------------------------------------------------------------------------

    def _recognise(self, *parts: Part) -> Recognition:
        return Recognition(parts, self._enter, self._leave, self._besides, self._env.watched_calls())

    def _learn(self) -> dict[PartName, Part]:
        env = self._env
        with kept(env, self._actor), torch.no_grad():
            observe = learn("observe", env.compute_observations, env.command_updates)
            if observe.recipe is None:  # what the calls give is not what the method gives
                observe.inner = []
            parts = (
                observe,
                learn("process", partial(env.process_actions, self._shapes.actions.clone())),
                learn("apply", env.apply_actions),
            )
        return {part.name: part for part in parts}

    def _try(self) -> bool:
        """Step once to see what a step does, and put everything back."""
        watcher, self._watcher = self._watcher, _Nobody()
        try:
            with kept(self._env, self._actor), torch.no_grad():
                self._watched(partial(self._env.step, self._shapes.actions.clone()))
                self.observes_often = self._counts["observe"] > 1
                return self._counts["process"] > 0 and self._counts["apply"] > 0
        finally:
            self._watcher, self._obs = watcher, None

    def _watched(self, call: Callable[[], Any]) -> Any:
        self._counts = dict.fromkeys(self._counts, 0)
        with self._recognition.listen():
            return call()

    def _enter(self, part: PartName) -> None:
        self._counts[part] += 1
        self._watcher.enter(part)

    def _leave(self, part: PartName, result: Any) -> None:
        if part == "observe":
            self._obs = result
        self._watcher.leave(part)

    def _besides(self, going_on: bool) -> None:
        self._watcher.aside(going_on)

    def _call(self, part: PartName, method: Callable[[], object]) -> None:
        self._watcher.enter(part)
        method()
        self._watcher.leave(part)

    def _check_counts(self) -> None:
        process, apply = self._counts["process"], self._counts["apply"]
        if process != 1:
            raise ExportError(f"step() took the actions {process} times, expected once")
        if apply != self._env.decimation:
            raise ExportError(
                f"step() applied the actions {apply} times, but decimation says {self._env.decimation}; correct one"
            )


def prepare(env: ExportableEnvironment, actor: object) -> None:
    """Have an environment and its modules do what they do when deployed."""
    if not isinstance(env.decimation, int) or isinstance(env.decimation, bool) or env.decimation < 1:
        raise InputError(f"decimation: expected a whole number from 1, got {env.decimation!r}")
    env.prepare_export()
    for module in (actor, *env.context_manager().modules):
        if isinstance(module, torch.nn.Module):
            module.eval()


class _Nobody:
    """A watcher that does nothing."""

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


def rows_of(obs: Observations) -> int:
    """How many environments there are."""
    leaves = list(named_observations(obs).values())
    if not leaves or leaves[0].dim() == 0:
        raise InputError(f"expected observations with a row for each environment, got {type(obs).__name__}")
    return len(leaves[0])


def named_observations(obs: Observations) -> dict[str, torch.Tensor]:
    """Observations by their names in the file: ``obs``, or ``obs.<group>`` for each group."""
    if isinstance(obs, torch.Tensor):
        return {"obs": obs}
    if not isinstance(obs, Mapping) and not hasattr(obs, "items"):
        raise InputError(f"expected observations as a tensor, or a dict of tensors, got {type(obs).__name__}")
    found: dict[str, torch.Tensor] = {}
    for name, value in obs.items():
        inner = named_observations(value)
        found |= {f"obs.{name}{key.removeprefix('obs')}": tensor for key, tensor in inner.items()}
    return found


def _flags(done: Any, rows: int) -> list[bool]:
    """Which rows were reset, however a step says it."""
    try:
        flags = torch.as_tensor(done).flatten().to(torch.bool).tolist()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"step() gave {done!r} for whether there was a reset, expected a flag, or one a row") from None
    if len(flags) == 1:
        return flags * rows
    if len(flags) != rows:
        raise InputError(f"step() gave {len(flags)} flags for a reset, expected one, or one for each of {rows} rows")
    return flags


def _check_same(given: Observations, obs: Observations, element_names: list[str]) -> None:
    """Refuse a step that gives other observations than `compute_observations` does."""
    ours, theirs = named_observations(obs), named_observations(given)
    if ours.keys() != theirs.keys():
        raise ExportError(f"step() gave the observations {sorted(theirs)}, compute_observations() {sorted(ours)}")
    for name, value in ours.items():
        other = theirs[name]
        if value.shape != other.shape:
            raise ExportError(
                f"step() gave {name} of shape {list(other.shape)}, compute_observations() {list(value.shape)}"
            )
        wrong = (~torch.isclose(value, other, rtol=1e-5, atol=1e-6, equal_nan=True)).nonzero()
        if len(wrong):
            place = tuple(int(part) for part in wrong[0])
            names = element_names if name == "obs" else []
            element = names[place[-1]] if place[-1] < len(names) else str(list(place))
            raise ExportError(
                f"step() gave other observations than compute_observations(): {element} is"
                f" {other[place].item():.6g}, and {value[place].item():.6g}; make both the same"
            )
