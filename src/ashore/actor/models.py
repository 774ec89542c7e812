"""Actors that are one model with observation groups, such as those of RSL-RL from version 4 on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from ashore.actor.actors import Actor, Spread, Tensors
from ashore.actor.hidden import HiddenStates, grouped
from ashore.errors import InputError

OBS = "obs"


def is_model(given: Any) -> bool:
    """Whether something is such a model."""
    return all(hasattr(given, name) for name in ("get_latent", "obs_groups", "obs_dim", "mlp"))


class ModelActor(Actor):
    """A model that takes observations by group. The vectors are joined into one input, unless an example says groups.

    Args:
        model: the actor, or a student.
        groups: the observation groups, by example; None joins them into ``obs``.
        normalizer: what is applied to observations before they reach it, or None.
        num_actions: how many actions there are, where that is known.
    """

    def __init__(
        self,
        model: Any,
        groups: Mapping[str, torch.Tensor] | None = None,
        *,
        normalizer: torch.nn.Module | None = None,
        num_actions: int | None = None,
    ) -> None:
        self._model, self._hidden = model, HiddenStates(model)
        self._vectors, self._images = list(model.obs_groups), list(getattr(model, "obs_groups_2d", ()))
        if (not self._vectors and not self._images) or not (model.obs_dim or self._images):
            raise InputError(f"{type(model).__name__} reads no observation group; nothing could be decided from that")
        if model.distribution is None and _width(model) == 1 and num_actions is None:
            raise InputError(
                f"this {type(model).__name__} gives one number and has no distribution, as a critic does; export the "
                "actor instead, or say num_actions=1 if it is one"
            )
        self._joined = groups is None or set(groups) == {OBS, *self._images}
        own = getattr(model, "obs_normalizer", None)
        if normalizer is not None and normalizer is not own and not isinstance(own, torch.nn.Identity | None):
            raise InputError(
                f"normalizer: {type(model).__name__} normalises its observations itself; normalising them twice would "
                "not be what was trained, so leave normalizer out"
            )
        self._normalizer = None if normalizer is own else normalizer
        if self._normalizer is not None and not (self._joined and self._vectors):
            raise InputError("normalizer: it is for observations in one piece; leave out example_obs")
        modules = {"model": model} | ({} if self._normalizer is None else {"normalizer": self._normalizer})
        super().__init__(modules, self._examples(groups), "rsl_rl")
        self.tools = ("rsl-rl-lib",)
        self.about = {"observation_groups": [*self._vectors, *self._images], "output": _output(model)}

    def decide(self, inputs: Tensors) -> torch.Tensor:
        """Decide by the model's own call."""
        return self._model(self._observations(inputs))

    def spread(self, inputs: Tensors) -> Spread | None:
        """The Gaussian of the model; other distributions are none."""
        distribution = self._model.distribution
        if distribution is None or "Gaussian" not in type(distribution).__name__:
            return None
        distribution.update(self._model.mlp(self._model.get_latent(self._observations(inputs), None, None)))
        return Spread(distribution.mean, distribution.std)

    def hidden(self) -> Tensors:
        """The hidden state of the model's memory."""
        return self._hidden.tensors()

    def forget(self, dones: torch.Tensor | None) -> None:
        """Reset rows by the model's own reset."""
        if dones is None:
            self._hidden.clear()
        else:
            self._model.reset(dones)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Let it take its vectors in one piece, if they are joined."""
        own, vectors = "obs_groups" in vars(self._model), self._model.obs_groups
        distribution = getattr(self._model.distribution, "_distribution", None)
        try:
            if self._joined and vectors:
                self._model.obs_groups = [OBS]
            self._hidden.clear()
            yield
        finally:
            self._hidden.restore()
            if distribution is not None:
                self._model.distribution._distribution = distribution
            if own:
                self._model.obs_groups = vectors

    def _observations(self, inputs: Tensors) -> Mapping[str, torch.Tensor]:
        if self._normalizer is None:
            return grouped(inputs)
        return grouped({**inputs, OBS: self._normalizer(inputs[OBS])})

    def _examples(self, groups: Mapping[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
        model, found = self._model, dict[str, torch.Tensor]()
        if self._joined:
            if self._vectors:
                found[OBS] = torch.zeros(1, int(model.obs_dim))
            for name, channels, size in zip(
                self._images, getattr(model, "obs_channels_2d", ()), getattr(model, "obs_dims_2d", ()), strict=True
            ):
                found[name] = torch.zeros(1, int(channels), *map(int, size))
            return found
        wanted, given = [*self._vectors, *self._images], dict(groups or {})
        if set(given) != set(wanted):
            raise InputError(f"example_obs: expected the observation groups {wanted}, got {sorted(given)}")
        width = sum(given[name].shape[-1] for name in self._vectors)
        if width != int(model.obs_dim):
            raise InputError(f"example_obs: {self._vectors} are {width} wide together, the actor reads {model.obs_dim}")
        return {name: torch.zeros_like(given[name][:1]) for name in wanted}


def _width(model: Any) -> int | None:
    """How many numbers the last layer gives."""
    layers = [one for one in model.mlp.modules() if isinstance(one, torch.nn.Linear)]
    return layers[-1].out_features if layers else None


def _output(model: Any) -> str:
    """What is done with the last layer, in a word."""
    return "deterministic" if model.distribution is None else type(model.distribution).__name__
