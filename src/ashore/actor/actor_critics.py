"""Actor-critics with ``act_inference``: RSL-RL up to version 3, GBC's transformers, legged_gym and their kin."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from ashore.actor.actors import Actor, Spread, Tensors
from ashore.actor.hidden import HiddenStates, grouped
from ashore.actor.widths import input_width
from ashore.errors import InputError

OBS, REF_OBS, REF_MASK = "obs", "ref_obs", "ref_mask"
_NORMALIZERS = ("actor_obs_normalizer", "student_obs_normalizer", "obs_normalizer")


def is_actor_critic(given: Any) -> bool:
    """Whether something is such an actor-critic."""
    return callable(getattr(given, "act_inference", None))


class ActorCritic(Actor):
    """An actor-critic that decides with ``act_inference``.

    Args:
        policy: the actor-critic.
        example: the observations, by example; what is not given is found out.
        normalizer: what is applied to observations before they reach it, or None.
    """

    def __init__(
        self,
        policy: Any,
        example: Mapping[str, torch.Tensor] | None = None,
        normalizer: torch.nn.Module | None = None,
    ) -> None:
        self._policy, self._hidden = policy, HiddenStates(policy)
        own = [getattr(policy, name, None) for name in _NORMALIZERS]
        own = [one for one in own if one is not None and not isinstance(one, torch.nn.Identity)]
        if normalizer is not None and own and normalizer is not own[0]:
            raise InputError(
                f"normalizer: {type(policy).__name__} normalises its observations itself; normalising them twice would "
                "not be what was trained, so leave normalizer out"
            )
        self._normalizer = None if own else normalizer
        self._takes = _parameters(policy)
        self._by_group = isinstance(getattr(policy, "obs_groups", None), Mapping)
        self._images = list(getattr(policy, "actor_obs_groups_2d", ()))
        modules = {"policy": policy} | ({} if self._normalizer is None else {"normalizer": self._normalizer})
        super().__init__(modules, self._examples(dict(example or {})), "rsl_rl")
        self.tools = ("rsl-rl-lib",)

    def decide(self, inputs: Tensors) -> torch.Tensor:
        """Decide by its own call."""
        return self._policy.act_inference(*self._arguments(inputs))

    def spread(self, inputs: Tensors) -> Spread | None:
        """The Gaussian that its own update makes."""
        policy = self._policy
        if callable(getattr(policy, "mean_and_std", None)):
            return Spread(*policy.mean_and_std(*self._arguments(inputs)))
        update = getattr(policy, "update_distribution", None) or getattr(policy, "_update_distribution", None)
        if update is None or self._images:
            return None
        first, *others = self._arguments(inputs)
        if self._by_group:
            student = hasattr(policy, "student")
            first = (policy.get_student_obs if student else policy.get_actor_obs)(first)
            first = (policy.student_obs_normalizer if student else policy.actor_obs_normalizer)(first)
        memory = getattr(policy, "memory_a", None) or getattr(policy, "memory_s", None)
        update(first if memory is None else memory(first).squeeze(0), *others)
        return Spread(policy.action_mean, policy.action_std)

    def hidden(self) -> Tensors:
        """The hidden state of the actor's memory."""
        return self._hidden.tensors()

    def forget(self, dones: torch.Tensor | None) -> None:
        """Reset rows by its own reset."""
        if dones is None or not hasattr(self._policy, "reset"):
            self._hidden.clear()
        elif self._hidden.recurrent:
            self._policy.reset(dones)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Let it take its vectors in one piece."""
        policy, kept = self._policy, {}
        names = [name for name in ("obs_groups", "actor_obs_groups_1d", "distribution") if name in vars(policy)]
        kept = {name: vars(policy)[name] for name in names}
        try:
            if self._by_group:
                vectors = [OBS] if OBS in self.inputs else []
                policy.obs_groups = {**policy.obs_groups, "policy": [*vectors, *self._images]}
                if "actor_obs_groups_1d" in kept:
                    policy.actor_obs_groups_1d = vectors
            self._hidden.clear()
            yield
        finally:
            self._hidden.restore()
            for name, value in kept.items():
                setattr(policy, name, value)

    def _arguments(self, inputs: Tensors) -> tuple[Any, ...]:
        given = dict(inputs)
        if self._normalizer is not None:
            given[OBS] = self._normalizer(given[OBS])
        if self._by_group:
            return (grouped(given),)
        if REF_OBS in given:
            return given[OBS], (given[REF_OBS], given[REF_MASK])
        return (given[OBS],)

    def _examples(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        policy, found = self._policy, dict[str, torch.Tensor]()
        core = next((one for name in ("actor", "student") if (one := getattr(policy, name, None)) is not None), policy)
        memory = next(
            (one for name in ("memory_a", "memory_s") if (one := getattr(policy, name, None)) is not None), None
        )
        normalizer = self._normalizer or next(
            (one for name in _NORMALIZERS if (one := getattr(policy, name, None)) is not None), None
        )
        vectors = getattr(policy, "actor_obs_groups_1d", None)
        if OBS in given:
            found[OBS] = given[OBS]
        elif vectors is None or vectors:
            found[OBS] = torch.zeros(1, input_width(type(policy).__name__, OBS, memory or core, normalizer))
        for name in self._images:
            if name not in given:
                raise InputError(
                    f"{type(policy).__name__} reads images, and does not say how large they are; give "
                    f"example_obs={{'obs': …, {name!r}: …}}"
                )
            found[name] = given[name]
        if len(self._takes) > 1 and _has_reference(core):
            width = None if REF_OBS in given else input_width(type(policy).__name__, REF_OBS, core, None)
            found[REF_OBS] = torch.zeros(1, width) if width else given[REF_OBS]
            found[REF_MASK] = given.get(REF_MASK, torch.ones(1, dtype=torch.bool))
        if not found or any(one.numel() == 0 for one in found.values()):
            raise InputError(f"{type(policy).__name__} reads an empty observation; nothing could be decided from that")
        for name in given:
            if name not in found:
                raise InputError(f"example_obs: {type(policy).__name__} reads {list(found)}, not {name!r}")
        return {name: value[:1] for name, value in found.items()}


def _parameters(policy: Any) -> list[str]:
    """The names of what ``act_inference`` takes."""
    parameters = inspect.signature(policy.act_inference).parameters.values()
    return [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _has_reference(core: Any) -> bool:
    """Whether an actor has a part for reference observations."""
    size = getattr(core, "ref_obs_size", None)
    return bool(size) if size is not None else getattr(core, "ref_obs_embedding", None) is not None
