from __future__ import annotations

import support
from ashore.spec import Artifact, Feedback, Port, State, Wire, check, single_stage


def test_an_output_that_is_fed_back_stays_an_output() -> None:
    port = Port(dtype="float32", shape=(1, 2), kind="action")
    manifest = single_stage(
        "loop",
        inputs={"x": Port(dtype="float32", shape=(1, 2))},
        outputs={"action": port},
        states={"last": Feedback(State(dtype="float32", shape=(1, 2), role="last_action"), "action", "last_in")},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    check(manifest)
    assert Wire("policy/action", "outputs/action") in manifest.wires
    assert Wire("policy/action", "states/last") in manifest.wires


def test_meaning_stays_with_the_package_port() -> None:
    manifest = support.sum_manifest()
    assert manifest.inputs["x"].element_names == (None, ("a", "b", "c"))
    assert manifest.stages["policy"].inputs["x"].element_names is None
