"""How the modules of an inference type become stages: which runs once, and which a runner runs several times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ashore.building import Pipeline, add_loop
from ashore.building.loops import ACTION
from ashore.errors import ExportError, ManifestError
from ashore.runtime.loops import LOOPS, find_loop
from ashore.staged.exportable import ExportInputs
from ashore.staged.stages import Captured

BODY = "denoise"
"""The module that is run in every step of a loop."""

SINGLE = "single_pass"
ALIASES: Mapping[str, str] = {"kv_cache_flow": "flow"}
"""Inference type -> the runner that it is: a flow is the same whether what it looks at is a cache or not."""


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
    ((name, body),) = bodies.items()
    add_loop(pipeline, kind, name, body.stage, inputs[name].features or {}, params)
