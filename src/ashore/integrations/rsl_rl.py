"""RSL-RL: checkpoints, and actors as they decide when a policy is played."""

from __future__ import annotations

import copy
import dataclasses
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ashore.environment import ExportableActor
from ashore.errors import InputError
from ashore.integrations.checkpoints import read_tensors

_MODELS = {"actor_state_dict", "student_state_dict", "model_state_dict"}
_LOG = logging.getLogger("ashore")


def read_checkpoint(path: Path, *, trust: bool = False) -> dict[str, Any]:
    """A checkpoint on the CPU.

    Args:
        path: the file.
        trust: whether it may run code while it is read, which any pickle can.
    """
    found = read_tensors(path, trust=trust)
    if not isinstance(found, dict) or not _MODELS & found.keys():
        raise InputError(f"{path}: expected a checkpoint of RSL-RL, with actor_state_dict or model_state_dict in it")
    return found


def fit_settings(settings: Mapping[str, Any], loaded: Mapping[str, Any], checkpoint: Path) -> None:
    """Make what the settings of a runner say about the network that decides what a checkpoint says; with a warning.

    Args:
        settings: of the runner; they are changed.
        loaded: what is in the checkpoint.
        checkpoint: the file.
    """
    for held in ("actor", "student"):
        if f"{held}_state_dict" in loaded and held in settings:
            for line in fit_actor(settings[held], loaded[f"{held}_state_dict"]):
                _LOG.warning("%s: %s", checkpoint, line)


def fit_actor(config: dict[str, Any], state: Mapping[str, torch.Tensor]) -> list[str]:
    """Make the configuration of an actor that of the weights; what was changed, in words.

    Args:
        config: of the actor, as a runner takes it; it is changed.
        state: the weights.
    """
    wanted: dict[str, Any] = {"obs_normalization": any(key.startswith("obs_normalizer.") for key in state)}
    layers = sorted((int(found[1]), key) for key in state if (found := re.fullmatch(r"mlp\.(\d+)\.weight", key)))
    wanted["hidden_dims"] = [int(state[key].shape[0]) for _, key in layers[:-1]]
    recurrent = state.get("rnn.rnn.weight_hh_l0")
    if recurrent is not None:
        gates = recurrent.shape[0] // recurrent.shape[1]
        wanted |= {
            "class_name": "RNNModel",
            "rnn_type": "lstm" if gates == 4 else "gru",
            "rnn_hidden_dim": int(recurrent.shape[1]),
            "rnn_num_layers": sum("weight_hh_l" in key for key in state),
        }
    elif str(config.get("class_name", "MLPModel")).rpartition(".")[2] == "RNNModel":
        wanted |= {"class_name": "MLPModel", "rnn_type": None}
    changed: list[str] = []
    for key, value in wanted.items():
        before = config.get(key)
        if (list(before) if isinstance(before, tuple) else before) != value:
            changed.append(f"{key}: {before} in the configuration, {value} in the checkpoint")
            config[key] = value
    return changed


