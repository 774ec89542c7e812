"""How the modules of an inference type become stages: which runs once, and which a runner runs several times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ashore.errors import ExportError
from ashore.runtime.loops import LOOPS
from ashore.spec import NOISE, Port, Runner, Stage
from ashore.staged.exportable import ExportInputs
from ashore.staged.pipeline import Pipeline
from ashore.staged.stages import Captured

ACTION = "action"
BODY = "denoise"
"""The module that is run in every step of a loop."""

SINGLE = "single_pass"
ALIASES: Mapping[str, str] = {"kv_cache_flow": "flow"}
"""Inference type -> the runner that it is: a flow is the same whether what it looks at is a cache or not."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"flow": {"t_start": 1.0, "t_end": 0.0}}
_FED: Mapping[str, Mapping[str, str]] = {
    "flow": {"sample": "x_t", "time": "timestep", "noise": "noise"},
    "ddpm": {"sample": "sample", "time": "timestep", "noise": "noise"},
    "ddim": {"sample": "sample", "time": "timestep", "noise": "noise"},
}
"""Runner -> what it feeds itself, by the parameters that name it, and their defaults."""


def lay_out(
    pipeline: Pipeline,
    inference: str,
    captured: Mapping[str, Captured],
    inputs: Mapping[str, ExportInputs],
    params: Mapping[str, Any],
) -> None:
    """Add the modules to a pipeline. The chunk, or the action, is the feature ``action`` then.

    Args:
        pipeline: with all features that the modules take.
        inference: the inference type.
        captured: stage -> its module, exported, in the order they run.
        inputs: stage -> what its ports take.
        params: of the runner.
    """
    kind = ALIASES.get(inference, inference)
    if kind == SINGLE:
        bodies: dict[str, Captured] = {}
    elif kind in LOOPS:
        bodies = {name: one for name, one in captured.items() if name == BODY} or dict(list(captured.items())[-1:])
    else:
        raise ExportError(f"unknown inference type {inference!r}; there are {sorted([SINGLE, *ALIASES, *LOOPS])}")
    last = ""
    for name, one in captured.items():
        pipeline.files |= one.files
        if name not in bodies:
            features = inputs[name].features or {}
            outputs = {port: port for port in one.stage.outputs}
            pipeline.add_stage(
                name, one.stage, {port: features.get(port, port) for port in one.stage.inputs}, outputs, {}
            )
            last = name
    if not bodies:
        given = captured[last].stage.outputs
        if ACTION not in given and len(given) != 1:
            raise ExportError(f"stage {last!r}: expected an output {ACTION!r}, or a single one, got {sorted(given)}")
        if ACTION not in given:
            pipeline.rename(next(iter(given)), ACTION)
        return
    _loop(pipeline, kind, bodies, inputs, params)


def _loop(
    pipeline: Pipeline,
    kind: str,
    bodies: Mapping[str, Captured],
    inputs: Mapping[str, ExportInputs],
    params: Mapping[str, Any],
) -> None:
    ((name, body),) = bodies.items()
    own = {**_DEFAULTS.get(kind, {}), **params}
    fed = {key: own.get(key, port) for key, port in _FED[kind].items()}
    if fed["sample"] not in body.stage.inputs or fed["time"] not in body.stage.inputs:
        raise ExportError(
            f"stage {name!r}: expected the inputs {fed['sample']!r} and {fed['time']!r}, got "
            f"{sorted(body.stage.inputs)}"
        )
    sample = body.stage.inputs[fed["sample"]]
    noise = Port(dtype="float32", shape=sample.shape, kind=NOISE, description="standard normal")
    context = {
        port: (inputs[name].features or {}).get(port, port)
        for port in body.stage.inputs
        if port not in (fed["sample"], fed["time"])
    }
    ports = {port: body.stage.inputs[port] for port in context}
    drawn = {fed["noise"]: noise}
    if kind == "ddpm":
        steps = int(own["num_inference_steps"]) - 1
        if steps:
            drawn["step_noise"] = msgspec.structs.replace(noise, shape=(steps, *sample.shape))
    if "guidance" in own:
        chunk, count = Port(dtype="float32", shape=sample.shape), Port(dtype="int64", shape=(1,))
        guided = {"prev_chunk": chunk, "prev_length": count, "delay": count}
        for port, one in guided.items():
            pipeline.add_input(port, one)
            context[port], ports[port] = port, one
    for port, one in drawn.items():
        pipeline.add_input(port, one)
        context[port], ports[port] = port, msgspec.structs.replace(one, kind=None, description=None)
    pipeline.stages[name] = msgspec.structs.replace(body.stage, rate="loop")
    generate = Stage(
        rate="policy",
        inputs=ports,
        outputs={ACTION: Port(dtype="float32", shape=sample.shape)},
        runner=Runner(type=kind, params=own, stages=(name,)),
    )
    pipeline.add_stage("generate", generate, context, {ACTION: ACTION}, {})
