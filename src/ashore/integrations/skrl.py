"""skrl: Gaussian, deterministic and recurrent models, with the preprocessors of their agent.

skrl's models are the user's own classes, or made by its instantiators, so a function gives the agent (or the model).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from ashore.actor import Actor, Spread
from ashore.actor.hidden import named
from ashore.actor.normalisers import as_normalizer
from ashore.errors import InputError
from ashore.integrations.checkpoints import check_state, load_strictly, read_tensors
from ashore.integrations.importing import made
from ashore.integrations.trainers import Source

OBS = "obs"
_PREPROCESSORS = ("observation_preprocessor", "state_preprocessor")
_HEADS = {"GaussianMixin": "Gaussian", "DeterministicMixin": "deterministic"}


def open_checkpoint(source: Source) -> Actor:
    """The policy of a checkpoint of an agent (``agent_1000.pt``), or of a model alone."""
    path = source.checkpoint
    if source.model is None:
        raise InputError(
            f"{path}: skrl's models are code; say with model='package.module:make' (--model) which function makes the "
            "agent or the policy"
        )
    loaded = read_tensors(path, trust=source.trust)
    agent = made("--model", source.model)
    whole = isinstance(loaded, Mapping) and "policy" in loaded and isinstance(loaded["policy"], Mapping)
    if isinstance(loaded, Mapping) and not whole and {"value", "critic_1"} & loaded.keys():
        raise InputError(f"{path}: there is no policy in it, only {sorted(loaded)}")
    policy = _policy(agent)
    load_strictly(path, policy, loaded["policy"] if whole else check_state(path, loaded))
    for name in _PREPROCESSORS:
        statistics, own = (loaded.get(name) if whole else None), getattr(agent, f"_{name}", None)
        if not statistics and isinstance(own, torch.nn.Module) and own.state_dict():
            raise InputError(
                f"{path}: what {source.model} makes has a {name}, and there are no statistics for it; let it make the "
                "agent as it was trained, or take the checkpoint of the whole agent"
            )
        if not statistics:
            continue
        if not isinstance(own, torch.nn.Module):
            raise InputError(
                f"{path}: it has the statistics of a {name}, and what {source.model} makes has none; let it make the "
                "agent as it was trained, with its preprocessors"
            )
        load_strictly(f"{path}: {name}", own, statistics)
    return SkrlActor(agent, source.examples() or None)


def as_actor(given: Any, *, normalizer: Any = None, example: Mapping[str, torch.Tensor] | None = None) -> Actor:
    """The actor of an agent, or of a policy."""
    return SkrlActor(given, example, normalizer)


class SkrlActor(Actor):
    """A policy with its agent's preprocessors, as skrl's trainers evaluate it: by its mean actions.

    Args:
        given: an agent, or a policy.
        example: the observations, by example.
        normalizer: what is applied to observations of a policy without an agent.
    """

    def __init__(self, given: Any, example: Mapping[str, torch.Tensor] | None = None, normalizer: Any = None) -> None:
        self._policy, self._rnn = _policy(given), list[torch.Tensor]()
        bases = {one.__name__ for one in type(self._policy).__mro__}
        self._head = next((name for base, name in _HEADS.items() if base in bases), None)
        if self._head is None:
            raise InputError(
                f"{type(self._policy).__name__}: of skrl's models, Gaussian and deterministic ones are known, not "
                f"{sorted(one for one in bases if one.endswith('Mixin'))}"
            )
        preprocessors = {
            key: one
            for key, name in (("observations", "_observation_preprocessor"), ("states", "_state_preprocessor"))
            if isinstance(one := getattr(given, name, None), torch.nn.Module)
        }
        if normalizer is not None and preprocessors:
            raise InputError("normalizer: the agent has its preprocessors already; leave it out")
        found = as_normalizer(normalizer)
        self._preprocessors = preprocessors if found is None else {"observations": found}
        sizes = getattr(self._policy, "get_specification", dict)().get("rnn", {}).get("sizes", [])
        self._sizes = [(int(size[0]), int(size[-1])) for size in sizes]
        inputs = {OBS: self._policy.num_observations, "states": self._policy.num_states}
        inputs = {name: torch.zeros(1, int(width)) for name, width in inputs.items() if width}
        if not inputs:
            raise InputError(f"{type(self._policy).__name__}: its observation space is empty")
        inputs = {name: value[:1] for name, value in (example or inputs).items()}
        super().__init__({"policy": self._policy, **self._preprocessors}, inputs, "skrl")
        self.tools = ("skrl",)
        self.about = {"output": self._head, "model": type(self._policy).__name__}

    def decide(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The mean action."""
        return self._compute(inputs)[0]

    def spread(self, inputs: Mapping[str, torch.Tensor]) -> Spread | None:
        """The Gaussian of the model."""
        if self._head != "Gaussian":
            return None
        policy, (mean, outputs) = self._policy, self._compute(inputs)
        log_std = outputs["log_std"]
        if policy._g_clip_log_std:
            log_std = torch.clamp(log_std, min=policy._g_min_log_std, max=policy._g_max_log_std)
        return Spread(mean, log_std.exp().expand_as(mean), lambda drawn: self._clipped(drawn, policy._g_clip_actions))

    def hidden(self) -> dict[str, torch.Tensor]:
        """The hidden state that the model gave last."""
        return named(tuple(self._rnn))

    def forget(self, dones: torch.Tensor | None) -> None:
        """Begin an episode: a row starts from zeros, as the agent makes it."""
        if dones is None:
            self._rnn = []
        for state in self._rnn:
            state[:, dones] = 0.0

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Leave no hidden state behind."""
        try:
            yield
        finally:
            self._rnn = []

    def _compute(self, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        given: dict[str, Any] = {"observations": inputs.get(OBS), "states": inputs.get("states")}
        for name, preprocessor in self._preprocessors.items():
            if given[name] is not None:
                given[name] = preprocessor(given[name])
        if self._sizes:
            rows = len(next(iter(inputs.values())))
            given["rnn"] = self._rnn or [torch.zeros(layers, rows, size) for layers, size in self._sizes]
        mean, outputs = self._policy.compute(given, "policy")
        self._rnn = list(outputs.get("rnn", []))
        clips = self._policy._g_clip_mean_actions if self._head == "Gaussian" else self._policy._d_clip_actions
        return self._clipped(mean, clips), outputs

    def _clipped(self, actions: torch.Tensor, clips: bool) -> torch.Tensor:
        letter = "g" if self._head == "Gaussian" else "d"
        low, high = (getattr(self._policy, f"_{letter}_{side}_actions") for side in ("min", "max"))
        return torch.clamp(actions, min=low, max=high) if clips else actions


def _policy(given: Any) -> Any:
    """The policy of an agent, or what is one."""
    policy = given if isinstance(given, torch.nn.Module) else getattr(given, "policy", None)
    if not isinstance(policy, torch.nn.Module) or not callable(getattr(policy, "compute", None)):
        raise InputError(f"expected an agent of skrl, or a model, got {type(given).__name__}")
    return policy