def as_settings(where: str, config: Any) -> dict[str, Any]:
    """The configuration of a runner as a dict of one's own.

    Args:
        where: what to call it in an error.
        config: a dict, a dataclass, or something with ``to_dict()``.
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = dataclasses.asdict(config)
    else:
        config = getattr(config, "to_dict", lambda: config)()
    if not isinstance(config, Mapping) or not isinstance(config.get("actor"), Mapping):
        raise InputError(f"{where}: expected the configuration of a runner of RSL-RL 5, with an actor in it")
    return copy.deepcopy(dict(config))


def make_actor(
    settings: Mapping[str, Any],
    obs: Mapping[str, torch.Tensor],
    num_actions: int,
    checkpoint: Path,
    *,
    device: str = "cpu",
    trust: bool = False,
) -> RslRlActor:
    """An actor by itself: without a runner, an algorithm and a critic.

    Args:
        settings: the configuration of a runner.
        obs: group -> observations, of the right width.
        num_actions: how many actions there are.
        checkpoint: the weights.
        device: of torch.
        trust: whether the checkpoint may run code while it is read.
    """
    loaded = read_checkpoint(checkpoint, trust=trust)
    if "actor_state_dict" not in loaded:
        raise InputError(f"{checkpoint}: it has no actor_state_dict; it is not from RSL-RL 5")
    weights, config = loaded["actor_state_dict"], dict(settings["actor"])
    for line in fit_actor(config, weights):
        _LOG.warning("%s: %s", checkpoint, line)
    groups = dict(settings.get("obs_groups") or {})
    groups.setdefault("actor", ["actor" if "actor" in obs else "policy"])
    missing = [group for group in groups["actor"] if group not in obs]
    if missing:
        raise InputError(f"the actor reads the observation groups {missing}, the environment gives {sorted(obs)}")
    try:
        from rsl_rl.utils import resolve_callable
    except ModuleNotFoundError as error:
        raise InputError(f"actors of RSL-RL need {error.name}; use pip install rsl-rl-lib") from error
    model: Any = resolve_callable(config.pop("class_name", "MLPModel"))
    policy = model(obs, {"actor": list(groups["actor"])}, "actor", num_actions, **config)
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"{checkpoint}: its weights do not fit the actor of the configuration: {error}") from error
    return RslRlActor(policy.to(device).eval(), settings.get("clip_actions"))


def load_policy(runner: Any, checkpoint: Path, loaded: Mapping[str, Any], *, device: str = "cpu") -> Any:
    """Have a runner read a checkpoint; the module that decides, with the weights that are in the file.

    Args:
        runner: of the task.
        checkpoint: the file.
        loaded: what is in it.
        device: of torch.
    """
    held, kind = ("student" if "student_state_dict" in loaded else "actor"), type(runner).__name__
    try:
        runner.load(str(checkpoint), load_cfg={held: True}, strict=True, map_location=device)
    except KeyError as error:
        raise InputError(f"{checkpoint}: {kind} finds no {error.args[0]} in it; it is of another version") from error
    except RuntimeError as error:
        raise InputError(f"{checkpoint}: its weights do not fit the task: {error}") from error
    policy = runner.get_inference_policy(device=device)
    weights, found = loaded.get(f"{held}_state_dict", {}), policy.state_dict()
    shared = weights.keys() & found.keys()
    if weights and not (shared and all(torch.equal(found[key].cpu(), weights[key].cpu()) for key in shared)):
        # An algorithm loads what it knows of what is asked for, and passes over the rest.
        other = "actor" if held == "student" else "student"
        raise InputError(f"{checkpoint}: it holds the weights of a {held}, the runner of the task trains a {other}")
    return policy


class RslRlActor(ExportableActor):
    """The actor of a runner, with the clip that the wrapper of the environment puts on its actions.

    Args:
        policy: the module that the runner's algorithm gives.
        clip_actions: the wrapper's limit, or None.
    """

    def __init__(self, policy: Any, clip_actions: float | None = None) -> None:
        super().__init__()
        self.policy, self._clip = policy, clip_actions

    @property
    def groups(self) -> list[str]:
        """The observation groups that it reads."""
        further = [*getattr(self.policy, "obs_groups_2d", ()), *getattr(self.policy, "obs_groups_1d", ())]
        return list(dict.fromkeys([*self.policy.obs_groups, *further]))

    def forward(self, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Decide, without drawing."""
        actions = self.policy(_Groups(obs))
        return actions if self._clip is None else torch.clamp(actions, -self._clip, self._clip)

    def reset(self, dones: torch.Tensor) -> None:
        """Forget the hidden state of rows."""
        self.policy.reset(dones)

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        """The hidden state."""
        hidden = self.policy.get_hidden_state()
        return (hidden,) if isinstance(hidden, torch.Tensor) else hidden


class _Groups(dict[str, Any]):
    """Observations by group, as a TensorDict gives them to a model."""
