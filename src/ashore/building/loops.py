"""A stage that a runner runs several times, and the stage that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ashore.building.pipeline import Pipeline
from ashore.errors import ExportError
from ashore.spec import NOISE, Port, Runner, Stage

ACTION = "action"
"""The feature that a policy computes."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"flow": {"t_start": 1.0, "t_end": 0.0}}
_FED: Mapping[str, Mapping[str, str]] = {
    "flow": {"sample": "x_t", "time": "timestep", "noise": "noise"},
    "ddpm": {"sample": "sample", "time": "timestep", "noise": "noise"},
    "ddim": {"sample": "sample", "time": "timestep", "noise": "noise"},
}
"""Runner -> what it feeds itself, by the parameters that name it, and their defaults."""


def add_loop(
    pipeline: Pipeline, kind: str, name: str, body: Stage, features: Mapping[str, str], params: Mapping[str, Any]
) -> None:
    """Add a stage and the one whose runner runs it. The last sample is the feature ``action`` then.

    Args:
        pipeline: with all features that the stage takes as context.
        kind: the runner.
        name: what to call the stage that is run.
        body: that stage.
        features: port of it -> the feature that it takes; left out, they have the same name.
        params: of the runner.
    """
    own = {**_DEFAULTS.get(kind, {}), **params}
    fed = {key: own.get(key, port) for key, port in _FED[kind].items()}
    if fed["sample"] not in body.inputs or fed["time"] not in body.inputs:
        raise ExportError(
            f"stage {name!r}: expected the inputs {fed['sample']!r} and {fed['time']!r}, got {sorted(body.inputs)}"
        )
    sample = body.inputs[fed["sample"]]
    noise = Port(dtype="float32", shape=sample.shape, kind=NOISE, description="standard normal")
    context = {port: features.get(port, port) for port in body.inputs if port not in (fed["sample"], fed["time"])}
    ports = {port: body.inputs[port] for port in context}
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
    pipeline.stages[name] = msgspec.structs.replace(body, rate="loop")
    generate = Stage(
        rate="policy",
        inputs=ports,
        outputs={ACTION: Port(dtype="float32", shape=sample.shape)},
        runner=Runner(type=kind, params=own, stages=(name,)),
    )
    pipeline.add_stage("generate", generate, context, {ACTION: ACTION}, {})
