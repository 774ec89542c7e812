"""Actors that are modules of somebody's own, such as CleanRL's: which head they have is seen by what they offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch

from ashore.actor.actors import Actor, Spread, Tensors
from ashore.actor.widths import input_width
from ashore.errors import InputError

OBS = "obs"
FORWARD = "forward"
"""What decides where nothing else is known."""

Decide = Callable[[Any], torch.Tensor]


class Head(NamedTuple):
    """How a module decides."""

    what: str
    decide: Decide
    spread: Callable[[Any], Spread] | None = None


class ModuleActor(Actor):
    """A module, or a module and a function that decides with it.

    Args:
        module: what it computes with.
        decide: what it does with an observation, or with a dict of them; None finds that out.
        example: the observations, by example; None finds their width out.
        normalizer: what is applied to observations before they reach it, or None.
        trainer: what trained it.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        decide: Decide | None = None,
        example: Mapping[str, torch.Tensor] | None = None,
        normalizer: torch.nn.Module | None = None,
        trainer: str = "torch",
    ) -> None:
        self._head = find_head(module) if decide is None else Head("its own function", decide)
        self._normalizer = normalizer
        if example is None:
            example = {OBS: torch.zeros(1, input_width(type(module).__name__, OBS, module, normalizer))}
        if normalizer is not None and len(example) != 1:
            raise InputError(f"normalizer: it cannot be said which of {list(example)} it is for")
        modules = {"module": module} | ({} if normalizer is None else {"normalizer": normalizer})
        super().__init__(modules, {name: value[:1] for name, value in example.items()}, trainer)
        self.could_value = self._head.what == FORWARD
        self.about = {"output": self._head.what}

    def decide(self, inputs: Tensors) -> torch.Tensor:
        """Decide by the head that was found."""
        return self._head.decide(self._observation(inputs))

    def spread(self, inputs: Tensors) -> Spread | None:
        """The Gaussian of the head."""
        return None if self._head.spread is None else self._head.spread(self._observation(inputs))

    def _observation(self, inputs: Tensors) -> Any:
        if len(inputs) != 1:
            return dict(inputs)
        (value,) = inputs.values()
        return value if self._normalizer is None else self._normalizer(value)


def find_head(module: Any) -> Head:
    """How a module decides when it does not explore."""
    name = type(module).__name__
    if hasattr(module, "actor_mean"):
        return Head("actor_mean", module.actor_mean, _gaussian(module))
    if hasattr(module, "get_states"):
        raise InputError(
            f"{name}: how it remembers is not known; give a function that decides with it, or use ashore.record"
        )
    if hasattr(module, "action_scale") and hasattr(module, "fc_mean"):
        return Head("tanh(mean) * action_scale + action_bias", _squashed(module), _squashed_gaussian(module))
    if hasattr(module, "get_action_and_value") and isinstance(getattr(module, "actor", None), torch.nn.Module):
        before = getattr(module, "network", None) or (lambda obs: obs)
        return Head("argmax of the logits", lambda obs: module.actor(before(obs)).argmax(dim=-1))
    if type(module).forward is torch.nn.Module.forward or not callable(module):
        raise InputError(
            f"{name}: it has neither forward nor act_inference, actor_mean or get_action_and_value; give a function "
            "that decides with it"
        )
    return Head(FORWARD, cast("Decide", module))


def _gaussian(module: Any) -> Callable[[Any], Spread] | None:
    if not isinstance(getattr(module, "actor_logstd", None), torch.Tensor):
        return None

    def spread(obs: Any) -> Spread:
        mean = module.actor_mean(obs)
        return Spread(mean, torch.exp(module.actor_logstd.expand_as(mean)))

    return spread


def _squashed(module: Any) -> Decide:
    def decide(obs: Any) -> torch.Tensor:
        mean, _ = module(obs)
        return torch.tanh(mean) * module.action_scale + module.action_bias

    return decide


def _squashed_gaussian(module: Any) -> Callable[[Any], Spread]:
    def spread(obs: Any) -> Spread:
        mean, log_std = module(obs)
        return Spread(mean, log_std.exp(), lambda x: torch.tanh(x) * module.action_scale + module.action_bias)

    return spread
