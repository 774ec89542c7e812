"""Actors of RSL-RL's checkpoints alone: no environment, no runner."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ashore.actor import Actor
from ashore.actor.models import ModelActor
from ashore.errors import InputError
from ashore.integrations.checkpoints import check_state, load_strictly
from ashore.integrations.rsl_rl import fit_actor, read_checkpoint
from ashore.integrations.rsl_rl_legacy import legacy_actor
from ashore.integrations.settings import find_settings, read_settings
from ashore.integrations.trainers import Source

_LOG = logging.getLogger("ashore")
_MODELS = {"actor_state_dict": "actor", "student_state_dict": "student"}
OBS = "obs"


def open_checkpoint(source: Source) -> Actor:
    """The actor or the student of a checkpoint of version 2 to 5."""
    loaded = read_checkpoint(source.checkpoint, trust=source.trust)
    settings = read_settings(find_settings(source.checkpoint, source.config))
    if "model_state_dict" in loaded:
        actor = legacy_actor(source, loaded, settings)
    else:
        key = next(one for one in _MODELS if one in loaded)
        actor = _model(source, check_state(f"{source.checkpoint}: {key}", loaded[key]), settings, _MODELS[key])
    actor.clip_actions = _clip(source, settings.get("clip_actions"))
    return actor


def _clip(source: Source, said: Any) -> tuple[float, float] | None:
    """The least and the largest action, from the limit in the configuration."""
    if said is None:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said < math.inf:
        raise InputError(
            f"{source.config or source.checkpoint}: clip_actions: expected a positive limit in the configuration, or "
            f"none, got {said!r}"
        )
    return -float(said), float(said)


def _model(source: Source, weights: Mapping[str, torch.Tensor], settings: Mapping[str, Any], role: str) -> Actor:
    config = settings.get(role)
    if not isinstance(config, Mapping):
        raise InputError(f"{source.config or source.checkpoint}: the configuration has no {role!r}, the checkpoint has")
    config = dict(config)
    for line in fit_actor(config, weights):
        _LOG.warning("%s: %s", source.checkpoint, line)
    for key in ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std"):
        config.pop(key, None)  # what configurations of Isaac Lab still have for older versions
    if config.get("rnn_type", ...) is None:
        config.pop("rnn_type")
    examples = source.examples() or _examples(source.checkpoint, settings, weights, role)
    kind = _class(source, config.pop("class_name", "MLPModel"), torch.nn.Module)
    distribution = config.get("distribution_cfg")
    config["distribution_cfg"] = None if distribution is None else dict(distribution)
    actions = _num_actions(source, weights, distribution)
    try:
        model = kind(examples, {role: list(examples)}, role, actions, **config)
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{source.checkpoint}: {kind.__name__} cannot be made of its configuration: {error}"
        ) from error
    load_strictly(source.checkpoint, model, weights)
    images = [name for name, one in examples.items() if one.dim() > 2]
    joined = list(examples) in ([OBS], [OBS, *images])
    return ModelActor(model.eval(), None if joined else examples, num_actions=actions)


def _examples(
    path: Path, settings: Mapping[str, Any], weights: Mapping[str, torch.Tensor], role: str
) -> dict[str, torch.Tensor]:
    groups = dict(settings.get("obs_groups") or {}).get(role)
    if groups is not None and not groups:
        raise InputError(f"{path}: its configuration has no observation group for the {role}; nothing could be decided")
    if any(key.startswith("cnns.") for key in weights):
        raise InputError(
            f"{path}: it reads images, and does not say how large they are; say with obs=… (--obs) the shape of every "
            f"group: {groups or ['policy', 'camera']}"
        )
    for key in ("obs_normalizer._mean", "rnn.rnn.weight_ih_l0", "mlp.0.weight"):
        if key in weights:
            return {OBS: torch.zeros(1, weights[key].shape[-1])}
    raise InputError(f"{path}: there is no {role} of RSL-RL in it: expected mlp.0.weight, got {list(weights)[:3]}")


def _class(source: Source, name: Any, base: type) -> Any:
    """A class of RSL-RL, or one of the user's own by its import path; nothing else that a configuration may name."""
    where = source.config or source.checkpoint
    try:
        from rsl_rl.utils import resolve_callable
    except ModuleNotFoundError as error:
        raise InputError(f"actors of RSL-RL need {error.name}; use pip install rsl-rl-lib") from error
    try:
        found: Any = resolve_callable(name)
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        raise InputError(f"{where}: there is no class {name!r}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, base):
        raise InputError(f"{where}: expected a class made from {base.__name__}, got {name!r}")
    return found


def _num_actions(source: Source, weights: Mapping[str, torch.Tensor], distribution: Any) -> int:
    path = source.checkpoint
    for key in ("distribution.std_param", "distribution.log_std_param"):
        if key in weights:
            return weights[key].numel()
    layers = [key for key in weights if key.startswith("mlp.") and key.endswith(".weight")]
    if not layers:
        raise InputError(f"{path}: there is no network of RSL-RL in it: expected mlp.0.weight, got {list(weights)[:3]}")
    width = weights[max(layers, key=lambda key: int(key.split(".")[1]))].shape[0]
    if distribution is None:
        return width
    settings = dict(distribution)
    one = _class(source, settings.pop("class_name"), torch.nn.Module)(1, **settings).input_dim
    return width // (one if isinstance(one, int) else int(torch.tensor(one).prod()))
