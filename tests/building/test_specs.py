"""Processors in words, to stages of a pipeline.

    {"type": "pad", "features": ["q", "v"], "size": 8, "value": 0.0}

becomes two stages, pad.q and pad.v, whose outputs have eight elements; their parameter is the value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ashore.building import Pipeline, apply, touched
from ashore.errors import ExportError
from ashore.package import save_arrays
from ashore.processors import build
from ashore.spec import Manifest, Port, Runner, Stage, check

B = "batch"
STATISTICS = save_arrays({f"{name}/{key}": np.ones(3, np.float32) for name in ("x", "y") for key in ("mean", "std")})


def port(*shape: int | str, dtype: str = "float32", **meaning: Any) -> Port:
    return Port(dtype=dtype, shape=shape, **meaning)  # type: ignore[arg-type]


def text(width: int) -> Port:
    return port(B, width, dtype="uint8", kind="command/language")


def pipeline_of(**inputs: Port) -> Pipeline:
    pipeline = Pipeline()
    for name, one in inputs.items():
        pipeline.add_input(name, one)
    return pipeline


def applied(spec: dict[str, Any], **inputs: Port) -> Pipeline:
    """A pipeline of those inputs, to which one spec was applied."""
    pipeline = pipeline_of(**inputs)
    apply(pipeline, spec)
    return pipeline


def finished(pipeline: Pipeline, *outputs: str) -> Manifest:
    """The manifest of a pipeline with those features as outputs; it is sound."""
    for feature in outputs:
        pipeline.add_output(feature, feature)
    manifest = pipeline.manifest("policy", Runner(type="single_pass"))
    check(manifest)
    return manifest


def params_of(pipeline: Pipeline, stage: str) -> dict[str, Any]:
    processor = pipeline.stages[stage].processor
    assert processor is not None
    return processor.params


# --- one input, one output -------------------------------------------------------------------------------------------

PLAIN = {
    "normalize": ({"artifact": "stats"}, port(B, 3), (B, 3), {"mode": "mean_std", "statistics": "x"}),
    "normalize by others": (
        {"type": "normalize", "artifact": "stats", "statistics": "y", "mode": "mean_std", "eps": 0.5},
        port(B, 3),
        (B, 3),
        {"mode": "mean_std", "statistics": "y", "eps": 0.5},
    ),
    "denormalize": ({"artifact": "stats"}, port(B, 3), (B, 3), {"mode": "mean_std", "statistics": "x"}),
    "denormalize and trim": (
        {"type": "denormalize", "artifact": "stats", "trim": True, "size": 3},
        port(B, 5),
        (B, 3),
        {"mode": "mean_std", "statistics": "x", "trim": True},
    ),
    "pad": ({"size": 8, "value": 0.5}, port(B, 2, 3), (B, 2, 8), {"value": 0.5}),
    "slice": ({"start": [1, 2], "shape": [2, 3]}, port(B, 4, 6), (B, 2, 3), {"start": [0, 1, 2]}),
    "resize": ({"height": 5, "width": 7}, port(B, 3, 4, 4), (B, 3, 5, 7), {}),
    "resize_with_pad": ({"height": 5, "width": 7, "value": -1}, port(B, 3, 4, 4), (B, 3, 5, 7), {"value": -1}),
    "image": ({}, port(B, 4, 5, 3, dtype="uint8"), (B, 3, 4, 5), {}),
    "image of a window": ({"type": "image"}, port(B, 2, 4, 5, 3, dtype="uint8"), (B, 2, 3, 4, 5), {}),
    "image that is turned": (
        {"type": "image", "layout": "chw", "range": [0, 255]},
        port(B, 3, 4, 5),
        (B, 3, 4, 5),
        {"layout": "chw", "range": [0, 255]},
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_spec_says_what_becomes_of_a_feature_and_the_processor_does_it(name: str) -> None:
    fields, before, shape, params = PLAIN[name]
    pipeline = applied({"type": name, "features": ["x"], **fields}, x=before)
    assert pipeline.port("x").shape == shape
    ((stage_name, stage),) = pipeline.stages.items()
    assert params_of(pipeline, stage_name) == params
    assert stage_name == f"{stage.processor.type if stage.processor else ''}.x"
    assert pipeline.assets == ({fields["artifact"]} if "artifact" in fields else set())
    finished(pipeline, "x")
    check_shapes(stage, before)


def check_shapes(stage: Stage, before: Port) -> None:
    """The processor takes what the stage says it takes, and gives what that says it gives."""
    given = np.zeros([2 if dim == B else dim for dim in before.shape], before.dtype)
    result = build("here", stage, lambda _: STATISTICS)({"x": given})["y"]
    after = stage.outputs["y"]
    assert result.shape == tuple(2 if dim == B else dim for dim in after.shape)
    assert result.dtype == after.dtype


def test_each_feature_has_a_stage_of_its_own() -> None:
    pipeline = applied({"type": "pad", "features": ["x", "y"], "size": 8, "value": 0.0}, x=port(B, 3), y=port(B, 4))
    assert list(pipeline.stages) == ["pad.x", "pad.y"]
    assert params_of(pipeline, "pad.x") == params_of(pipeline, "pad.y") == {"value": 0.0}
    assert [one.shape for one in finished(pipeline, "x", "y").outputs.values()] == [(B, 8), (B, 8)]


def test_statistics_are_those_of_each_feature() -> None:
    spec = {"type": "normalize", "features": ["x", "y"], "artifact": "stats"}
    pipeline = applied(spec, x=port(B, 3), y=port(B, 3))
    assert params_of(pipeline, "normalize.x")["statistics"] == "x"
    assert params_of(pipeline, "normalize.y")["statistics"] == "y"


def test_specs_follow_each_other() -> None:
    pipeline = applied({"type": "pad", "features": ["x"], "size": 8, "value": 0.0}, x=port(B, 3))
    apply(pipeline, {"type": "slice", "features": ["x"], "start": [0], "shape": [2]})
    wires = [(wire.source, wire.target) for wire in finished(pipeline, "x").wires]
    assert wires == [("inputs/x", "pad.x/x"), ("pad.x/y", "slice.x/x"), ("slice.x/y", "outputs/x")]


def test_a_spec_is_not_changed_by_being_applied() -> None:
    spec = {"type": "pad", "features": ["x", "y"], "size": 8, "value": 0.0}
    before = dict(spec)
    applied(spec, x=port(B, 3), y=port(B, 4))
    assert spec == before


def test_a_processor_of_another_package_keeps_the_shape_and_gets_its_parameters() -> None:
    pipeline = applied({"type": "theirs", "features": ["x"], "gain": 2, "artifact": "file"}, x=port(B, 3))
    assert pipeline.port("x") == port(B, 3)
    assert params_of(pipeline, "theirs.x") == {"gain": 2}
    assert pipeline.assets == {"file"}


def test_a_spec_that_is_switched_off_does_nothing() -> None:
    pipeline = applied({"type": "pad", "enabled": False}, x=port(B, 3))
    assert pipeline.stages == {}
    assert list(applied({"type": "pad", "features": ["x"], "size": 4, "enabled": True}, x=port(B, 3)).stages) == [
        "pad.x"
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"features": ["x"]}, "a processor needs a type; got {'features': \\['x'\\]}"),
        ({"type": 3}, "a processor needs a type"),
        ({"type": "normalize"}, "processor 'normalize': expected the features that it works on, got None"),
        ({"type": "normalize", "features": []}, "expected the features that it works on, got \\[\\]"),
        ({"type": "normalize", "features": "x"}, "expected the features that it works on, got 'x'"),
        ({"type": "history", "features": None, "steps": 2}, "processor 'history': expected the features"),
        ({"type": "normalize", "features": ["y"]}, "there is no feature 'y'; there are \\['x'\\]"),
        ({"type": "rename", "features": {"y": "z"}}, "there is no feature 'y'"),
        ({"type": "tokenize", "artifact": "t", "max_length": 3}, "there is no feature 'task'"),
        (
            {"type": "temporal_ensemble", "features": ["x"], "coefficient": 0.1},
            "expected a horizon of a fixed length, got 'batch'",
        ),
    ],
)
def test_a_spec_that_touches_nothing_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ExportError, match=message):
        applied(spec, x=port(2, "batch", 3))


# --- several inputs, or states ---------------------------------------------------------------------------------------


def test_renaming_makes_no_stage() -> None:
    pipeline = applied({"type": "rename", "features": {"x": "a", "y": "b"}}, x=port(B, 3), y=port(B, 4))
    assert pipeline.stages == {}
    assert {name: pipeline.port(name).shape for name in pipeline.features} == {"a": (B, 3), "b": (B, 4)}


def test_an_output_on_the_way_is_the_value_that_the_feature_has_there() -> None:
    pipeline = applied({"type": "pad", "features": ["x"], "size": 8, "value": 0.0}, x=port(B, 3))
    apply(pipeline, {"type": "output", "features": ["x"], "name": "padded"})
    apply(pipeline, {"type": "slice", "features": ["x"], "start": [0], "shape": [2]})
    manifest = finished(pipeline, "x")
    assert {name: one.shape for name, one in manifest.outputs.items()} == {"padded": (B, 8), "x": (B, 2)}
    assert ("pad.x/y", "outputs/padded") in [(wire.source, wire.target) for wire in manifest.wires]


STATEFUL = {
    "history": ({"steps": 4}, port(B, 2, 3), (B, 4, 2, 3), {"window": "history", "filled": "counter"}),
    "temporal_ensemble": (
        {"coefficient": 1},
        port(B, 5, 2),
        (B, 2),
        {"average": "filter", "decided": "counter"},
    ),
    "action_queue": ({"n_action_steps": 3}, port(B, 5, 2), (B, 2), {"queue": "memory", "left": "counter"}),
}
SHAPES = {"window": (B, 4, 2, 3), "average": (B, 4, 2), "queue": (B, 3, 2)}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_processor_with_states_keeps_them(name: str) -> None:
    fields, before, shape, roles = STATEFUL[name]
    pipeline = applied({"type": name, "features": ["x"], **fields}, x=before)
    assert pipeline.port("x").shape == shape
    manifest = finished(pipeline, "x")
    states = {state.removeprefix(f"{name}.x."): one for state, one in manifest.states.items()}
    assert {state: one.role for state, one in states.items()} == roles
    for state, one in states.items():
        assert one.shape == SHAPES.get(state, (1,))
        assert one.dtype == ("int64" if one.role == "counter" else "float32")
        assert not pipeline.initial[f"{name}.x.{state}"].any()
    ((_, stage),) = pipeline.stages.items()
    check_steps(stage)


def check_steps(stage: Stage) -> None:
    """The processor runs on what the stage says, and gives what that says."""
    given = {
        name: np.zeros([1 if dim == B else dim for dim in one.shape], one.dtype) for name, one in stage.inputs.items()
    }
    results = build("here", stage, lambda _: b"")(given)
    shapes = {name: tuple(1 if dim == B else dim for dim in one.shape) for name, one in stage.outputs.items()}
    assert {name: value.shape for name, value in results.items()} == shapes
    assert {name: value.dtype for name, value in results.items()} == {
        name: np.dtype(one.dtype) for name, one in stage.outputs.items()
    }


def test_a_history_of_whole_numbers_keeps_whole_numbers() -> None:
    pipeline = applied({"type": "history", "features": ["x"], "steps": 2}, x=port(B, 3, dtype="int64"))
    assert pipeline.port("x") == port(B, 2, 3, dtype="int64")
    assert pipeline.states["history.x.window"].dtype == "int64"


@pytest.mark.parametrize(("kind", "output"), [("relative_actions", "relative"), ("absolute_actions", "absolute")])
def test_actions_are_relative_to_a_state(kind: str, output: str) -> None:
    pipeline = applied(
        {"type": kind, "features": ["x"], "state": "s", "mask": [1, 0, 1]}, x=port(B, 4, 3), s=port(B, 3)
    )
    ((name, stage),) = pipeline.stages.items()
    assert params_of(pipeline, name) == {"mask": [True, False, True]}
    assert list(stage.outputs) == [output]
    wires = {(wire.source, wire.target) for wire in finished(pipeline, "x").wires}
    assert {("inputs/x", f"{name}/actions"), ("inputs/s", f"{name}/state")} <= wires
    check_steps(stage)


def test_actions_are_relative_to_the_state_as_it_was_measured() -> None:
    inputs = {"action": port(B, 3), "observation.state": port(B, 3)}
    pipeline = pipeline_of(**inputs)
    pipeline.keep("observation.state", "raw:observation.state")
    apply(pipeline, {"type": "pad", "features": ["observation.state"], "size": 3, "value": 0.0})
    apply(pipeline, {"type": "absolute_actions", "mask": [True, True, True]})
    wires = {(wire.source, wire.target) for wire in finished(pipeline, "action", "observation.state").wires}
    assert ("inputs/observation.state", "absolute_actions.action/state") in wires


def test_a_prompt_is_made_of_a_task_and_a_state() -> None:
    spec = {"type": "prompt", "state": "s", "width": 100, "bins": 256}
    pipeline = applied(spec, task=text(64), s=port(B, 3))
    assert pipeline.port("task").shape == (B, 100)
    assert set(pipeline.stages["prompt.task"].inputs) == {"task", "state"}
    assert params_of(pipeline, "prompt.task") == {"bins": 256}
    alone = applied({"type": "prompt", "text": "goal"}, goal=text(64))
    assert set(alone.stages["prompt.goal"].inputs) == {"task"}
    assert alone.port("goal").shape == (B, 2048)


def test_a_text_becomes_tokens_and_a_mask() -> None:
    pipeline = applied({"type": "tokenize", "artifact": "words.json", "max_length": 12, "side": "left"}, task=text(64))
    (name,) = pipeline.stages
    assert params_of(pipeline, name) == {"max_length": 12, "side": "left"}
    assert pipeline.assets == {"words.json"}
    assert pipeline.port("observation.language.tokens") == port(B, 12, dtype="int64")
    assert pipeline.port("observation.language.attention_mask") == port(B, 12, dtype="bool")
    named = applied(
        {"type": "tokenize", "artifact": "w", "max_length": 3, "text": "t", "tokens": "ids", "mask": "on"}, t=text(8)
    )
    assert list(named.features) == ["t", "ids", "on"]


# --- what a spec needs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({"type": "pad", "features": ["x", "y"]}, ["x", "y"]),
        ({"type": "rename", "features": {"x": "y"}}, ["x"]),
        ({"type": "relative_actions", "features": ["x"], "state": "s"}, ["x", "s"]),
        ({"type": "prompt"}, ["task"]),
        ({"type": "prompt", "text": "goal", "state": "s"}, ["goal", "s"]),
        ({"type": "tokenize", "artifact": "a"}, ["task"]),
        ({"type": "tokenize", "text": "goal"}, ["goal"]),
        ({"type": "theirs"}, []),
    ],
)
def test_a_spec_needs_the_features_that_it_names(spec: dict[str, Any], features: list[str]) -> None:
    assert touched(spec) == features
