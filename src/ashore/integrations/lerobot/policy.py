"""A package in place of a LeRobot policy, in loops that were written for those: tensors in, tensors out.

A package holds its preprocessor and postprocessor. A loop that runs LeRobot's own around the policy would do all of it
twice, so give it those of the package, which change nothing:

    policy = ExportedLeRobotPolicy("act.ashore")
    action = predict_action(
        observation, policy, policy.device, policy.preprocessor, policy.postprocessor, use_amp=False, task=task
    )
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import torch

from ashore.errors import InputError
from ashore.integrations.lerobot.cached import GUIDANCE
from ashore.integrations.lerobot.pipelines import TASK
from ashore.runtime import load
from ashore.runtime.observing import observe
from ashore.spec import ACTION_QUEUE, NOISE, TEXT

T = TypeVar("T")
_CHUNK = "chunk"


class Unchanged:
    """A pipeline without steps."""

    def __call__(self, data: T) -> T:
        """What it is given."""
        return data

    def reset(self) -> None:
        """Nothing is remembered."""


class ExportedLeRobotPolicy(torch.nn.Module):
    """`select_action`, `predict_action_chunk` and `reset` of a LeRobot policy, computed by a package.

    Observations are batches of LeRobot before its preprocessor: float32, images with the channels first from 0 to 1, a
    batch axis of one row, and a ``task``. What a package does not take is left alone. Actions are those of the robot.

    Args:
        path: a package that was exported from a LeRobot policy.
        options: as for `ashore.load`, such as ``backend``.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        super().__init__()
        self._policy = load(path, **options)
        self._generator = np.random.default_rng()
        manifest = self._policy.manifest
        if "action" not in manifest.outputs:
            raise InputError(f"{path}: gives {sorted(manifest.outputs)}; expected an action")
        self.guided = _CHUNK in manifest.outputs
        """Whether it does real-time chunking."""

        self.left_over: torch.Tensor | None = None
        """With real-time chunking: the last chunk as LeRobot's ``ActionQueue`` keeps it, (1, steps, action)."""

        self.device = torch.device("cpu")
        self.preprocessor, self.postprocessor = Unchanged(), Unchanged()
        about: Mapping[str, Any] = manifest.metadata.get("lerobot", {})
        self.name = str(about.get("policy", manifest.name))
        self.config = SimpleNamespace(type=self.name, device="cpu", use_amp=False)

    @property
    def manifest(self) -> Any:
        """The contract of the package."""
        return self._policy.manifest

    def reset(self) -> None:
        """Start an episode."""
        self._policy.reset()
        self.left_over = None

    def select_action(self, batch: Mapping[str, Any], noise: Any = None) -> torch.Tensor:
        """The next action, shape (1, action).

        Args:
            batch: of LeRobot, before its preprocessor.
            noise: what a generating policy starts from: a tensor, or by name.
        """
        if self.guided:
            raise InputError("select_action: a package with real-time chunking gives chunks; use predict_action_chunk")
        return torch.from_numpy(self._policy.select_action(self._observation(batch), noise=_arrays(noise)))

    def predict_action_chunk(
        self,
        batch: Mapping[str, Any],
        noise: Any = None,
        *,
        prev_chunk_left_over: torch.Tensor | None = None,
        inference_delay: int | None = None,
        execution_horizon: int | None = None,
    ) -> torch.Tensor:
        """All actions that the policy decides on, shape (1, steps, action).

        Args:
            batch: as for `select_action`.
            noise: likewise.
            prev_chunk_left_over: with real-time chunking, what is left of the `left_over` before, (steps, action).
            inference_delay: how many of its actions are executed until this chunk comes.
            execution_horizon: only that of the package, or None.
        """
        if not self.guided:
            if prev_chunk_left_over is not None or inference_delay is not None or execution_horizon is not None:
                raise InputError("predict_action_chunk: this package has no real-time chunking; export with guidance")
            if self._policy.manifest.runner.type != ACTION_QUEUE:
                raise InputError("predict_action_chunk: this package averages chunks over time; use select_action")
            chunk = self._policy.predict_action_chunk(self._observation(batch), noise=_arrays(noise))
            return torch.from_numpy(chunk)
        horizon = self._horizon()
        if execution_horizon not in (None, horizon):
            raise InputError(f"execution_horizon: this package was exported with {horizon}, got {execution_horizon}")
        given = self._observation(batch) | self._guidance(prev_chunk_left_over, inference_delay)
        ports = {name: self._policy.inputs[name] for name in self._policy.step_inputs}
        observed = observe(
            "predict_action_chunk", given, ports, batch=1, noise=_arrays(noise), generator=self._generator
        )
        found = self._policy.step(observed.inputs)
        self.left_over = torch.from_numpy(found[_CHUNK])
        return torch.from_numpy(found["action"])

    def forward(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Packages are not trained; this is `select_action`."""
        return self.select_action(batch)

    def _horizon(self) -> int:
        (runner,) = (stage.runner for stage in self.manifest.stages.values() if stage.runner is not None)
        return int(runner.params["guidance"]["horizon"])

    def _guidance(self, left: torch.Tensor | None, delay: int | None) -> dict[str, Any]:
        port = self._policy.inputs[GUIDANCE[0]]
        chunk, rows = np.zeros([int(dim) for dim in port.shape], np.float32), 0
        if left is not None:
            array = left.detach().cpu().numpy()
            array = array[0] if array.ndim == 3 else array
            rows = len(array)
            if array.ndim != 2 or array.shape[1] != chunk.shape[2] or rows > chunk.shape[1]:
                raise InputError(
                    f"prev_chunk_left_over: expected at most {chunk.shape[1]} actions of {chunk.shape[2]}, "
                    f"got {list(array.shape)}"
                )
            if delay is None:
                raise InputError("inference_delay: say how many actions are executed meanwhile")
            chunk[0, :rows] = array
        counts = (np.array([rows], np.int64), np.array([delay or 0], np.int64))
        return dict(zip(GUIDANCE, (chunk, *counts), strict=True))

    def _observation(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, port in self._policy.inputs.items():
            if name not in batch or port.kind == NOISE:
                continue
            value = batch[name]
            if port.kind == TEXT or name == TASK:
                found[name] = value if isinstance(value, str) else list(value)
                continue
            array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
            found[name] = _as_bytes(name, array) if (port.dtype, array.dtype.kind) == ("uint8", "f") else array
        return found


def _as_bytes(name: str, images: Any) -> Any:
    """What a camera gave, of what LeRobot made of it: bytes over 255, channels first."""
    scaled = images * np.float32(255)
    rounded = np.round(scaled)
    if not (np.abs(scaled - rounded) < 1e-3).all() or rounded.min() < 0 or rounded.max() > 255:
        raise InputError(f"{name!r}: these images were no bytes; export the policy with images='float_chw'")
    return np.moveaxis(rounded.astype(np.uint8), -3, -1)


def _arrays(noise: Any) -> Any:
    if isinstance(noise, Mapping):
        return {name: _arrays(value) for name, value in noise.items()}
    return noise.detach().cpu().numpy() if isinstance(noise, torch.Tensor) else noise
