from __future__ import annotations

from itertools import pairwise

import msgspec

import support
from ashore.spec import Artifact, Endpoint, Manifest, Port, Stage, Wire, Wiring


def chain(names: str) -> Manifest:
    port = Port(dtype="float32", shape=(1,))
    stage = Stage(rate="policy", inputs={"i": port}, outputs={"o": port}, artifacts={"onnx": Artifact(path="a.onnx")})
    wires = [Wire(f"{a}/o", f"{b}/i") for a, b in pairwise(names)]
    ends = Wire("inputs/x", f"{names[0]}/i"), Wire(f"{names[-1]}/o", "outputs/y")
    return Manifest(
        name="chain",
        inputs={"x": port},
        outputs={"y": port},
        stages=dict.fromkeys(sorted(names), stage),
        wires=(*wires, *ends),
    )


def test_stages_are_ordered_by_what_feeds_them() -> None:
    assert Wiring(chain("dbca")).order() == ("d", "b", "c", "a")


def test_the_order_of_keys_and_wires_in_the_file_decides_nothing() -> None:
    manifest = chain("dbca")
    turned = msgspec.structs.replace(
        manifest, stages=dict(reversed(manifest.stages.items())), wires=tuple(reversed(manifest.wires))
    )
    assert Wiring(turned).order() == Wiring(manifest).order()


def test_inputs_and_outputs_belong_to_the_rates_they_are_wired_to() -> None:
    graph = Wiring(support.arm_manifest())
    assert graph.inputs_of("policy") == ("q",)
    assert graph.inputs_of("substep") == ("v",)
    assert graph.outputs_of("policy") == ("action",)
    assert graph.outputs_of("substep") == ("torque",)


def test_an_endpoint_is_split_at_its_first_slash() -> None:
    manifest = chain("ab")
    wires = tuple(Wire("inputs/left/x", w.target) if w.source == "inputs/x" else w for w in manifest.wires)
    graph = Wiring(msgspec.structs.replace(manifest, inputs={"left/x": manifest.inputs["x"]}, wires=wires))
    assert graph.into(Endpoint("a", "i")) == [Endpoint("inputs", "left/x")]
    assert str(Endpoint("inputs", "left/x")) == "inputs/left/x"
