"""rl_games: checkpoints of its A2C and PPO agents, rebuilt from weights and configuration, without rl_games itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ashore.actor import Actor, Spread
from ashore.actor.hidden import HiddenStates
from ashore.errors import InputError
from ashore.integrations.activations import Memory, activation, dense, recurrent
from ashore.integrations.checkpoints import check_state, load_strictly, read_tensors
from ashore.integrations.settings import find_settings, read_settings
from ashore.integrations.trainers import Source

OBS = "obs"
_CLIP, _EPSILON = 5.0, 1e-5
_NETWORKS = ("actor_critic",)
_NOT_THE_ACTOR = ("value", "value_mean_std", "critic_mlp", "c_rnn", "c_layer_norm")


class RunningMeanStd(nn.Module):
    """``clip((x - mean) / sqrt(var + epsilon), -5, 5)``, as rl_games does it, in its precision."""

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.epsilon = _EPSILON
        self.register_buffer("running_mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("running_var", torch.ones(width, dtype=torch.float64))
        self.register_buffer("count", torch.ones((), dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise rows."""
        y = (x - self.running_mean.float()) / torch.sqrt(self.running_var.float() + self.epsilon)
        return torch.clamp(y, min=-_CLIP, max=_CLIP)


class Network(nn.Module):
    """The actor's half of an rl_games network: normaliser, layers and memory in either order, and a head.

    Args:
        parts: by the names of rl_games' own weights.
        memory_first: whether the memory is in front of the layers.
        joins: whether the observation joins what goes into the memory, and what comes out of it.
    """

    def __init__(self, parts: Mapping[str, nn.Module], memory_first: bool, joins: tuple[bool, bool]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(dict(parts))
        self.memory_first, self.joins = memory_first, joins

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """What the heads are given."""
        parts = self.parts
        obs = parts["normalizer"](obs) if "normalizer" in parts else obs
        out = obs
        if "memory" in parts and self.memory_first:
            return parts["mlp"](self._remember(out, obs))
        out = parts["mlp"](out)
        if "memory" in parts:
            out = self._remember(torch.cat((out, obs), dim=1) if self.joins[0] else out, obs)
        return out

    def _remember(self, x: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        out = self.parts["memory"](x)
        out = self.parts["layer_norm"](out) if "layer_norm" in self.parts else out
        return torch.cat((out, obs), dim=1) if self.joins[1] else out


def open_checkpoint(source: Source) -> Actor:
    """The actor of a checkpoint; the configuration says what lies between its weights."""
    path = source.checkpoint
    # rl_games writes numpy numbers beside the weights
    loaded = read_tensors(path, trust=source.trust)
    if not isinstance(loaded, Mapping) or "model" not in loaded:
        raise InputError(f"{path}: expected a checkpoint of rl_games, with a model in it")
    state = {
        key.removeprefix("_orig_mod.").replace("._orig_mod.", "."): value
        for key, value in check_state(f"{path}: model", loaded["model"]).items()
    }
    network, config = _settings(source)
    _refuse_unknown(source, network, state)
    model, head, weights = _built(source, network, state)
    wanted = bool(config.get("normalize_input", False))
    if wanted != ("normalizer" in model.parts):
        raise InputError(
            f"{path}: there are {'no ' * wanted}statistics of observations in it, and the configuration says "
            f"normalize_input: {wanted}; give the configuration that it was trained with"
        )
    whole = nn.ModuleDict({"network": model, **head})
    load_strictly(path, whole, weights)
    space = (network.get("space") or {}).get("continuous") or {}
    finish = activation(path, space.get("mu_activation") or "none")
    clips = bool(config.get("clip_actions", True)) and "mu" in head
    if clips and source.actions is None:
        raise InputError(
            f"{path}: rl_games scales actions to the limits of the environment, which a checkpoint does not have; say "
            "actions=(low, high) (--actions=-1,1), or set clip_actions: False in the configuration as it was trained"
        )
    if source.actions is not None and not clips:
        raise InputError(f"{path}: its actions are not scaled, and actions={source.actions} says so; leave it out")
    if source.actions is not None and not (-math.inf < source.actions[0] < source.actions[1] < math.inf):
        raise InputError(f"actions: expected the least and the largest action, got {source.actions}")
    return RlGamesActor(whole.eval(), finish, source.actions)


def _settings(source: Source) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the configuration says about the network, and about the rest."""
    where = find_settings(source.checkpoint, source.config)
    settings = read_settings(where)
    params = settings.get("params", settings)
    network, config = (params.get(one) if isinstance(params, Mapping) else None for one in ("network", "config"))
    mlp = network.get("mlp") if isinstance(network, Mapping) else None
    if not isinstance(network, Mapping) or not isinstance(mlp, Mapping) or not mlp.get("activation"):
        raise InputError(
            f"{where}: expected a configuration of rl_games, with the activation of its layers in "
            f"params.network.mlp; got {list(settings)[:4]}"
        )
    if not isinstance(config, Mapping):
        raise InputError(f"{where}: expected a configuration of rl_games, with params.config in it")
    return network, config


class RlGamesActor(Actor):
    """A network, as rl_games' player plays it deterministically.

    Args:
        modules: ``network``, and its heads.
        finish: the activation of the mean.
        limits: the least and the largest action, if they are scaled.
    """

    def __init__(self, modules: nn.ModuleDict, finish: nn.Module, limits: tuple[float, float] | None) -> None:
        self._modules, self._finish, self._limits = modules, finish, limits
        self._hidden = HiddenStates(modules)
        network: Any = modules["network"]
        parts = network.parts
        first = parts["memory"].rnn if network.memory_first and "memory" in parts else parts["mlp"][0]
        width = first.input_size if isinstance(first, nn.RNNBase) else first.in_features
        super().__init__({"model": modules}, {OBS: torch.zeros(1, int(width))}, "rl_games")
        self.about = {"output": "argmax of the logits" if "logits" in modules else "mean", "scaled_to": limits}

    def decide(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Decide without drawing."""
        out = self._modules["network"](inputs[OBS])
        if "logits" in self._modules:
            return self._modules["logits"](out).argmax(dim=-1)
        return self._scaled(self._finish(self._modules["mu"](out)))

    def spread(self, inputs: Mapping[str, torch.Tensor]) -> Spread | None:
        """The Gaussian, whose deviation is kept as a logarithm."""
        if "logits" in self._modules:
            return None
        out, sigma = self._modules["network"](inputs[OBS]), self._modules["sigma"]
        mean = self._finish(self._modules["mu"](out))
        return Spread(mean, torch.exp(sigma(out)).expand_as(mean), self._scaled)

    def hidden(self) -> dict[str, torch.Tensor]:
        """The hidden state of the memory."""
        return self._hidden.tensors()

    def forget(self, dones: torch.Tensor | None) -> None:
        """Begin an episode in rows."""
        network: Any = self._modules["network"]
        if "memory" in network.parts:
            network.parts["memory"].reset(dones)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Leave no hidden state behind."""
        try:
            yield
        finally:
            self._hidden.restore()

    def _scaled(self, actions: torch.Tensor) -> torch.Tensor:
        if self._limits is None:
            return actions
        low, high = self._limits
        return torch.clamp(actions, -1.0, 1.0) * ((high - low) / 2.0) + (high + low) / 2.0


class Constant(nn.Module):
    """A parameter that does not depend on the observation."""

    def __init__(self, like: torch.Tensor) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros_like(like))

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        """The parameter."""
        return self.value


def _refuse_unknown(source: Source, network: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
    name, mlp = network.get("name", "actor_critic"), network.get("mlp") or {}
    unknown = [
        what
        for what, there in (
            (f"a network called {name!r}", name not in _NETWORKS),
            ("convolutions (cnn)", "cnn" in network or "resnet" in network),
            ("d2rl", bool(mlp.get("d2rl"))),
            (f"normalization: {network.get('normalization')}", bool(network.get("normalization"))),
            ("several heads (multi_discrete)", "multi_discrete" in (network.get("space") or {})),
            ("an identity memory", (network.get("rnn") or {}).get("name") == "identity"),
        )
        if there
    ]
    if unknown:
        raise InputError(
            f"{source.config or source.checkpoint}: this network has {', '.join(unknown)}, which cannot be rebuilt; "
            "load it with rl_games, and record it with ashore.record"
        )
    if not any(key.startswith("a2c_network.") for key in state):
        raise InputError(f"{source.checkpoint}: there is no actor in it: expected a2c_network.…, got {list(state)[:3]}")


def _built(
    source: Source, network: Mapping[str, Any], state: Mapping[str, torch.Tensor]
) -> tuple[Network, dict[str, nn.Module], dict[str, torch.Tensor]]:
    """The network, its heads, and the weights under their names."""
    path, own = source.checkpoint, {key.removeprefix("a2c_network."): value for key, value in state.items()}
    mlp, rnn = network.get("mlp") or {}, network.get("rnn")
    keys = sorted((key for key in own if key.startswith("actor_mlp.") and key.endswith("weight")), key=_place)
    if not keys:
        raise InputError(
            f"{path}: there is no actor in it: expected a2c_network.actor_mlp.0.weight, got {list(own)[:3]}"
        )
    if not own[keys[0]].shape[1]:
        raise InputError(f"{path}: it reads no observations: {keys[0]} is {list(own[keys[0]].shape)}")
    sizes = [int(own[keys[0]].shape[1]), *(int(own[key].shape[0]) for key in keys)]
    parts: dict[str, nn.Module] = {"mlp": dense(sizes, lambda: activation(path, mlp.get("activation")), last=True)}
    names = {"actor_mlp": "network.parts.mlp", "running_mean_std": "network.parts.normalizer"}
    if "running_mean_std.running_mean" in own:
        parts["normalizer"] = RunningMeanStd(int(own["running_mean_std.running_mean"].shape[-1]))
    memory = "a_rnn" if network.get("separate") else "rnn"
    stem = f"{memory}.rnn"
    if f"{stem}.weight_hh_l0" in own and not rnn:
        raise InputError(f"{path}: it has a memory, {stem}.weight_hh_l0, and the configuration has none (network.rnn)")
    if f"{stem}.weight_hh_l0" in own:
        layers = sum(key.startswith(f"{stem}.weight_hh_l") for key in own)
        parts["memory"] = Memory(recurrent(own[f"{stem}.weight_ih_l0"], own[f"{stem}.weight_hh_l0"], layers))
        names[memory] = "network.parts.memory"
        norm = "a_layer_norm" if network.get("separate") else "layer_norm"
        if f"{norm}.weight" in own:
            parts["layer_norm"], names[norm] = nn.LayerNorm(own[f"{norm}.weight"].shape), "network.parts.layer_norm"
    elif rnn:
        raise InputError(f"{path}: the configuration has a memory, the checkpoint has none: {stem}.weight_hh_l0")
    rnn = rnn or {}
    model = Network(parts, bool(rnn.get("before_mlp")), (bool(rnn.get("concat_input")), bool(rnn.get("concat_output"))))
    heads: dict[str, nn.Module] = {}
    for name in ("mu", "logits", "sigma"):
        if f"{name}.weight" in own:
            wide, narrow = own[f"{name}.weight"].shape
            heads[name], names[name] = nn.Linear(narrow, wide), name
        elif name in own:
            heads[name], names[name] = Constant(own[name]), f"{name}.value"
    if not {"mu", "logits"} & heads.keys():
        raise InputError(f"{path}: there is no actor in it: it has neither mu nor logits")
    weights = {}
    for key, value in own.items():
        head, dot, rest = key.partition(".")
        if head in names:
            weights[f"{names[head]}{dot}{rest}"] = value
        elif head not in _NOT_THE_ACTOR:
            raise InputError(f"{path}: a2c_network.{key}: it is not known what this weight is for")
    return model, heads, weights


def _place(key: str) -> int:
    return int(key.split(".")[1])
