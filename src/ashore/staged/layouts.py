"""How the modules of an inference type become stages: which runs once, and which a runner runs several times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ashore.errors import ExportError, ManifestError
from ashore.runtime.loops import LOOPS, feeds, find_loop
from ashore.spec import NOISE, Dim, Port, Runner, Stage
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
    kind, bodies = ALIASES.get(inference, inference), dict[str, Captured]()
    if kind != SINGLE:
        try:
            find_loop(kind)
        except ManifestError as error:
            known = sorted([SINGLE, *ALIASES, *LOOPS])
            raise ExportError(f"unknown inference type {inference!r}; there are {known} ({error})") from error
        bodies = {name: one for name, one in captured.items() if name == BODY} or dict(list(captured.items())[-1:])
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
    fed = {key: own.get(key, port) for key, port in feeds(kind).items()}
    written = [fed[key] for key in ("sample", "time") if key in fed]
    missing = [port for port in written if port not in body.stage.inputs]
    if missing:
        raise ExportError(
            f"stage {name!r}: expected the inputs {written} for the runner {kind!r}, got {sorted(body.stage.inputs)}"
        )
    features = inputs[name].features or {}
    context = {port: features.get(port, port) for port in body.stage.inputs if port not in written}
    ports = {port: body.stage.inputs[port] for port in context}
    made = body.stage.outputs
    if "sample" in fed:
        sample = body.stage.inputs[fed["sample"]].shape
        made = {ACTION: Port(dtype="float32", shape=sample)}
        for port, one in _further_inputs(kind, own, fed, sample).items():
            if port not in pipeline.features:  # or something was made of it
                pipeline.add_input(port, one)
            context[port], ports[port] = port, Port(dtype=one.dtype, shape=one.shape)
    if ACTION not in made:
        raise ExportError(f"stage {name!r}: expected an output {ACTION!r}, got {sorted(made)}")
    pipeline.stages[name] = msgspec.structs.replace(body.stage, rate="loop")
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
