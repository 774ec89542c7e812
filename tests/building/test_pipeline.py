"""Features that flow through stages, each of which gives some of them a new value; the wires follow by themselves.

pipeline.add_input("q", ...)                        q is inputs/q
pipeline.process("pad", {"x": "q"}, {"y": ("q", ...)})   inputs/q -> pad.q/x, and q is pad.q/y
pipeline.add_output("target", "q")                  pad.q/y -> outputs/target
"""

from __future__ import annotations

import numpy as np
import pytest

from ashore.building import Kept, Pipeline, zeros
from ashore.errors import ExportError
from ashore.spec import Artifact, Manifest, Port, Runner, Stage, State, check

SINGLE = Runner(type="single_pass")


def port(*shape: int | str, dtype: str = "float32", **meaning: object) -> Port:
    return Port(dtype=dtype, shape=shape, **meaning)  # type: ignore[arg-type]


Q = port("batch", 3, unit="rad", description="where the joints are")


def net(inputs: dict[str, Port], outputs: dict[str, Port]) -> Stage:
    return Stage(rate="policy", inputs=inputs, outputs=outputs, artifacts={"onnx": Artifact(path="net.onnx", opset=18)})


NET = net({"x": port("batch", 3)}, {"y": port("batch", 2)})


@pytest.fixture
def pipeline() -> Pipeline:
    """A pipeline with one input."""
    made = Pipeline()
    made.add_input("q", Q)
    return made


def wires(manifest: Manifest) -> list[tuple[str, str]]:
    return [(wire.source, wire.target) for wire in manifest.wires]


def padded(pipeline: Pipeline, feature: str, size: int = 3) -> str:
    return pipeline.process("pad", {"x": feature}, {"y": (feature, port("batch", size))}, params={"value": 0.0})


# --- features --------------------------------------------------------------------------------------------------------


def test_a_feature_flows_from_stage_to_stage(pipeline: Pipeline) -> None:
    assert padded(pipeline, "q") == "pad.q"
    assert pipeline.add_stage("net", NET, {"x": "q"}, {"y": "action"}, {}) == "net"
    pipeline.add_output("target", "action")
    manifest = pipeline.manifest("policy", SINGLE)
    check(manifest)
    assert wires(manifest) == [("inputs/q", "pad.q/x"), ("pad.q/y", "net/x"), ("net/y", "outputs/target")]
    assert manifest.inputs == {"q": Q}
    assert manifest.outputs == {"target": port("batch", 2)}


def test_a_feature_is_what_its_newest_value_is(pipeline: Pipeline) -> None:
    assert pipeline.port("q") == Q
    padded(pipeline, "q", 5)
    assert pipeline.port("q") == port("batch", 5)
    assert list(pipeline.features) == ["q"]


def test_a_value_may_be_taken_any_number_of_times(pipeline: Pipeline) -> None:
    pipeline.add_stage("left", NET, {"x": "q"}, {"y": "a"}, {})
    pipeline.add_stage("right", NET, {"x": "q"}, {"y": "b"}, {})
    pipeline.add_output("a", "a")
    pipeline.add_output("b", "b")
    pipeline.add_output("again", "b")
    manifest = pipeline.manifest("policy", SINGLE)
    check(manifest)
    assert wires(manifest)[:2] == [("inputs/q", "left/x"), ("inputs/q", "right/x")]
    assert wires(manifest)[-2:] == [("right/y", "outputs/b"), ("right/y", "outputs/again")]


def test_a_feature_that_is_renamed_keeps_its_value(pipeline: Pipeline) -> None:
    pipeline.rename("q", "state")
    assert list(pipeline.features) == ["state"]
    assert pipeline.port("state") == Q
    with pytest.raises(ExportError, match="there is no feature 'q'; there are \\['state'\\]"):
        pipeline.port("q")


def test_a_feature_may_be_renamed_to_what_it_is_called(pipeline: Pipeline) -> None:
    pipeline.rename("q", "q")
    assert pipeline.port("q") == Q


def test_a_value_that_is_kept_stays_what_it_is(pipeline: Pipeline) -> None:
    pipeline.keep("q", "raw:q")
    padded(pipeline, "q", 5)
    assert pipeline.port("raw:q") == Q
    assert pipeline.port("q") == port("batch", 5)
    pipeline.add_stage("net", NET, {"x": "raw:q"}, {"y": "action"}, {})
    pipeline.add_output("action", "action")
    pipeline.add_output("wide", "q")
    assert ("inputs/q", "net/x") in wires(pipeline.manifest("policy", SINGLE))


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("velocity", "there is no feature 'velocity'; there are \\['position'\\]"),
        ("positon", "there is no feature 'positon'; did you mean 'position'\\?"),
    ],
)
def test_a_feature_that_nobody_gives_is_refused_by_its_name(feature: str, message: str) -> None:
    pipeline = Pipeline()
    pipeline.add_input("position", Q)
    for take in (pipeline.port, lambda name: pipeline.rename(name, "q"), lambda name: pipeline.keep(name, "q")):
        with pytest.raises(ExportError, match=message):
            take(feature)
    with pytest.raises(ExportError, match=message):
        pipeline.add_output("y", feature)
    with pytest.raises(ExportError, match=message):
        padded(pipeline, feature)


