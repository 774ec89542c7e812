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
from ashore.integrations.lerobot.cached import GUIDANCE
from ashore.integrations.lerobot.draws import Given
from ashore.integrations.lerobot.pipelines import TASK
from ashore.integrations.lerobot.plan import Plan
from ashore.package import Array, Arrays, Package
from ashore.runtime import Policy, load
from ashore.runtime.observing import observe
from ashore.spec import ACTION_QUEUE, NOISE, Manifest, concrete

_TASKS = ("pick up the red block", "open_the drawer ")
_TICKS = 8
"""Of the first episode, where there is no queue."""

_CHUNKS = 3
"""Of the first episode, where each is drawn towards the one before."""


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
        self._left: torch.Tensor | None = None

    def act(self, observation: Mapping[str, Any], given: Given) -> Array:
        """The action (width,) for an observation with a batch axis, and a task."""
        with torch.inference_mode(), given:
            return self.finish(self.policy.select_action(self._prepared(observation))).squeeze(0).numpy().copy()

    def guided(
        self, ours: Policy, observation: Mapping[str, Any], noise: Arrays, given: Given, *, delay: int
    ) -> tuple[Array, Array]:
        """The chunks (steps, width) of a package and of LeRobot, drawn towards what is left of LeRobot's before."""
        port, left = ours.inputs[GUIDANCE[0]], self._left
        chunk = np.zeros(list(concrete(port.shape, 1)), np.float32)
        rows = 0 if left is None else left.shape[1]
        if left is not None:
            chunk[:, :rows] = left.numpy()
        counts = np.array([rows], np.int64), np.array([delay], np.int64)
        inputs = {**observation, **dict(zip(GUIDANCE, (chunk, *counts), strict=True))}
        ports = {name: ours.inputs[name] for name in ours.step_inputs}
        observed = observe("compare", inputs, ports, batch=1, noise=noise, generator=np.random.default_rng(0))
        found = ours.step(observed.inputs)
        configured = self.policy.config.rtc_config
        before, configured.enabled = configured.enabled, True
        self.policy.init_rtc_processor()
        try:
            with torch.no_grad(), given:
                raw = self.policy.predict_action_chunk(
                    self._prepared(observation), prev_chunk_left_over=left, inference_delay=delay
                )
                expected = self.finish(raw)
        finally:
            configured.enabled = before
            self.policy.init_rtc_processor()
        self._left = raw[:, 1 + delay :]
        return np.concatenate([found["action"][0], found["chunk"][0]]), torch.cat([expected[0], raw[0]]).numpy()

    def _prepared(self, observation: Mapping[str, Any]) -> Any:
        known = {*GUIDANCE, TASK}
        batch: dict[str, Any] = {name: as_lerobot(one) for name, one in observation.items() if name not in known}
        return self.prepare(batch | {TASK: observation.get(TASK, ""), "robot_type": ""})


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
    manifest, generator = package.manifest, np.random.default_rng(5)
    ours, theirs = load(package), Reference(export)
    queued = manifest.runner.type == ACTION_QUEUE
    first = plan.params["n_action_steps"] + 1 if queued else _CHUNKS if export.guided else _TICKS
    worst, training = 0.0, export.policy.training
    export.policy.eval()
    try:
        for tick in range(first + 3):
            if tick in (0, first):
                ours.reset()
                theirs.reset()
            seen = observation(manifest, ranges, export.renamed, generator)
            noise = drawn(manifest, generator)
            given = Given(plan.draws(noise))
            if export.guided:
                got, expected = theirs.guided(ours, seen, noise, given, delay=tick % 3)
            else:
                got, expected = ours.select_action(seen, noise=noise or None)[0], theirs.act(seen, given)
            if given.taken not in (0, len(given.left)):
                raise ExportError(f"LeRobot took {given.taken} of {len(given.left)} draws")
            worst = max(worst, _difference(got, expected, tick, atol, rtol))
    finally:
        export.policy.train(training)
    return {"ticks": first + 3, "resets": 2, "max_abs_error": worst}


def _difference(got: Array, expected: Array, tick: int, atol: float, rtol: float) -> float:
    """The largest difference, if it is small."""
    if got.shape != expected.shape:
        raise ExportError(f"the package gives actions {list(got.shape)}; LeRobot gives {list(expected.shape)}")
    error = np.abs(got - expected)
    if not (error <= atol + rtol * np.abs(expected)).all():
        at = np.unravel_index(int(error.argmax()), error.shape)
        raise ExportError(
            f"the package does not compute what LeRobot's own pipeline computes: in tick {tick} "
            f"action{[int(one) for one in at]} is {got[at]:.9g}; LeRobot gives {expected[at]:.9g}"
        )
    return float(error.max())


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
            shape = list(concrete(port.shape, 1))
            coarse = generator.random([1, *(max(1, -(-dim // 8)) if dim > 4 else dim for dim in shape[1:])])
            for axis, dim in enumerate(shape):
                coarse = coarse.repeat(8, axis).take(range(dim), axis) if dim > 4 else coarse
            seen[name] = (coarse * 255).astype(np.uint8) if port.dtype == "uint8" else coarse.astype(np.float32)
        elif name in GUIDANCE[1:]:
            rows = int(manifest.inputs[GUIDANCE[0]].shape[1])
            seen[name] = np.array([rows // 2 if name == GUIDANCE[1] else 1], np.int64)
        elif port.kind != NOISE:
            low, high = ranges.get(named.get(name, name), (np.float32(-1), np.float32(1)))
            share = generator.random(concrete(port.shape, 1), np.float32)
            seen[name] = np.clip(low + share * (high - low), low, high).astype(np.float32)
    return seen


def drawn(manifest: Manifest, generator: np.random.Generator) -> Arrays:
    """Noise for a decision."""
    noise = {name: port for name, port in manifest.inputs.items() if port.kind == NOISE}
    return {name: generator.standard_normal(concrete(port.shape, 1), np.float32) for name, port in noise.items()}
