"""Trying a staged package: its files against its modules, in the same loop, over episodes with a reset in the middle.

The rollout is made by the package itself with the modules in place of their files, so that processors, loops and queues
take part; it is kept in the package as its golden rollout. What the processors compute is proven by their own tests,
and by whoever has a pipeline of the training side to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from ashore.backends.torch_session import TorchSession
from ashore.capture.options import ExportOptions
from ashore.errors import ExportError
from ashore.package import Arrays, Golden, Package, Recording
from ashore.processors import build
from ashore.runtime.loading import assemble
from ashore.runtime.loops import Body, open_loop
from ashore.runtime.observing import observe
from ashore.runtime.policy import Policy
from ashore.runtime.processing import ProcessorSession
from ashore.spec import (
    ACTION_QUEUE,
    DTYPE_BYTES,
    Artifact,
    BackendResult,
    Manifest,
    Port,
    Verification,
    concrete,
)
from ashore.staged.exportable import ExportInputs, Observation
from ashore.verify import replay

_EPISODES = 2
_TICKS = 4
"""An episode is one and a half queues long, and at least so many ticks."""

_BYTES = 1 << 27
"""How large a rollout may grow for that: images and their history are kept with each tick."""


def prove(
    package: Package,
    modules: Mapping[str, torch.nn.Module],
    inputs: Mapping[str, ExportInputs],
    example: Observation,
    observations: Iterable[Observation],
    options: ExportOptions,
) -> tuple[Golden, Verification]:
    """Run a package with its modules, and with its files; the rollout, and what was found.

    Args:
        package: a draft without a golden rollout.
        modules: stage -> module.
        inputs: stage -> what its module takes.
        example: an observation.
        observations: further ones.
        options: tolerances.
    """
    policy = eager_policy(package, modules, inputs)
    golden = roll_out(policy, example, observations)
    report = replay(package, golden=golden, atol=options.atol, rtol=options.rtol)
    if not report.passed:
        told = "\n  ".join(one.message for one in report.mismatches)
        raise ExportError(f"the saved files do not compute what the modules compute:\n  {told}")
    (backend,) = {backend for stage in package.manifest.stages.values() for backend in stage.artifacts} or {"onnx"}
    result = BackendResult(
        backend=backend,
        runtime=report.backend,
        max_abs_error_stepwise=report.worst("stepwise"),
        max_abs_error_free_running=report.worst("free_running"),
    )
    proof = Verification(
        status="passed",
        steps=report.steps,
        resets=report.resets,
        atol=report.atol,
        rtol=report.rtol,
        results=(result,),
    )
    return golden, proof


def eager_policy(
    package: Package, modules: Mapping[str, torch.nn.Module], inputs: Mapping[str, ExportInputs]
) -> Policy:
    """A package that is run with the modules its files were made from."""
    stages, sessions = package.manifest.stages, {}
    for name, stage in stages.items():
        if stage.processor is not None:
            sessions[name] = ProcessorSession(build(f"stage {name!r}", stage, package.read))
        elif stage.runner is None:
            order = Artifact(path="-", inputs=tuple(inputs[name].input_names), outputs=tuple(inputs[name].output_names))
            sessions[name] = TorchSession(_flat(modules[name]), order)
    for name, stage in stages.items():
        if stage.runner is not None:
            bodies = [Body(body, stages[body], sessions[body]) for body in stage.runner.stages]
            sessions[name] = open_loop(f"stage {name!r}", stage, bodies)
    return assemble(package, sessions)


def _flat(module: torch.nn.Module) -> Any:
    return lambda *tensors: tuple(tree_leaves(module(*tensors)))


def roll_out(policy: Policy, example: Observation, observations: Iterable[Observation]) -> Golden:
    """Episodes of a policy, recorded."""
    recording, generator = Recording(), np.random.default_rng(0)
    seen = _observations(policy.manifest, example, observations, generator)
    queue = next((s.shape[1] for n, s in policy.manifest.states.items() if n.endswith(".queue")), 1)
    ticks = max(_TICKS, int(queue) * 3 // 2 if policy.manifest.runner.type == ACTION_QUEUE else 0)
    ticks = max(_TICKS, min(ticks, _BYTES // (_EPISODES * _size(policy.manifest))))
    for episode in range(_EPISODES):
        policy.reset()
        if episode:
            recording.reset()
        for _ in range(ticks):
            given = observe("export", next(seen), policy.inputs, batch=1, generator=generator)
            outputs = policy.step(given.inputs)
            recording.step(given.inputs, outputs, policy.state())
    return recording.golden()


def _size(manifest: Manifest) -> int:
    """What a tick takes, in bytes."""
    arrays = (*manifest.inputs.values(), *manifest.outputs.values(), *manifest.states.values())
    return sum(math.prod(concrete(one.shape, 1)) * DTYPE_BYTES[one.dtype] for one in arrays)


def _observations(
    manifest: Manifest, example: Observation, given: Iterable[Observation], generator: np.random.Generator
) -> Iterator[Arrays]:
    """The example, what was given, and then inputs near the example for ever."""
    names = [name for name in manifest.inputs if name in example]
    for one in chain([example], given):
        yield {name: _as_array(one[name]) for name in names}
    while True:
        yield {name: _near(_as_array(example[name]), manifest.inputs[name], generator) for name in names}


def _as_array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value


def _near(value: Any, port: Port, generator: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.uint8:
        return np.clip(value.astype(np.int64) + generator.integers(-8, 9, value.shape), 0, 255).astype(np.uint8)
    if value.dtype.kind != "f":
        return value
    moved = value + 0.1 * generator.standard_normal(value.shape)
    if (port.kind or "").startswith("sensor/image"):
        moved = np.clip(moved, value.min(), value.max())
    return moved.astype(value.dtype)
