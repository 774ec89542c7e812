"""A stage that a runner runs several times, and the stage that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ashore.building.pipeline import Pipeline
from ashore.errors import ExportError
from ashore.runtime.loops import feeds
from ashore.spec import NOISE, Dim, Port, Runner, Stage

ACTION = "action"
"""The feature that a policy computes."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"flow": {"t_start": 1.0, "t_end": 0.0}}


def add_loop(
    pipeline: Pipeline, kind: str, name: str, body: Stage, features: Mapping[str, str], params: Mapping[str, Any]
) -> None:
    """Add a stage and the one whose runner runs it. What that gives is the feature ``action`` then.

    Args:
        pipeline: with all features that the stage takes as context.
        kind: the runner.
        name: what to call the stage that is run.
        body: that stage.
        features: port of it -> the feature that it takes; left out, they have the same name.
        params: of the runner.
    """
    own = {**_DEFAULTS.get(kind, {}), **params}
    fed = {key: own.get(key, port) for key, port in feeds(kind).items()}
    written = [port for key, port in fed.items() if key != "noise"]
    missing = [port for port in written if port not in body.inputs]
    if missing:
        raise ExportError(
            f"stage {name!r}: expected the inputs {written} for the runner {kind!r}, got {sorted(body.inputs)}"
        )
    context = {port: features.get(port, port) for port in body.inputs if port not in written}
    ports = {port: body.inputs[port] for port in context}
    made = body.outputs
    if "sample" in fed:
        sample = body.inputs[fed["sample"]].shape
        made = {ACTION: Port(dtype="float32", shape=sample)}
        for port, one in _further_inputs(kind, own, fed, sample).items():
            if port not in pipeline.features:  # or something was made of it
                pipeline.add_input(port, one)
            context[port], ports[port] = port, Port(dtype=one.dtype, shape=one.shape)
    if ACTION not in made:
        raise ExportError(f"stage {name!r}: expected an output {ACTION!r}, got {sorted(made)}")
    pipeline.stages[name] = msgspec.structs.replace(body, rate="loop")
    runner = Runner(type=kind, params=own, stages=(name,))
    generate = Stage(rate="policy", inputs=ports, outputs=made, runner=runner)
    pipeline.add_stage("generate", generate, context, {port: port for port in made}, {})


def _further_inputs(
    kind: str, params: Mapping[str, Any], fed: Mapping[str, str], sample: tuple[Dim, ...]
) -> dict[str, Port]:
    """What the package takes for a loop, besides what the body looks at."""
    found: dict[str, Port] = {}
    if "guidance" in params:
        found["prev_chunk"] = Port(dtype="float32", shape=sample, description="what is left of the chunk before")
        found["prev_length"] = Port(dtype="int64", shape=(1,), description="how many of its actions there are")
        found["delay"] = Port(dtype="int64", shape=(1,), description="how many of them are executed meanwhile")
    if "noise" in fed:
        found[fed["noise"]] = Port(dtype="float32", shape=sample, kind=NOISE)
    if kind == "ddpm":
        found["step_noise"] = Port(dtype="float32", shape=(params["num_inference_steps"], *sample), kind=NOISE)
    return found
