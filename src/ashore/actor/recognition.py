"""Which kind of actor something is: found by what it has, never by guessing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

import torch

from ashore.actor.actor_critics import ActorCritic, is_actor_critic
from ashore.actor.actors import Actor
from ashore.actor.models import ModelActor, is_model
from ashore.actor.modules import Decide, ModuleActor
from ashore.actor.normalisers import as_normalizer
from ashore.errors import InputError

OBS = "obs"

TRAINERS: Mapping[str, str] = {
    "stable_baselines3": "ashore.integrations.sb3",
    "sb3_contrib": "ashore.integrations.sb3",
    "skrl": "ashore.integrations.skrl",
}
"""Framework -> what knows its objects. Imported only when such an object is given."""


def as_actor(given: Any, *, normalizer: Any = None, example_obs: Any = None, num_actions: int | None = None) -> Actor:
    """An actor of whatever a trainer gives.

    Args:
        given: an actor-critic, a model, a policy, an agent, a module, or a pair of a module and a function.
        normalizer: what the trainer applies to observations before they reach it: a module, or a VecNormalize.
        example_obs: observations by example: a tensor or an array with rows, or one for each input by name.
        num_actions: how many actions there are; where the actor does not say, it is taken for one.
    """
    example = as_examples(example_obs)
    if isinstance(given, Actor):
        if normalizer is not None:
            raise InputError("normalizer: this actor has its normaliser already")
        return given
    for framework in _frameworks(given):
        module = importlib.import_module(TRAINERS[framework])
        return module.as_actor(given, normalizer=normalizer, example=example)
    norm = as_normalizer(normalizer)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], torch.nn.Module) and callable(given[1]):
        module, decide = cast("tuple[torch.nn.Module, Decide]", given)
        return ModuleActor(module, decide, example, norm)
    _refuse_critic(given)
    if is_model(given):
        return ModelActor(given, example, normalizer=norm, num_actions=num_actions)
    if is_actor_critic(given):
        return ActorCritic(given, example, norm)
    if isinstance(given, torch.nn.Module):
        return ModuleActor(given, None, example, norm)
    raise InputError(
        f"expected an actor, got {type(given).__name__}: it is no module and has no act_inference; a function is given "
        "with the module that it decides with, as (module, function), or recorded with ashore.record"
    )


def as_examples(given: Any) -> dict[str, torch.Tensor] | None:
    """Observations by example, as tensors by name."""
    if given is None:
        return None
    named = given if isinstance(given, Mapping) or hasattr(given, "keys") else {OBS: given}
    found: dict[str, torch.Tensor] = {}
    for name in named.keys():  # noqa: SIM118 - a TensorDict iterates over its rows
        value = torch.as_tensor(named[name]).detach().cpu()
        if value.dim() == 0 or value.numel() == 0:
            raise InputError(f"example_obs: {name!r} is empty: its shape is {list(value.shape)}; it needs rows")
        found[str(name)] = value.float() if value.dtype == torch.float64 else value
    if not found:
        raise InputError("example_obs: there is no observation in it")
    lengths = {len(value) for value in found.values()}
    if len(lengths) != 1:
        raise InputError(f"example_obs: the inputs have {sorted(lengths)} rows; expected the same of each")
    return found


def _frameworks(given: Any) -> list[str]:
    """The trainers whose class something is."""
    modules = {base.__module__.split(".")[0] for base in type(given).__mro__}
    return [framework for framework in TRAINERS if framework in modules]


def _refuse_critic(given: Any) -> None:
    name = type(given).__name__.lower()
    if ("critic" in name or "valuenet" in name) and "actor" not in name:
        raise InputError(f"{type(given).__name__} is a critic: it values observations, and decides nothing")