def test_what_nothing_takes_is_refused(pipeline: Pipeline) -> None:
    pipeline.add_stage("net", net({"x": port("batch", 3)}, {"y": Q, "z": Q}), {"x": "q"}, {"y": "a", "z": "b"}, {})
    pipeline.add_output("a", "a")
    with pytest.raises(ExportError, match="nothing takes net/z; leave it out, or say what takes it"):
        pipeline.manifest("policy", SINGLE)
    pipeline.add_output("b", "b")
    check(pipeline.manifest("policy", SINGLE))


def test_an_input_that_nothing_takes_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ExportError, match="nothing takes inputs/q"):
        pipeline.manifest("policy", SINGLE)


# --- stages ----------------------------------------------------------------------------------------------------------


def test_stages_of_the_same_name_are_numbered(pipeline: Pipeline) -> None:
    assert [padded(pipeline, "q") for _ in range(3)] == ["pad.q", "pad.q_2", "pad.q_3"]
    assert list(pipeline.stages) == ["pad.q", "pad.q_2", "pad.q_3"]


@pytest.mark.parametrize("feature", ["observation/state", "raw:state", "my state"])
def test_names_of_stages_hold_nothing_that_paths_must_not(feature: str) -> None:
    pipeline = Pipeline()
    pipeline.add_input(feature, Q)
    assert padded(pipeline, feature) in {"pad.observation_state", "pad.raw_state", "pad.my_state"}


def test_a_processor_is_a_stage_with_bare_ports(pipeline: Pipeline) -> None:
    made = port("batch", 5, unit="rad", finite=False)
    name = pipeline.process(
        "normalize", {"x": "q"}, {"y": ("q", made)}, params={"mode": "min_max"}, assets=["stats.safetensors"]
    )
    stage = pipeline.stages[name]
    assert stage.rate == "policy"
    assert stage.inputs == {"x": port("batch", 3)}
    assert stage.outputs == {"y": port("batch", 5, finite=False)}
    assert stage.processor is not None
    assert (stage.processor.type, stage.processor.params) == ("normalize", {"mode": "min_max"})
    assert pipeline.assets == {"stats.safetensors"}


def test_a_processor_is_called_after_the_first_feature_that_it_changes(pipeline: Pipeline) -> None:
    outputs = {"tokens": ("ids", port("batch", 5)), "mask": ("mask", port("batch", 5))}
    assert pipeline.process("tokenize", {"text": "q"}, outputs) == "tokenize.ids"


def test_files_are_those_of_all_processors(pipeline: Pipeline) -> None:
    assert pipeline.assets == set()
    for asset in ("one", "two", "one"):
        pipeline.process("pad", {"x": "q"}, {"y": ("q", port("batch", 3))}, assets=[asset])
    pipeline.add_stage("net", NET, {"x": "q"}, {"y": "q"}, {})
    assert pipeline.assets == {"one", "two"}


# --- states ----------------------------------------------------------------------------------------------------------

WINDOW = State(dtype="float32", shape=("batch", 4, 3), role="history")


def with_history(pipeline: Pipeline) -> str:
    kept = Kept("window_next", WINDOW, zeros(WINDOW))
    made = {"window_next": ("q", port("batch", 4, 3))}
    return pipeline.process("history", {"frame": "q"}, made, kept={"window": kept})


def test_a_state_is_read_and_written_by_its_processor(pipeline: Pipeline) -> None:
    with_history(pipeline)
    pipeline.add_output("q", "q")
    manifest = pipeline.manifest("policy", SINGLE)
    check(manifest)
    assert manifest.states == {"history.q.window": WINDOW}
    assert ("states/history.q.window", "history.q/window") in wires(manifest)
    assert ("history.q/window_next", "states/history.q.window") in wires(manifest)
    stage = manifest.stages["history.q"]
    assert stage.inputs == {"frame": port("batch", 3), "window": port("batch", 4, 3)}
    assert stage.outputs == {"window_next": port("batch", 4, 3)}
    assert pipeline.initial["history.q.window"].shape == (1, 4, 3)


def test_states_of_stages_of_the_same_name_are_told_apart(pipeline: Pipeline) -> None:
    pipeline.add_input("p", Q)
    pipeline.rename("p", "other")
    with_history(pipeline)
    pipeline.rename("q", "done")
    pipeline.rename("other", "q")
    with_history(pipeline)
    assert list(pipeline.states) == ["history.q.window", "history.q_2.window"]
    assert list(pipeline.initial) == list(pipeline.states)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8"])
def test_a_state_that_begins_with_zeros_has_one_row_for_any_number(dtype: str) -> None:
    state = State(dtype=dtype, shape=("batch", 2, 3), role="memory")  # type: ignore[arg-type]
    made = zeros(state)
    assert made.dtype == np.dtype(dtype)
    assert made.shape == (1, 2, 3)
    assert not made.any()


# --- the manifest ----------------------------------------------------------------------------------------------------


def test_what_else_is_known_goes_into_the_manifest(pipeline: Pipeline) -> None:
    pipeline.add_stage("net", NET, {"x": "q"}, {"y": "action"}, {})
    pipeline.add_output("action", "action")
    manifest = pipeline.manifest("walk", SINGLE, description="a policy", metadata={"run": 7})
    assert (manifest.name, manifest.runner, manifest.description) == ("walk", SINGLE, "a policy")
    assert manifest.metadata == {"run": 7}
