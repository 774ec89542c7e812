"""stable-baselines3 and sb3-contrib: PPO, A2C, SAC, TD3, DDPG, DQN and recurrent PPO, with VecNormalize.

What `predict` does outside of torch, namely to normalise, unscale and clip, is said in torch, by the same formulas.
"""

from __future__ import annotations

import inspect
import io
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ashore.actor import Actor, Normalizer, Spread
from ashore.actor.hidden import named
from ashore.actor.normalisers import as_normalizer
from ashore.errors import InputError
from ashore.integrations.checkpoints import check_state, load_strictly, must_be_trusted, read_tensors
from ashore.integrations.trainers import Source

OBS = "obs"
_POLICY = "policy.pth"


def open_checkpoint(source: Source) -> Actor:
    """The policy of a ``.zip`` that ``model.save`` wrote; its classes and spaces are pickles, so it must be trusted."""
    path = source.checkpoint
    weights = check_state(f"{path}: {_POLICY}", read_tensors(path, data=_member(path, _POLICY)))
    must_be_trusted(path, source.trust, "stable-baselines3 keeps classes and spaces as pickles")
    try:
        from stable_baselines3.common.save_util import load_from_zip_file
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: this needs {error.name}; use pip install 'ashore[sb3]'") from error
    try:
        data, _, _ = load_from_zip_file(path, device="cpu")
    except (ModuleNotFoundError, AttributeError) as error:
        raise InputError(
            f"{path}: its classes are not there: {error}; sb3-contrib has those of recurrent PPO"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: this is no model of stable-baselines3: {error!r}") from error
    if not data or not {"policy_class", "observation_space", "action_space"} <= data.keys():
        raise InputError(f"{path}: expected a model of stable-baselines3, got a zip with {sorted(data or {})[:4]}")
    options = dict(data.get("policy_kwargs") or {})
    if data.get("use_sde") and "use_sde" in inspect.signature(data["policy_class"]).parameters:
        options.setdefault("use_sde", True)
    policy = data["policy_class"](data["observation_space"], data["action_space"], lambda _: 0.0, **options)
    load_strictly(path, policy, weights)
    return Sb3Actor(policy.to("cpu"), _statistics(source))


def as_actor(given: Any, *, normalizer: Any = None, example: Mapping[str, torch.Tensor] | None = None) -> Actor:
    """The actor of a model, or of a policy. The VecNormalize of a model's environment goes with it."""
    del example  # the spaces say it all
    policy = getattr(given, "policy", given)
    if not callable(getattr(policy, "_predict", None)):
        raise InputError(f"{type(given).__name__} decides nothing; export the model, or its policy")
    if normalizer is None and callable(getattr(given, "get_vec_normalize_env", None)):
        normalizer = given.get_vec_normalize_env()
    return Sb3Actor(policy, _normalizers(normalizer))


class Sb3Actor(Actor):
    """A policy, as ``model.predict(obs, deterministic=True)`` plays it.

    Args:
        policy: of a model.
        normalizers: input -> what VecNormalize does to it.
    """

    def __init__(self, policy: Any, normalizers: Mapping[str, torch.nn.Module]) -> None:
        self._policy, self._space = policy, policy.action_space
        self._recurrent = hasattr(policy, "lstm_actor")
        self._state: tuple[torch.Tensor, torch.Tensor] | None = None
        spaces = getattr(policy.observation_space, "spaces", None)
        self._named = isinstance(spaces, Mapping)
        spaces = dict(spaces) if isinstance(spaces, Mapping) else {OBS: policy.observation_space}
        self._normalizers = dict(normalizers)
        for name in self._normalizers:
            if name not in spaces:
                raise InputError(f"normalizer: the policy has no observation {name!r}; it has {list(spaces)}")
        modules = {"policy": policy} | {f"normalizer_{name}": one for name, one in self._normalizers.items()}
        super().__init__(modules, {name: _example(name, one) for name, one in spaces.items()}, "sb3")
        self.counts = {name: int(one.n) for name, one in spaces.items() if type(one).__name__ == "Discrete"}
        self.tools = ("stable-baselines3", "sb3-contrib") if self._recurrent else ("stable-baselines3",)
        self._limits: tuple[torch.Tensor, ...] = tuple(
            torch.as_tensor(getattr(self._space, side), dtype=torch.float32)
            for side in ("low", "high")
            if hasattr(self._space, side)
        )
        self.about = {"policy": type(policy).__name__, "output": self._output()}

    def decide(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Decide as `predict` does, and finish the action as it does."""
        obs = self._observation(dict(inputs))
        if self._recurrent:
            actions = self._distribution(obs).get_actions(deterministic=True)
        else:
            actions = self._policy._predict(obs, deterministic=True)
        return self._finish(actions.reshape(-1, *self._space.shape))

    def spread(self, inputs: Mapping[str, torch.Tensor]) -> Spread | None:
        """The Gaussian of the policy, squashed or not."""
        obs = self._observation(dict(inputs))
        actor: Any = getattr(self._policy, "actor", None)
        if hasattr(actor, "get_action_dist_params") and not getattr(actor, "use_sde", False):
            mean, log_std, _ = actor.get_action_dist_params(obs)
            return Spread(mean, log_std.exp(), lambda drawn: self._finish(torch.tanh(drawn)))
        if not hasattr(self._policy, "get_distribution"):
            return None
        found = self._distribution(obs)
        if type(found).__name__ != "DiagGaussianDistribution":
            return None
        return Spread(found.distribution.mean, found.distribution.stddev, self._finish)

    def hidden(self) -> dict[str, torch.Tensor]:
        """The hidden state of the actor's LSTM."""
        return named(self._state)

    def forget(self, dones: torch.Tensor | None) -> None:
        """Begin an episode: a row starts from zeros, as ``episode_start`` makes it."""
        if dones is None:
            self._state = None
        elif self._state is not None:
            for state in self._state:
                state[:, dones] = 0.0

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Leave no hidden state behind."""
        try:
            yield
        finally:
            self._state = None

    def _observation(self, inputs: dict[str, torch.Tensor]) -> Any:
        for name, normalizer in self._normalizers.items():
            inputs[name] = normalizer(inputs[name])
        return inputs if self._named else inputs[OBS]

    def _distribution(self, obs: Any) -> Any:
        if not self._recurrent:
            return self._policy.get_distribution(obs)
        policy = self._policy
        features = _features(policy, obs)
        out, self._state = policy.lstm_actor(features.unsqueeze(0), self._state)
        return policy._get_action_dist_from_latent(policy.mlp_extractor.forward_actor(out.squeeze(0)))

    def _finish(self, actions: torch.Tensor) -> torch.Tensor:
        if not self._limits:
            return actions
        low, high = self._limits
        if self._policy.squash_output:
            return low + 0.5 * (actions + 1.0) * (high - low)
        return torch.clamp(actions, low, high)

    def _output(self) -> str:
        if not self._limits:
            return "greedy"
        return "squashed and scaled" if self._policy.squash_output else "clipped"


def _features(policy: Any, obs: Any) -> torch.Tensor:
    """What a recurrent policy hands to its LSTM; its own method gives the critic's too, where they differ."""
    from stable_baselines3.common.policies import BasePolicy

    return BasePolicy.extract_features(policy, obs, policy.pi_features_extractor)


def _example(name: str, space: Any) -> torch.Tensor:
    kind = type(space).__name__
    if kind not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        raise InputError(f"observation {name!r}: a space of kind {kind} is not known")
    shape = tuple(space.shape)
    if any(length == 0 for length in shape):
        raise InputError(
            f"observation {name!r} is empty, its shape is {list(shape)}; nothing could be decided from that"
        )
    dtype = torch.as_tensor(space.sample()).dtype
    return torch.zeros(1, *shape, dtype=torch.float32 if dtype.is_floating_point else dtype)


def _normalizers(given: Any) -> dict[str, torch.nn.Module]:
    """Input -> its normaliser, of a VecNormalize or of a module."""
    statistics = getattr(given, "obs_rms", None)
    if given is None or (not isinstance(given, torch.nn.Module) and getattr(given, "norm_obs", True) is False):
        return {}
    if isinstance(statistics, Mapping):
        epsilon, clip = float(getattr(given, "epsilon", 1e-8)), float(getattr(given, "clip_obs", 10.0))
        return {str(name): Normalizer(one.mean, one.var, epsilon, clip) for name, one in statistics.items()}
    found = as_normalizer(given)
    return {} if found is None else {OBS: found}


def _statistics(source: Source) -> dict[str, torch.nn.Module]:
    """The normalisers of a file that ``VecNormalize.save`` wrote."""
    if source.normalizer == "none":
        return {}
    beside = sorted(source.checkpoint.parent.glob("*vec*normalize*.pkl"))
    if source.normalizer is None:
        if beside:
            raise InputError(
                f"{source.checkpoint}: {beside[0].name} lies beside it; if the policy was trained with it, give "
                f"normalizer={str(beside[0])!r} (--normalizer), else say normalizer='none'"
            )
        return {}
    path = Path(source.normalizer)
    must_be_trusted(path, source.trust, "VecNormalize is a pickle")
    try:
        with path.open("rb") as stream:
            given = pickle.load(stream)  # noqa: S301 - the user said so
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError) as error:
        raise InputError(f"{path}: this is no VecNormalize: {error}") from error
    if not hasattr(given, "obs_rms") and getattr(given, "norm_obs", True):
        raise InputError(f"{path}: expected a VecNormalize, got {type(given).__name__}")
    return _normalizers(given)


def _member(path: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except KeyError:
        raise InputError(f"{path}: expected a model of stable-baselines3, with {name} in it") from None
    except (zipfile.BadZipFile, io.UnsupportedOperation, EOFError) as error:
        raise InputError(f"{path}: this is no zip of stable-baselines3: {error}") from error
