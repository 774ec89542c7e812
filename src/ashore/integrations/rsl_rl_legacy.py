"""Checkpoints of RSL-RL 2 and 3, whose actor-critics are one module. They are rebuilt here.

RSL-RL itself is needed only for convolutions: version 5 builds them as version 3 did, of the same settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ashore.actor import Actor
from ashore.actor.actor_critics import OBS, ActorCritic
from ashore.errors import InputError
from ashore.integrations.activations import Memory, activation, dense, recurrent
from ashore.integrations.checkpoints import check_state, load_strictly
from ashore.integrations.trainers import Source

_EPSILON = 1e-2
_ROLES = {"actor": ("memory_a", "actor_obs_normalizer"), "student": ("memory_s", "student_obs_normalizer")}
_CLASSES = ("ActorCritic", "ActorCriticRecurrent", "ActorCriticCNN", "StudentTeacher", "StudentTeacherRecurrent")
_NOT_THE_ACTOR = (
    "critic", "critic_cnns", "memory_c", "critic_obs_normalizer", "teacher", "memory_t", "teacher_obs_normalizer"
)  # fmt: skip


class EmpiricalNormalization(nn.Module):
    """``(x - mean) / (std + eps)``, as RSL-RL keeps it."""

    _mean: torch.Tensor
    _std: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = _EPSILON
        for name, value in (("_mean", torch.zeros(1, width)), ("_var", torch.ones(1, width))):
            self.register_buffer(name, value)
        self.register_buffer("_std", torch.ones(1, width))
        self.register_buffer("count", torch.tensor(0, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise rows."""
        return (x - self._mean) / (self._std + self.eps)


