from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import yaml

import ashore
import support
from ashore.errors import AshoreError, ExportError
from ashore.interop.leapp import from_leapp, to_leapp
from ashore.package import Package, write
from ashore.package.tensors import save_arrays
from ashore.spec import Artifact, Manifest, Port, Processor, Stage, State, Timing, Wire
from interop.leapp_cases import graph_manifest, write_graph
from interop.leapp_process import Leapp

STEPS, RESETS = 20, (7, 8)
BACKENDS = ("onnx-dynamo", "onnx-torchscript", "jit-script", "jit-trace", "pt2")
OLD_TORCH = (  # what torch says of its own files
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
)


@pytest.fixture(scope="module")
def leapp() -> Iterator[Leapp]:
    process = Leapp()
    yield process
    process.close()


def draw(manifest: Manifest, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal((STEPS, *port.shape)).astype(port.dtype) for name, port in manifest.inputs.items()
    }


def run_ashore(package: Package, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    stages = package.manifest.stages.items()
    policy = ashore.load(package, backend={name: next(iter(stage.artifacts)) for name, stage in stages})
    steps: list[dict[str, np.ndarray]] = []
    for step in range(STEPS):
        if step in RESETS:
            policy.reset()
        steps.append(policy.step({name: array[step] for name, array in inputs.items()}))
    return {name: np.stack([step[name] for step in steps]) for name in steps[0]}


def assert_same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert len(np.unique(array)) > STEPS, "outputs that never change prove nothing"
        np.testing.assert_allclose(got[name], array, rtol=1e-6, atol=1e-6, err_msg=name)


def check_in_leapp(package: Package, leapp: Leapp, scratch: Path) -> Package:
    """Convert a package, run it in LEAPP, read it back: all three compute the same. Gives what was read back."""
    written = to_leapp(package, scratch / "leapp", backend=None)
    inputs = draw(package.manifest)
    expected = run_ashore(package, inputs)
    given = {end: inputs[name] for name, ends in written.inputs.items() for end in ends}
    results = leapp.run(written.yaml, given, RESETS, scratch)
    assert_same({name: results[end] for name, end in written.outputs.items()}, expected)
    back = from_leapp(written.path, scratch / "back")
    for field in ("name", "inputs", "outputs", "states", "timing", "joints", "provenance", "metadata"):
        assert getattr(back.manifest, field) == getattr(package.manifest, field), field
    for name, array in run_ashore(back, inputs).items():
        assert array.tobytes() == expected[name].tobytes()
    return back


# --- from Ashore -----------------------------------------------------------------------------------------------------


class HistoryAndLastAction:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(14, 8), torch.nn.ELU(), torch.nn.Linear(8, 2)).eval()
        self.reset()

    def reset(self) -> None:
        self.history, self.last = torch.full((1, 3, 4), 0.5), torch.full((1, 2), 0.1)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = x
        self.last = self.net(torch.cat([self.history.reshape(1, 12), self.last], -1))
        return self.last


class Recurrent:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.lstm, self.head = torch.nn.LSTM(4, 5).eval(), torch.nn.Linear(5, 2).eval()
        self.reset()

    def reset(self) -> None:
        self.h, self.c = torch.zeros(1, 1, 5), torch.zeros(1, 1, 5)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        y, (self.h, self.c) = self.lstm(x[None], (self.h, self.c))
        return self.head(y[0])


def record(code: Any, out: Path, **options: Any) -> Package:
    generator = torch.Generator().manual_seed(1)
    joints = (None, ("hip", "knee"))
    with torch.no_grad(), ashore.record("walk", out, timing=Timing(policy_dt_s=0.02), **options) as rec:
        for step in range(7):
            if step == 4:
                rec.reset()
                code.reset()
            with rec.step():
                x = rec.input("x", torch.randn(1, 4, generator=generator))
                rec.output("action", code.step(x), kind="target/joint/position", unit="rad", element_names=joints)
    assert rec.package is not None
    return rec.package


