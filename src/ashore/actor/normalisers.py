"""Normalisers: which ones an actor has, by what formula, and whether leaving one out would be noticed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ashore.errors import InputError

_STATISTICS = (
    ("_mean", "_std"),
    ("_mean", "_var"),
    ("running_mean", "running_var"),
    ("running_mean", "running_variance"),
    ("mean", "std"),
    ("mean", "var"),
)
"""What trainers call mean and spread."""

_UNKNOWN = "as recorded"
_LEARNED = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)
"""Layers of a network, and no normalisers of what comes into it."""

_NOT_THE_ACTOR = ("critic", "value", "teacher", "memory_c", "memory_t", "reward", "privileged")


class Normalizer(torch.nn.Module):
    """``(x - mean) / sqrt(var + epsilon)`` with a clip, as stable-baselines3 and Gymnasium do it, in their precision.

    Args:
        mean: of the observation.
        var: its variance.
        epsilon: what is added to the variance.
        clip: the largest magnitude of what comes out, or None.
    """

    mean: torch.Tensor
    var: torch.Tensor

    def __init__(self, mean: Any, var: Any, epsilon: float = 1e-8, clip: float | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(np.asarray(mean, np.float64)))
        self.register_buffer("var", torch.as_tensor(np.asarray(var, np.float64)))
        if self.mean.shape != self.var.shape or bool((self.var < 0).any()):
            raise InputError(
                f"normalizer: expected a mean and variances of one shape, got {list(self.mean.shape)} and "
                f"{list(self.var.shape)}, the least variance is {float(self.var.min()):g}"
            )
        self.epsilon, self.clip = float(epsilon), None if clip is None else float(clip)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Normalise rows of observations; float32 goes in and comes out."""
        made = (obs - self.mean) / torch.sqrt(self.var + self.epsilon)
        return (made if self.clip is None else torch.clamp(made, -self.clip, self.clip)).to(torch.float32)


def as_normalizer(given: Any) -> torch.nn.Module | None:
    """A normaliser as a module: a module already, or something with running statistics such as a VecNormalize."""
    if given is None or isinstance(given, torch.nn.Identity):
        return None
    if isinstance(given, torch.nn.Module):
        return given
    statistics = getattr(given, "obs_rms", None)
    if isinstance(statistics, Mapping):
        raise InputError(f"normalizer: {type(given).__name__} normalises a dict of observations; export its model")
    if statistics is not None and hasattr(statistics, "mean") and hasattr(statistics, "var"):
        clip = getattr(given, "clip_obs", None)
        return Normalizer(statistics.mean, statistics.var, getattr(given, "epsilon", 1e-8), clip)
    raise InputError(
        f"normalizer: expected a module, or something with obs_rms, got {type(given).__name__}; "
        "ashore.actor.Normalizer(mean, var, epsilon, clip) makes one of statistics"
    )


@dataclass(frozen=True)
class Found:
    """A normaliser among the modules of an actor."""

    name: str
    module: torch.nn.Module
    mean: torch.Tensor
    spread: torch.Tensor
    is_std: bool

    @property
    def std(self) -> torch.Tensor:
        """The standard deviation of each element."""
        return self.spread if self.is_std else self.spread.clamp(min=0.0).sqrt()


def find_normalizers(modules: Mapping[str, torch.nn.Module]) -> list[Found]:
    """The normalisers that belong to an actor, by what they keep. Those of critics and teachers are left out."""
    found: dict[int, Found] = {}
    for root, top in modules.items():
        for path, module in top.named_modules(prefix=root):
            if isinstance(module, _LEARNED) or any(
                word in part for part in path.lower().split(".") for word in _NOT_THE_ACTOR
            ):
                continue
            kept = dict(module.named_buffers(recurse=False))
            for mean, spread in _STATISTICS:
                one, other = kept.get(mean), kept.get(spread)
                if one is not None and other is not None and one.is_floating_point() and one.shape == other.shape:
                    found.setdefault(id(module), Found(path, module, one, other, is_std="std" in spread))
                    break
    return list(found.values())


def describe(found: Found) -> dict[str, Any]:
    """What the manifest says about a normaliser: formula, shape and digest of its statistics."""
    return {
        "name": found.name,
        "class": type(found.module).__name__,
        "formula": formula(found),
        "shape": list(found.mean.shape),
        "sha256": digest(found.module),
    }


def digest(module: torch.nn.Module) -> str:
    """The sha256 of the statistics: of each buffer its name, dtype, shape and bytes."""
    told = hashlib.sha256()
    for name, tensor in sorted(module.named_buffers()):
        value = tensor.detach().cpu().contiguous()
        told.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        told.update(value.numpy().tobytes())
    return told.hexdigest()


def formula(found: Found) -> str:
    """What a normaliser computes, found by trying it with other statistics: the class may be called anything."""
    if found.mean.dim() > 2 or found.mean.numel() == 0:
        return _UNKNOWN
    named = (getattr(found.module, name, None) for name in ("epsilon", "eps"))
    epsilon = next((float(one) for one in named if isinstance(one, float) and one > 0.0), 0.0)
    wide = torch.randn(64, found.mean.shape[-1], generator=torch.Generator().manual_seed(0))
    try:
        with torch.no_grad():
            # With a variance of 0, the epsilon alone divides; with one of 1, it is nearly nothing.
            narrow, far = _with_spread(found, 0.0), _with_spread(found, 1.0)
            made = narrow(epsilon * wide) if epsilon else far(wide)
            wider = _with_spread(found, 4.0)(wide)
            limits = far(1e6 * torch.tensor([[-1.0], [1.0]]).expand(2, wide.shape[1]))
    except (RuntimeError, TypeError, ValueError):
        return _UNKNOWN
    if not isinstance(made, torch.Tensor) or made.shape != wide.shape:
        return _UNKNOWN
    added = f" + {epsilon:g}" if epsilon else ""
    if not torch.allclose(wider.float(), wide / (4.0 if found.is_std else 2.0), rtol=0.05, atol=1e-3):
        return _UNKNOWN  # it divides by something else than the deviation
    if _close(made, wide):
        text = f"(x - mean) / (std{added})"
    elif epsilon and _close(made, wide * epsilon**0.5):
        text = f"(x - mean) / sqrt(var{added})"
    else:
        return _UNKNOWN
    low, high = float(limits[0].max()), float(limits[1].min())
    return text if high > 1e5 else f"clip({text}, {low:g}, {high:g})"


def _with_spread(found: Found, spread: float) -> torch.nn.Module:
    """A copy with a mean of 0 and the same spread for all elements."""
    made = copy.deepcopy(found.module)
    for mean, other in _STATISTICS:
        for name, value in ((mean, 0.0), (other, spread)):
            if name in dict(made.named_buffers(recurse=False)):
                setattr(made, name, torch.full_like(getattr(made, name), value))
    return made.eval()


def _close(made: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(made.float(), expected, rtol=1e-4, atol=1e-5)