class Legacy(nn.Module):
    """An actor of those versions: normaliser, memory, layers, and the mean where the layers give a deviation too.

    Args:
        actor: the layers.
        memory_a: the memory in front of them, if any.
        actor_obs_normalizer: the normaliser in front of that, if any.
        halves: whether the layers give mean and deviation.
        cnns: what turns images into vectors, which follow the others; by group.
    """

    def __init__(
        self,
        actor: nn.Module,
        memory_a: Memory | None,
        actor_obs_normalizer: nn.Module | None,
        halves: bool,
        cnns: nn.ModuleDict | None = None,
    ) -> None:
        super().__init__()
        self.actor, self.memory_a, self.halves, self.actor_cnns = actor, memory_a, halves, cnns
        if cnns is not None:  # then observations come by group
            self.actor_obs_groups_1d, self.actor_obs_groups_2d = [OBS], list(cnns)
            self.obs_groups = {"policy": [OBS, *cnns]}
        self.actor_obs_normalizer = actor_obs_normalizer
        self.std: nn.Parameter | None = None
        self.log_std: Any = None
        self.logarithmic = False
        """Whether the deviation that the layers give is a logarithm."""

    def act_inference(self, obs: Any) -> torch.Tensor:
        """Decide without drawing."""
        found = self._layers(obs)
        return found.unflatten(-1, (2, -1))[..., 0, :] if self.halves else found

    def mean_and_std(self, obs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """What actions are drawn from."""
        found = self._layers(obs)
        if self.halves:
            found, spread = found.unflatten(-1, (2, -1)).unbind(-2)
            return found, spread.exp() if self.logarithmic else spread
        if self.std is not None:
            return found, self.std.expand_as(found)
        return found, torch.exp(self.log_std).expand_as(found)

    def reset(self, dones: torch.Tensor | None = None) -> None:
        """Forget the hidden state of rows."""
        if self.memory_a is not None:
            self.memory_a.reset(dones)

    def _layers(self, given: Any) -> torch.Tensor:
        obs = given if self.actor_cnns is None else given[OBS]
        obs = obs if self.actor_obs_normalizer is None else self.actor_obs_normalizer(obs)
        if self.actor_cnns is not None:
            obs = torch.cat([obs, *(cnn(given[name]) for name, cnn in self.actor_cnns.items())], dim=-1)
        return self.actor(obs if self.memory_a is None else self.memory_a(obs))


def legacy_actor(source: Source, loaded: Mapping[str, Any], settings: Mapping[str, Any]) -> Actor:
    """The actor or the student of a checkpoint with ``model_state_dict``."""
    path = source.checkpoint
    state = check_state(f"{path}: model_state_dict", loaded["model_state_dict"])
    role = next((one for one in _ROLES if any(key.startswith(f"{one}.") for key in state)), None)
    if role is None:
        raise InputError(f"{path}: there is no actor in it: expected actor.0.weight, got {list(state)[:3]}")
    config = settings.get("policy")
    if not isinstance(config, Mapping):
        raise InputError(f"{source.config or path}: the configuration has no 'policy', as those of RSL-RL 2 and 3 have")
    name = str(config.get("class_name", settings.get("policy_class_name", _CLASSES[0])))
    if re.split(r"[.:]", name)[-1] not in _CLASSES:
        raise InputError(
            f"{source.config or path}: the policy is a {name!r}, which cannot be rebuilt of its weights; known are "
            f"{list(_CLASSES)}; load it with its own code, and call ashore.export_actor(runner.alg.policy, …)"
        )
    groups = settings.get("obs_groups") or {}
    if "policy" in groups and not groups["policy"]:
        raise InputError(f"{path}: its configuration has no observation group for the policy; nothing could be decided")
    weights = _renamed(state, role)
    statistics = loaded.get("obs_norm_state_dict")  # of version 2, which kept it apart
    if statistics is not None:
        weights |= {f"actor_obs_normalizer.{key}": value for key, value in check_state(path, statistics).items()}
    examples = source.examples()
    cnns = _convolutions(source, weights, config, examples, groups.get("policy"))
    model = _built(source, weights, config, cnns)
    load_strictly(path, model, weights)
    return ActorCritic(model.eval(), _examples(source, model, weights, examples))


def _renamed(state: Mapping[str, torch.Tensor], role: str) -> dict[str, torch.Tensor]:
    """The weights of the actor or the student alone, under the names of an actor."""
    memory, normalizer = _ROLES[role]
    names = {role: "actor", memory: "memory_a", normalizer: "actor_obs_normalizer"}
    names |= {one: one for one in ("actor_cnns", "std", "log_std")}
    found: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        head, _, rest = key.partition(".")
        if head in names:
            found[names[head] + (f".{rest}" if rest else "")] = value
        elif head not in _NOT_THE_ACTOR:
            raise InputError(f"{key}: it is not known what this weight is for; load the checkpoint in RSL-RL itself")
    return found


def _convolutions(
    source: Source,
    weights: Mapping[str, torch.Tensor],
    config: Mapping[str, Any],
    examples: Mapping[str, torch.Tensor],
    groups: Sequence[str] | None,
) -> nn.ModuleDict | None:
    """The convolutions of every group of images, in the order of the groups; None where there are no images."""
    path = source.checkpoint
    names = dict.fromkeys(key.split(".")[1] for key in weights if key.startswith("actor_cnns."))
    if not names:
        return None
    missing = [name for name in names if name not in examples]
    if missing:
        raise InputError(
            f"{path}: it reads images, and does not say how large they are; say with obs=… (--obs) the shape of "
            f"{missing}, as in --obs {missing[0]}=1,64,64"
        )
    try:
        from rsl_rl.modules import CNN
    except ModuleNotFoundError as error:
        raise InputError(f"convolutions of RSL-RL need {error.name}; use pip install rsl-rl-lib") from error
    settings = config.get("actor_cnn_cfg")
    if not isinstance(settings, Mapping) or not settings:
        raise InputError(f"{source.config or path}: the configuration has no actor_cnn_cfg, the checkpoint has images")
    own = all(isinstance(one, Mapping) for one in settings.values())
    made = nn.ModuleDict()
    for name in [one for one in groups or names if one in names]:
        _, channels, *size = examples[name].shape
        if len(size) != 2:
            raise InputError(f"{path}: obs {name}: expected channels, height and width, got {[channels, *size]}")
        try:
            made[name] = CNN((size[0], size[1]), channels, **(settings[name] if own else settings))
        except (TypeError, ValueError, KeyError) as error:
            raise InputError(
                f"{path}: the convolutions of {name!r} cannot be made of actor_cnn_cfg: {error}"
            ) from error
    return made


def _examples(
    source: Source, model: Legacy, weights: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What an actor with images reads, by example: its vectors in one piece, and each group of images."""
    if model.actor_cnns is None:
        return {}
    wide = int(weights["actor.0.weight"].shape[1])
    wide -= sum(int(cnn.output_dim) for cnn in model.actor_cnns.values())  # pyright: ignore[reportArgumentType]
    images = {name: given[name] for name in model.actor_cnns}
    vectors = {name: int(one.shape[-1]) for name, one in given.items() if name not in images}
    if vectors and sum(vectors.values()) != wide:
        raise InputError(f"{source.checkpoint}: it reads {wide} numbers beside its images, and obs says {vectors}")
    return {OBS: torch.zeros(1, wide), **images}


def _built(
    source: Source, weights: Mapping[str, torch.Tensor], config: Mapping[str, Any], cnns: nn.ModuleDict | None
) -> Legacy:
    path = source.checkpoint
    layers = sorted((int(found[1]), key) for key in weights if (found := re.fullmatch(r"actor\.(\d+)\.weight", key)))
    if not layers or any(index != 2 * place for place, (index, _) in enumerate(layers)):
        raise InputError(f"{path}: expected layers actor.0, actor.2, … got {[key for _, key in layers]}")
    sizes = [int(weights[layers[0][1]].shape[1]), *(int(weights[key].shape[0]) for _, key in layers)]
    name = config.get("activation", "elu")
    actor = dense(sizes, lambda: activation(path, name), last=False)
    memory = None
    if "memory_a.rnn.weight_hh_l0" in weights:
        count = sum(key.startswith("memory_a.rnn.weight_hh_l") for key in weights)
        memory = Memory(recurrent(weights["memory_a.rnn.weight_ih_l0"], weights["memory_a.rnn.weight_hh_l0"], count))
    statistics = weights.get("actor_obs_normalizer._mean")
    normalizer = None if statistics is None else EmpiricalNormalization(int(statistics.shape[-1]))
    model = Legacy(actor, memory, normalizer, halves=not {"std", "log_std"} & weights.keys(), cnns=cnns)
    model.logarithmic = config.get("noise_std_type") == "log"
    for one in ("std", "log_std"):
        if one in weights:
            setattr(model, one, nn.Parameter(torch.ones_like(weights[one])))
    return model