@pytest.mark.parametrize("backend", [pytest.param(name, marks=OLD_TORCH) for name in ("onnx", "jit-trace", "pt2")])
@pytest.mark.parametrize("code", [HistoryAndLastAction, Recurrent])
def test_a_recording_computes_the_same_in_leapp_and_after_the_way_back(
    code: Callable[[], Any], backend: str, leapp: Leapp, tmp_path: Path
) -> None:
    package = record(code(), tmp_path, backend=backend)
    assert len(package.manifest.states) == 2
    check_in_leapp(package, leapp, tmp_path)
    document = yaml.safe_load((tmp_path / "leapp" / "walk.yaml").read_text())
    assert document["pipeline"]["configs"]["frequency"] == 50.0
    action = document["models"]["policy"]["outputs"][0]
    assert (action["name"], action["kind"], action["unit"]) == ("action", "target/joint/position", "rad")
    assert action["element_names"] == [["hip", "knee"]]  # Isaac Lab looks for joints in the first entry


def test_stages_that_share_inputs_and_states_compute_the_same_in_leapp(leapp: Leapp, tmp_path: Path) -> None:
    back = check_in_leapp(write_graph(tmp_path / "package"), leapp, tmp_path)
    ours = graph_manifest()
    assert set(back.manifest.wires) == set(ours.wires)
    assert back.manifest.stages["a"].inputs == ours.stages["a"].inputs
    assert (back.manifest.version, back.manifest.licence) == ("3", "MIT")
    document = yaml.safe_load((tmp_path / "leapp" / "graph.yaml").read_text())
    assert list(document["models"]) == ["z", "a"]
    assert document["pipeline"]["inputs"] == {"a": ["x"], "z": ["a", "b"]}
    gyroscope = document["models"]["a"]["inputs"][1]
    assert gyroscope["isaaclab_connection"] == "state:robot:root_ang_vel_b"
    assert (gyroscope["unit"], gyroscope["frame"], gyroscope["noise"]) == ("rad/s", "base", 0.1)


def test_one_state_read_by_two_stages_stays_one(leapp: Leapp, tmp_path: Path) -> None:
    ours = graph_manifest()
    wires = tuple(
        Wire("states/h", wire.target) if wire.source == "states/copy" else wire
        for wire in ours.wires
        if wire.target != "states/copy"
    )
    package = write_graph(tmp_path / "package", wires=wires, states={"h": ours.states["h"]})
    back = check_in_leapp(package, leapp, tmp_path)
    assert list(back.manifest.states) == ["h"]


def test_a_state_between_stages_is_read_before_it_is_written(leapp: Leapp, tmp_path: Path) -> None:
    """By name the writer would run first, and LEAPP would hand its value on at once."""
    port = Port(dtype="float32", shape=(1, 3))
    one = {"onnx": Artifact(path="a.onnx")}, {"onnx": Artifact(path="b.onnx")}
    manifest = Manifest(
        name="late",
        inputs={"x": port},
        outputs={"y": port},
        stages={
            "a": Stage(rate="policy", inputs={"x": port}, outputs={"w": port}, artifacts=one[0]),
            "b": Stage(rate="policy", inputs={"old": port}, outputs={"y": port}, artifacts=one[1]),
        },
        wires=(
            Wire("inputs/x", "a/x"),
            Wire("a/w", "states/s"),
            Wire("states/s", "b/old"),
            Wire("b/y", "outputs/y"),
        ),
        states={"s": State(dtype="float32", shape=(1, 3), role="memory")},
    )
    files = {
        "a.onnx": support.model("a (float[1,3] x) => (float[1,3] w) { w = Add(x, x) }"),
        "b.onnx": support.model("b (float[1,3] old) => (float[1,3] y) { y = Neg(old) }"),
    }
    package = write(tmp_path / "package", manifest, files=files, initial={"s": support.f32(7, 8, 9)})
    check_in_leapp(package, leapp, tmp_path)
    document = yaml.safe_load((tmp_path / "leapp" / "late.yaml").read_text())
    assert list(document["models"]) == ["b", "a"]


