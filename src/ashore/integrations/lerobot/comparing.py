"""A package beside LeRobot's own pipeline: preprocessor, `select_action`, postprocessor, with the same noise.

The modules of a package are compared with their files by the staged door. This proves the rest: that processors,
history, loop and queue do what LeRobot does around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ashore.errors import ExportError
from ashore.integrations.lerobot.draws import Given
from ashore.integrations.lerobot.pipelines import TASK
from ashore.integrations.lerobot.plan import Plan
from ashore.package import Array, Arrays, Package
from ashore.runtime import load
from ashore.spec import ACTION_QUEUE, NOISE, Manifest

_TASKS = ("pick up the red block", "open_the drawer ")
_TICKS = 8
"""Of the first episode, where there is no queue."""


class Reference:
    """A policy of LeRobot with its processors, run as LeRobot's `predict_action` runs it.

    Args:
        export: the policy, with its steps.
    """

    def __init__(self, export: Any) -> None:
        self.policy = export.policy
        self._before, self._after = export.steps()
        from lerobot.processor import DataProcessorPipeline  # pyright: ignore[reportMissingImports]
        from lerobot.processor import converters as c  # pyright: ignore[reportMissingImports]

        self.prepare: Any = DataProcessorPipeline(
            steps=self._before, to_transition=c.batch_to_transition, to_output=c.transition_to_batch
        )
        self.finish: Any = DataProcessorPipeline(
            steps=self._after,
            to_transition=c.policy_action_to_transition,
            to_output=c.transition_to_policy_action,
        )

    def reset(self) -> None:
        """Start an episode."""
        self.policy.reset()
        self.prepare.reset()
        self.finish.reset()

    def act(self, observation: Mapping[str, Any], given: Given) -> Array:
        """The action (width,) for an observation with a batch axis, and a task."""
        batch: dict[str, Any] = {name: as_lerobot(value) for name, value in observation.items() if name != TASK}
        batch |= {TASK: observation.get(TASK, ""), "robot_type": ""}
        with torch.inference_mode(), given:
            return self.finish(self.policy.select_action(self.prepare(batch))).squeeze(0).numpy().copy()


def as_lerobot(value: Array) -> torch.Tensor:
    """As LeRobot's `prepare_observation_for_inference` does: bytes become float32 from 0 to 1, channels first."""
    tensor = torch.from_numpy(np.array(value))
    if tensor.dtype != torch.uint8:
        return tensor
    tensor = tensor.type(torch.float32) / 255
    return tensor if tensor.shape[-1] not in (1, 3, 4) else tensor.permute(0, 3, 1, 2).contiguous()


def compare(
    package: Package,
    export: Any,
    plan: Plan,
    ranges: Mapping[str, tuple[Array, Array]],
    *,
    atol: float = 1e-4,
    rtol: float = 1e-4,
) -> dict[str, Any]:
    """Run both, with a reset in between; what was found, for the manifest.

    Args:
        package: a draft.
        export: the policy.
        plan: how it is exported.
        ranges: feature -> where its values lie.
        atol: the largest absolute difference.
        rtol: what is added to it, as a share of what LeRobot computes.
    """
    ours, theirs, generator = load(package), Reference(export), np.random.default_rng(5)
    manifest = package.manifest
    first = _TICKS if manifest.runner.type != ACTION_QUEUE else plan.params["n_action_steps"] + 1
    named, worst = export.renamed, 0.0
    training = export.policy.training
    export.policy.eval()
    try:
        for tick in range(first + 3):
            if tick in (0, first):
                ours.reset()
                theirs.reset()
            seen = observation(manifest, ranges, named, generator)
            noise = drawn(manifest, generator)
            got = ours.select_action(seen, noise=noise or None)[0]
            given = Given(plan.draws(noise))
            expected = theirs.act(seen, given)
            if given.taken not in (0, len(given.left)):
                raise ExportError(f"LeRobot took {given.taken} of {len(given.left)} draws")
            error = np.abs(got - expected)
            worst = max(worst, float(error.max()))
            if got.shape != expected.shape or not (error <= atol + rtol * np.abs(expected)).all():
                at = int(error.argmax())
                raise ExportError(
                    f"the package does not compute what LeRobot's own pipeline computes: in tick {tick} action[{at}] is "
                    f"{got[at]:.9g}; LeRobot gives {expected[at]:.9g}"
                )
    finally:
        export.policy.train(training)
    return {"ticks": first + 3, "resets": 2, "max_abs_error": worst}


def observation(
    manifest: Manifest,
    ranges: Mapping[str, tuple[Array, Array]],
    named: Mapping[str, str],
    generator: np.random.Generator,
) -> dict[str, Any]:
    """What a robot might see: values where those of the data lie, smooth images."""
    seen: dict[str, Any] = {}
    for name, port in manifest.inputs.items():
        if name == TASK:
            seen[name] = _TASKS[int(generator.integers(len(_TASKS)))]
        elif (port.kind or "").startswith("sensor/image"):
            shape = [int(dim) for dim in port.shape]
            coarse = generator.random([1, *(max(1, -(-dim // 8)) if dim > 4 else dim for dim in shape[1:])])
            for axis, dim in enumerate(shape):
                coarse = coarse.repeat(8, axis).take(range(dim), axis) if dim > 4 else coarse
            seen[name] = (coarse * 255).astype(np.uint8) if port.dtype == "uint8" else coarse.astype(np.float32)
        elif port.kind != NOISE:
            low, high = ranges.get(named.get(name, name), (np.float32(-1), np.float32(1)))
            share = generator.random(port.shape, np.float32)
            seen[name] = np.clip(low + share * (high - low), low, high).astype(np.float32)
    return seen


def drawn(manifest: Manifest, generator: np.random.Generator) -> Arrays:
    """Noise for a decision."""
    noise = {name: port for name, port in manifest.inputs.items() if port.kind == NOISE}
    return {name: generator.standard_normal(port.shape, np.float32) for name, port in noise.items()}