def test_every_dtype_that_leapp_has_arrives(leapp: Leapp, tmp_path: Path) -> None:
    text = """
    policy (float[1,3] x, int64[1] n_in, bool[2] flag_in, double[2,2] d_in)
        => (float[1,3] y, int64[1] n_out, bool[2] flag_out, double[2,2] d_out) {
        one = Constant<value_ints = [1]>()
        n_out = Add(n_in, one)
        flag_out = Not(flag_in)
        d_out = Add(d_in, d_in)
        d = Cast<to = 1>(d_out)
        n = Cast<to = 1>(n_out)
        f = Cast<to = 1>(flag_out)
        sum = ReduceSum<keepdims = 0>(d)
        flags = ReduceSum<keepdims = 0>(f)
        a = Add(x, n)
        b = Add(a, flags)
        y = Add(b, sum)
    }
    """
    port = Port(dtype="float32", shape=(1, 3))
    states = {
        "n": State(dtype="int64", shape=(1,), role="counter"),
        "flag": State(dtype="bool", shape=(2,), role="memory"),
        "d": State(dtype="float64", shape=(2, 2), role="memory"),
    }
    manifest = support.single_stage(
        "kinds",
        inputs={"x": port},
        outputs={"y": port},
        states={name: support.Feedback(state, f"{name}_out", f"{name}_in") for name, state in states.items()},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    initial = {"n": np.array([3]), "flag": np.array([True, False]), "d": np.array([[1e-3, 0], [2e-3, 1]])}
    package = write(tmp_path / "package", manifest, files={"a.onnx": support.model(text)}, initial=initial)
    check_in_leapp(package, leapp, tmp_path)


CARRIED = {"name", "version", "description", "licence", "provenance", "timing", "joints", "findings", "constants"}
CARRIED |= {"inputs", "outputs", "stages", "wires", "states", "metadata"}
REFUSED = {"runner"}
LEFT_OUT = {"format", "schema_version", "manifest_sha256", "files", "verification"}


def test_every_part_of_a_manifest_is_carried_refused_or_left_out_on_purpose() -> None:
    assert set(Manifest.__struct_fields__) == CARRIED | REFUSED | LEFT_OUT


# --- from LEAPP ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [pytest.param(name, marks=OLD_TORCH) for name in BACKENDS])
@pytest.mark.parametrize("case", ["one_node", "two_nodes", "states", "last_action"])
def test_what_leapp_exports_computes_the_same_as_a_package(
    case: str, backend: str, leapp: Leapp, tmp_path: Path
) -> None:
    directory = leapp.make(case, backend, tmp_path)
    package = from_leapp(directory, tmp_path / "package.ashore")
    inputs = draw(package.manifest)
    pipeline = yaml.safe_load((directory / f"{case}.yaml").read_text())["pipeline"]
    ends = {
        group: [f"{node}/{port}" for node, ports in pipeline[group].items() for port in ports]
        for group in ("inputs", "outputs")
    }
    by_name = {group: {end.partition("/")[2]: end for end in found} for group, found in ends.items()}
    given = {by_name["inputs"].get(name, name): array for name, array in inputs.items()}
    results = leapp.run(directory / f"{case}.yaml", given, RESETS, tmp_path)
    got = run_ashore(package, inputs)
    assert_same({by_name["outputs"][name]: array for name, array in got.items()}, results)
    # and once around again
    again = check_in_leapp(package, leapp, tmp_path)
    assert again.manifest.findings == package.manifest.findings


def test_what_leapp_says_of_its_ports_is_kept(leapp: Leapp, tmp_path: Path) -> None:
    package = from_leapp(leapp.make("one_node", "onnx-torchscript", tmp_path) / "one_node.yaml", tmp_path / "p")
    manifest = package.manifest
    q, v, plan = (manifest.inputs[name] for name in ("q", "v", "plan"))
    assert (q.kind, q.unit, q.connection) == ("state/joint/position", "rad", "state:robot:joint_pos")
    assert q.element_names == v.element_names == (None, ("a", "b"))
    assert (v.kind, v.metadata) == ("custom/speeds", {"sides": ["left", "right"]})
    assert plan.element_names == (None, None, ("x", "y"))
    assert plan.metadata == {"temporal_axis": 1, "temporal_period_ms": 20.0}
    assert manifest.outputs["y"].kind is None
    assert manifest.outputs["y"].metadata == {"kind": "target/joint/position"}
    assert [finding.tensor for finding in manifest.findings] == ["y"]
    assert manifest.timing == Timing(policy_dt_s=0.02)
    assert manifest.metadata["leapp"]["configs"] == {"robot": "go1"}
    assert manifest.provenance.tools["leapp"]
    assert manifest.verification is None
    assert package.golden() is None
    written = to_leapp(package, tmp_path / "again")
    before, after = (
        yaml.safe_load((tmp_path / name / "one_node.yaml").read_text())["models"]["policy"]
        for name in ("one_node", "again")
    )
    for old, new in zip((*before["inputs"], *before["outputs"]), (*after["inputs"], *after["outputs"]), strict=True):
        if old["name"] in ("v", "plan"):  # without the batch of one
            assert new["element_names"] == old["element_names"][1:]
            old["element_names"] = new["element_names"]
        old["kind"] = new.get("kind")  # now custom/speeds
        assert {key: value for key, value in new.items() if key != "ashore"} == {
            k: v for k, v in old.items() if v is not None
        }
    assert written.outputs == {"y": "policy/y"}


def test_states_are_named_after_what_reads_them(leapp: Leapp, tmp_path: Path) -> None:
    package = from_leapp(leapp.make("states", "onnx-torchscript", tmp_path), tmp_path / "p")
    assert list(package.manifest.states) == ["h", "history"]
    np.testing.assert_array_equal(package.initial_state()["h"], support.f32(0.5, 0.5))
    package = from_leapp(leapp.make("last_action", "onnx-torchscript", tmp_path), tmp_path / "q")
    assert package.manifest.states["last"].role == "last_action"


def test_inputs_of_two_nodes_with_one_name_are_told_apart(leapp: Leapp, tmp_path: Path) -> None:
    package = from_leapp(leapp.make("two_nodes", "onnx-torchscript", tmp_path), tmp_path / "p")
    assert list(package.manifest.inputs) == ["encoder/x", "head/x"]


# --- what LEAPP cannot say -------------------------------------------------------------------------------------------


def refuse(package: Package, out: Path, *messages: str, **options: Any) -> None:
    with pytest.raises(AshoreError) as caught:
        to_leapp(package, out, **options)
    for message in messages:
        assert message in str(caught.value)
    assert not out.exists()
    assert not [path for path in out.parent.iterdir() if path.name.startswith(".")], "something was left behind"


def test_substeps_and_states_that_are_kept_are_refused(arm_package: Package, tmp_path: Path) -> None:
    refuse(
        arm_package,
        tmp_path / "out",
        "LEAPP cannot express this package",
        "stage 'act' runs at the rate 'substep'; LEAPP has one rate",
        "state 'ticks' is kept on a reset",
    )


def test_a_symbolic_batch_is_refused(tmp_path: Path) -> None:
    refuse(support.write_batched(tmp_path / "p"), tmp_path / "out", "port 'x' of stage 'policy' has a symbolic batch")


def test_processors_are_refused(tmp_path: Path) -> None:
    port = Port(dtype="float32", shape=(1, 3))
    processor = Processor(type="normalize", params={"mode": "mean_std", "statistics": "x"}, assets=("s.safetensors",))
    manifest = Manifest(
        name="scaled",
        inputs={"a": port},
        outputs={"b": port},
        stages={"scale": Stage(rate="policy", inputs={"a": port}, outputs={"b": port}, processor=processor)},
        wires=(Wire("inputs/a", "scale/a"), Wire("scale/b", "outputs/b")),
    )
    statistics = save_arrays({"x/mean": np.zeros(3, np.float32), "x/std": np.ones(3, np.float32)})
    package = write(tmp_path / "p", manifest, files={"s.safetensors": statistics})
    refuse(package, tmp_path / "out", "stage 'scale' is the processor 'normalize'")


def test_two_outputs_that_are_one_are_refused(tmp_path: Path) -> None:
    ours = graph_manifest()
    package = write_graph(
        tmp_path / "p",
        outputs={**ours.outputs, "twin": ours.outputs["g"]},
        wires=(*ours.wires, Wire("z/g", "outputs/twin")),
    )
    refuse(package, tmp_path / "out", "outputs ['g', 'twin']: both are z/g, which LEAPP gives out once")


def test_a_slash_in_the_name_of_a_port_is_refused(tmp_path: Path) -> None:
    text = 'policy (float[1,3] "a/x") => (float[1,3] y) { y = Identity("a/x") }'
    port = Port(dtype="float32", shape=(1, 3))
    manifest = support.single_stage(
        "slash", inputs={"a/x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    data = support.model(text.replace('"a/x"', "a_x")).replace(b"a_x", b"a/x")
    refuse(
        write(tmp_path / "p", manifest, files={"a.onnx": data}),
        tmp_path / "out",
        "port 'a/x' of stage 'policy' has a slash",
    )


def test_a_state_that_is_read_after_it_was_written_is_refused(tmp_path: Path) -> None:
    """Stage `a` runs after `z` and reads what `z` wrote in the run before; LEAPP would hand it the new value."""
    ours = graph_manifest()
    wires = tuple(
        wire for wire in ours.wires if "copy" not in wire.source and wire.target not in ("states/h", "states/copy")
    )
    wires = (*wires, Wire("z/g", "states/h"), Wire("states/h", "z/seen"), Wire("a/h_out", "outputs/h"))
    outputs = {**ours.outputs, "h": ours.outputs["g"]}
    package = write_graph(tmp_path / "p", wires=wires, outputs=outputs, states={"h": ours.states["h"]})
    refuse(package, tmp_path / "out", "one reads a state after another wrote it in the same run")


def test_dtypes_that_leapp_does_not_have_are_refused(tmp_path: Path) -> None:
    text = "policy (uint16[1,3] x) => (uint16[1,3] y) { y = Identity(x) }"
    port = Port(dtype="uint16", shape=(1, 3))
    manifest = support.single_stage(
        "u", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a")}
    )
    package = write(tmp_path / "p", manifest, files={"a": support.model(text)})
    refuse(package, tmp_path / "out", "port 'x' of stage 'policy' has dtype uint16")


def test_a_backend_that_is_not_there_is_refused(sum_package: Package, tmp_path: Path) -> None:
    refuse(sum_package, tmp_path / "out", "has artifacts for ['onnx'], and none for pt2", backend="pt2")


def test_metadata_that_leapp_would_misread_is_refused(tmp_path: Path) -> None:
    ours = graph_manifest()
    inputs = {**ours.inputs, "b": msgspec.structs.replace(ours.inputs["b"], metadata={"shape": [1]})}
    refuse(write_graph(tmp_path / "p", inputs=inputs), tmp_path / "out", "port 'b': its metadata has ['shape']")


def test_other_runners_are_refused(sum_package: Package, tmp_path: Path) -> None:
    from ashore.spec import Runner

    package = support.write_sum(tmp_path / "other", runner=Runner(type="flow"))
    refuse(package, tmp_path / "out", "runner 'flow': LEAPP runs every node once")


def test_nothing_that_is_there_is_overwritten(sum_package: Package, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep me")
    with pytest.raises(AshoreError, match="is there already; remove it or choose another place"):
        to_leapp(sum_package, out)
    with pytest.raises(AshoreError, match="lies in the package"):
        to_leapp(sum_package, sum_package.path / "leapp")
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(AshoreError, match="is a link"):
        to_leapp(sum_package, tmp_path / "link")
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    (out / "mine.txt").unlink()
    assert to_leapp(sum_package, out).yaml.is_file()


def test_the_same_package_gives_the_same_bytes(sum_package: Package, tmp_path: Path) -> None:
    first, second = to_leapp(sum_package, tmp_path / "a"), to_leapp(sum_package, tmp_path / "b")
    for path in first.path.iterdir():
        assert path.read_bytes() == (second.path / path.name).read_bytes()


def test_what_cannot_be_read_back_is_not_kept(
    sum_package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise AshoreError("torn")

    monkeypatch.setattr("ashore.interop.leapp.writing.convert", broken)
    with pytest.raises(ExportError, match="cannot be read back, so it was not kept: torn"):
        to_leapp(sum_package, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_onnx_is_converted_both_ways_without_torch(sum_package: Package, tmp_path: Path) -> None:
    code = f"""
import sys
from ashore.interop.leapp import from_leapp, to_leapp
from ashore.package import read
to_leapp(read({str(sum_package.path)!r}), {str(tmp_path / "l")!r})
from_leapp({str(tmp_path / "l")!r}, {str(tmp_path / "p")!r})
print(sorted({{"torch", "onnx", "leapp"}} & set(sys.modules)))
"""
    done = support.run_python(code)
    assert done.stdout == "[]\n", done.stderr
