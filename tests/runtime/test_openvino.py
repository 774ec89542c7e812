"""Stages in OpenVINO, against the same files in ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import openvino
import pytest

import graphs
import support
from ashore.errors import BackendError, InputError, NonFiniteError
from ashore.package import Package, write
from ashore.runtime import Options, load
from ashore.runtime import openvino as openvino_backend
from ashore.runtime.openvino import OpenvinoBackend
from ashore.spec import Artifact, Feedback, Port, Stage, State, single_stage
from ashore.verify import replay

F3 = Port(dtype="float32", shape=(1, 3))
INPUTS, OUTPUTS = {"x": F3, "h_in": F3}, {"y": F3, "h_out": F3}
ONNX, IR = Artifact(path="a.onnx"), Artifact(path="a.xml", data=("a.bin",))
SUM = support.model(support.SUM_MODEL)


def as_ir(data: bytes, *, compress: bool = False) -> tuple[bytes, bytes]:
    """An ONNX file as OpenVINO saves it."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "a.xml"
        openvino.save_model(openvino.Core().read_model(data, b""), path, compress_to_fp16=compress)
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def in_ir(package: Package, out: Path) -> Package:
    """The same package with OpenVINO's own files, and no others."""
    ((name, stage),) = package.manifest.stages.items()
    files = dict(zip(("a.xml", "a.bin"), as_ir(package.read(stage.artifacts["onnx"].path)), strict=True))
    stages = {name: msgspec.structs.replace(stage, artifacts={"openvino": IR})}
    manifest = msgspec.structs.replace(package.manifest, stages=stages)
    return write(out, manifest, files=files, initial=package.initial_state(), golden=package.golden())


def stage(inputs: Mapping[str, Port] = INPUTS, outputs: Mapping[str, Port] = OUTPUTS, *, native: bool = False) -> Stage:
    artifacts = {"openvino": IR} if native else {"onnx": ONNX}
    return Stage(rate="policy", inputs=dict(inputs), outputs=dict(outputs), artifacts=artifacts)


def open_onnx(data: bytes = SUM, made: Stage | None = None, **options: Any) -> Any:
    return OpenvinoBackend().open("stage", ONNX, [data], made or stage(), Options(**options))


def open_ir(*files: bytes) -> Any:
    return OpenvinoBackend().open("stage", IR, files, stage(native=True), Options())


def bind(text: str, given: Mapping[str, np.ndarray], places: Mapping[str, np.ndarray]) -> Callable[[], object]:
    """A graph in ONNX's text form, bound to arrays that say its ports."""
    inputs, outputs = (
        {name: Port(dtype=array.dtype.name, shape=array.shape) for name, array in group.items()}
        for group in (given, places)
    )
    return open_onnx(support.model(text), stage(inputs, outputs)).bind(given, places)


# --- the same numbers ------------------------------------------------------------------------------------------------

SUBJECTS: dict[str, Callable[[], graphs.Subject]] = {
    "mlp": lambda: graphs.mlp(24, 32, 16, 4),
    "lstm": lambda: graphs.lstm(12, 16, 4),
    "gru": lambda: graphs.gru(12, 16, 4),
    "transformer": lambda: graphs.transformer(4, 16, 1, 3),
    "pipeline": graphs.pipeline,
}


@pytest.fixture(params=["onnx", "ir"])
def packaged(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[graphs.Subject], tuple[Package, Package]]:
    """A subject as a package, and again with the files that OpenVINO is to open."""

    def make(subject: graphs.Subject) -> tuple[Package, Package]:
        package = graphs.write_subject(subject, tmp_path / "onnx")
        return package, in_ir(package, tmp_path / "ir") if request.param == "ir" else package

    return make


@pytest.mark.parametrize("name", SUBJECTS)
def test_openvino_computes_what_onnx_runtime_computes(
    packaged: Callable[[graphs.Subject], tuple[Package, Package]], name: str
) -> None:
    theirs, ours = packaged(SUBJECTS[name]())
    reference, policy = load(theirs, backend="onnx"), load(ours, backend="openvino")
    rng = np.random.default_rng(4)
    for step in range(12):
        if step == 7:
            policy.reset()
            reference.reset()
        given = {key: rng.standard_normal(port.shape).astype(np.float32) for key, port in policy.inputs.items()}
        expected, got = reference.step(given), policy.step(given)
        for key, value in expected.items():
            np.testing.assert_allclose(got[key], value, atol=5e-6, rtol=0, err_msg=f"step {step}, {key}")
        for key, value in reference.state().items():
            np.testing.assert_allclose(policy.state()[key], value, atol=5e-6, rtol=0, err_msg=f"step {step}, {key}")
    assert replay(ours, backend="openvino", atol=1e-5, rtol=0).passed


def test_whole_numbers_and_two_rates_are_exact(arm_package: Package) -> None:
    assert replay(arm_package, backend="openvino", atol=0, rtol=0).passed
    assert replay(arm_package, backend={"act": "openvino"}, atol=0, rtol=0).passed


def recurrent_batch(out: Path) -> Package:
    """An LSTM and a head, for any number of rows."""
    graph, rows = graphs.Graph(), "batch"
    obs, h_in, c_in = (
        graph.input("obs", rows, 6),
        graph.input("h_in", 1, rows, 8),
        graph.input("c_in", 1, rows, 8),
    )
    weights = graph.random(1, 32, 6), graph.random(1, 32, 8), graph.random(1, 64)
    sequence = graph.op("Unsqueeze", obs, graph.ints(0))
    _, h_out, c_out = graph.ops("LSTM", sequence, *weights, "", h_in, c_in, outputs=3, hidden_size=8)
    graph.output(graph.mlp(graph.op("Squeeze", h_out, graph.ints(0)), [8, 3]), "action", rows, 3)
    graph.output(h_out, "h_out", 1, rows, 8)
    graph.output(c_out, "c_out", 1, rows, 8)
    state = State(dtype="float32", shape=(1, "batch", 8), role="recurrent")
    manifest = single_stage(
        "rows",
        inputs={"obs": Port(dtype="float32", shape=("batch", 6))},
        outputs={"action": Port(dtype="float32", shape=("batch", 3))},
        states={"h": Feedback(state, "h_out", "h_in"), "c": Feedback(state, "c_out", "c_in")},
        artifacts={"onnx": Artifact(path="a.onnx")},
    )
    initial = {name: np.full((1, 1, 8), 0.1, np.float32) for name in ("h", "c")}
    return write(out, manifest, files={"a.onnx": graph.model()}, initial=initial)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("form", ["onnx", "ir"])
def test_a_symbolic_batch_takes_the_length_it_is_loaded_with(tmp_path: Path, rows: int, form: str) -> None:
    package = recurrent_batch(tmp_path / "p")
    reference = load(package, batch=rows)
    policy = load(in_ir(package, tmp_path / "ir") if form == "ir" else package, backend="openvino", batch=rows)
    mask = np.arange(rows) == 0
    for step, obs in enumerate(support.inputs_like((rows, 6), 8, seed=5)):
        if step == 4:
            policy.reset(rows=mask)
            reference.reset(rows=mask)
        got, expected = policy.step({"obs": obs})["action"], reference.step({"obs": obs})["action"]
        np.testing.assert_allclose(got, expected, atol=1e-6, rtol=0)


def test_policies_share_nothing(sum_package: Package) -> None:
    first, second = (load(sum_package, backend="openvino") for _ in range(2))
    x = support.f32(1, 2, 3)
    for _ in range(3):
        first.step({"x": x})
    np.testing.assert_array_equal(second.step({"x": x})["y"], support.Sum().step(x))


# --- buffers ---------------------------------------------------------------------------------------------------------


def test_what_is_bound_is_the_array_itself() -> None:
    given = {name: np.zeros((1, 3), np.float32) for name in INPUTS}
    places = {name: np.zeros((1, 3), np.float32) for name in OUTPUTS}
    call = open_onnx().bind(given, places)
    request = call.buffers[1]
    for name, array in (given | places).items():
        assert request.get_tensor(name).data.ctypes.data == array.ctypes.data
    for value in (1.0, 2.0):
        given["x"][...] = value
        call()
        np.testing.assert_array_equal(places["y"], np.full((1, 3), value * value))


KINDS = """
policy (bool[2] flag, int64[2] count, int32[1] small, uint8[2] byte, float16[2] half, float scalar, float[2] through)
    => (bool[2] not_flag, int64[2] count_out, int32[1] small_out, uint8[2] byte_out, float16[2] half_out,
        float scalar_out, float[2] same, float[2] again, float[1] constant, bool[2] larger) {
    not_flag = Not(flag)
    one = Constant<value_ints = [1]>()
    count_out = Add(count, one)
    small_out = Mul(small, small)
    byte_out = Identity(byte)
    half_out = Add(half, half)
    scalar_out = Mul(scalar, scalar)
    same = Identity(through)
    again = Identity(through)
    constant = Constant<value_floats = [3.0]>()
    larger = Greater(count, one)
}
"""


def test_every_dtype_and_kind_of_output_lands_in_its_array() -> None:
    given = {
        "flag": np.array([True, False]),
        "count": np.array([-5, 2**31 - 2]),
        "small": np.array([-7], np.int32),
        "byte": np.array([0, 255], np.uint8),
        "half": np.array([0.5, -2], np.float16),
        "scalar": np.array(3, np.float32),
        "through": np.array([1, 2], np.float32),
    }
    expected = {
        "not_flag": ~given["flag"],
        "count_out": given["count"] + 1,
        "small_out": given["small"] ** 2,
        "byte_out": given["byte"],
        "half_out": given["half"] * 2,
        "scalar_out": given["scalar"] ** 2,
        "same": given["through"],
        "again": given["through"],
        "constant": np.array([3], np.float32),
        "larger": given["count"] > 1,
    }
    places = {name: np.full_like(value, 99 if value.dtype != bool else True) for name, value in expected.items()}
    bind(KINDS, given, places)()
    for name, value in expected.items():
        np.testing.assert_array_equal(places[name], value, err_msg=name)


CHOSEN = """
policy (float[4,2] x, bool[4] keep) => (float[N,2] y) {
    where = NonZero(keep)
    zero = Constant<value_ints = [0]>()
    index = Squeeze(where, zero)
    y = Gather(x, index)
}
"""


def test_an_output_whose_shape_is_known_only_when_it_is_there_is_copied() -> None:
    x, keep, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([True, False, True, False]), np.zeros((2, 2))
    y = y.astype(np.float32)
    call = bind(CHOSEN, {"x": x, "keep": keep}, {"y": y})
    call()
    np.testing.assert_array_equal(y, x[[0, 2]])
    keep[:] = True
    with pytest.raises(ValueError, match=r"gave shape \[4, 2\] for 'y', expected \[2, 2\]"):
        call()


def test_an_output_of_another_shape_is_refused_before_the_first_step() -> None:
    text = "policy (float[1,2] x) => (float[N,2] y) { y = Concat<axis = 0>(x, x) }"
    x, y = np.zeros((1, 2), np.float32), np.zeros((3, 2), np.float32)
    with pytest.raises(BackendError, match=r"output 'y': the manifest says shape \[3, 2\], the artifact has \[2, 2\]"):
        bind(text, {"x": x}, {"y": y})
    text = "policy (float[N,2] x) => (float[M,2] y) { y = Concat<axis = 0>(x, x) }"
    with pytest.raises(BackendError, match=r"output 'y': with these inputs the artifact gives shape \[2, 2\]"):
        bind(text, {"x": x}, {"y": y})


# --- how it is opened ------------------------------------------------------------------------------------------------


def compiled(**options: Any) -> Any:
    arrays = {name: np.zeros((1, 3), np.float32) for name in (*INPUTS, *OUTPUTS)}
    bound = open_onnx(**options).bind({n: arrays[n] for n in INPUTS}, {n: arrays[n] for n in OUTPUTS})
    return bound.buffers[0]


def test_it_computes_in_float32_and_not_in_what_the_processor_likes_best(tmp_path: Path) -> None:
    """Where the processor has bfloat16, OpenVINO alone would be off by 0.01 here."""
    package = graphs.write_subject(graphs.mlp(64, 128, 64, 8), tmp_path / "p", ticks=4)
    assert replay(package, backend="openvino").worst("stepwise") < 5e-6
    assert compiled().get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32
    assert compiled().get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 0


def test_bfloat16_would_be_seen(tmp_path: Path) -> None:
    """The test above could fail: what it looks for happens where it is asked for, or cannot happen at all."""
    package = graphs.write_subject(graphs.mlp(64, 128, 64, 8), tmp_path / "p", ticks=4)
    policy = load(package, backend="openvino", properties={"INFERENCE_PRECISION_HINT": "bf16"})
    tick = package.golden().ticks[0]
    worst = np.abs(policy.step(tick.inputs)["action"] - tick.outputs["action"]).max()
    has_bfloat16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert (worst > 1e-4) == has_bfloat16


def test_one_stream_one_thread_and_no_pinning_unless_asked() -> None:
    made = compiled()
    assert made.get_property("INFERENCE_NUM_THREADS") == 1
    assert made.get_property("NUM_STREAMS") == 1
    assert made.get_property("ENABLE_CPU_PINNING") is False
    assert str(made.get_property("PERFORMANCE_HINT")).endswith("LATENCY")
    assert openvino_backend._properties("CPU", Options(threads=4), set())["INFERENCE_NUM_THREADS"] == 4
    assert "INFERENCE_NUM_THREADS" not in openvino_backend._properties("GPU", Options(threads=4), set())
    assert "SNIPPETS_MODE" not in openvino_backend._properties("CPU", Options(), {"Relu"})
    assert openvino_backend._properties("CPU", Options(), {"Mish", "Relu"})["SNIPPETS_MODE"] == "DISABLE"


def test_what_it_cannot_fuse_is_not_fused() -> None:
    """Such as a network of LeRobot's diffusion policies, which is refused otherwise."""
    assert openvino_backend._properties("CPU", Options(), {"Mish", "Add"})["SNIPPETS_MODE"] == "DISABLE"
    assert "SNIPPETS_MODE" not in openvino_backend._properties("CPU", Options(), {"Add"})


def test_properties_override_those_of_ashore_and_must_exist() -> None:
    made = compiled(properties={"PERFORMANCE_HINT": "THROUGHPUT"})
    assert str(made.get_property("PERFORMANCE_HINT")).endswith("THROUGHPUT")
    with pytest.raises(BackendError, match="stage: OpenVINO refuses it: .*NONSENSE"):
        compiled(properties={"NONSENSE": 1})


@pytest.mark.parametrize("device", ["cpu", "CPU", "Cpu", None])
def test_the_cpu_may_be_written_in_any_case(sum_package: Package, device: str | None) -> None:
    assert load(sum_package, backend="openvino", device=device).step({"x": support.f32(1, 2, 3)})


@pytest.mark.parametrize("device", ["NPU", "cuda", "CPU.7", "AUTO", "HETERO:GPU,CPU", "nowhere"])
def test_a_device_that_is_not_there_is_an_error_and_never_a_quiet_fallback(sum_package: Package, device: str) -> None:
    with pytest.raises(BackendError, match=rf"device {device!r} is not there; OpenVINO has \['CPU'"):
        load(sum_package, backend="openvino", device=device)


def test_a_device_may_be_one_of_several() -> None:
    class Core:
        available_devices = ("CPU", "GPU.0", "GPU.1")

    assert openvino_backend._device(Core(), "gpu.1", "stage") == "GPU.1"
    assert openvino_backend._device(Core(), "gpu", "stage") == "GPU"
    with pytest.raises(BackendError, match=r"device 'gpu\.2' is not there"):
        openvino_backend._device(Core(), "gpu.2", "stage")


def test_options_of_onnx_runtime_are_refused(sum_package: Package) -> None:
    with pytest.raises(BackendError, match="providers are for the backend 'onnx', and no stage runs on it"):
        load(sum_package, backend="openvino", providers=["CPUExecutionProvider"])
    with pytest.raises(BackendError, match="properties are for the backend 'openvino', and no stage runs on it"):
        load(sum_package, properties={"CACHE_DIR": "x"})


@pytest.fixture
def _anew() -> Iterator[None]:
    openvino_backend._openvino.cache_clear()
    yield
    openvino_backend._openvino.cache_clear()


@pytest.mark.usefixtures("_anew")
def test_a_version_that_leaves_outputs_unwritten_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino, "__version__", "2025.3.0-19807-44526285f24-releases/2025/3")
    with pytest.raises(BackendError, match=r"OpenVINO 2025\.3\.0.* pip install 'openvino>=2025\.4'"):
        OpenvinoBackend()


WITHOUT_OPENVINO = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "openvino":
            raise ModuleNotFoundError("No module named 'openvino'", name="openvino")

sys.meta_path.insert(0, Hide())
import ashore

try:
    ashore.load(sys.argv[1], backend="openvino")
except ashore.AshoreError as error:
    print(type(error).__name__, error)
"""


def test_where_it_is_not_installed_it_says_what_to_install(sum_package: Package) -> None:
    done = support.run_python(WITHOUT_OPENVINO, str(sum_package.path))
    expected = "the backend 'openvino' needs openvino, which is not installed; use pip install 'ashore[openvino]'"
    assert done.stdout == f"BackendError {expected}\n", done.stderr


# --- what it opens ---------------------------------------------------------------------------------------------------


def with_artifacts(package: Package, **artifacts: Any) -> Path:
    def change(document: dict[str, Any]) -> None:
        own = document["stages"]["policy"]["artifacts"]
        own |= {name: own["onnx"] if path is None else {"path": path} for name, path in artifacts.items()}

    support.edit_manifest(package.path, change)
    return package.path


def test_its_own_artifact_goes_before_that_of_another(sum_package: Package) -> None:
    path = with_artifacts(sum_package, openvino=None)  # the ONNX file under the wrong name
    assert load(path, backend="onnx")
    with pytest.raises(BackendError, match=r"stage 'policy' .*: expected OpenVINO's IR, one \.xml and at most one"):
        load(path, backend="openvino")


def test_without_a_choice_onnx_runtime_goes_before_it(sum_package: Package, tmp_path: Path) -> None:
    assert replay(sum_package).backend == "onnx"
    assert replay(in_ir(sum_package, tmp_path / "ir")).backend == "openvino"


def test_a_stage_that_it_cannot_open_is_named(sum_package: Package) -> None:
    def rename(document: dict[str, Any]) -> None:
        own = document["stages"]["policy"]["artifacts"]
        own["torchscript"] = own.pop("onnx")

    support.edit_manifest(sum_package.path, rename)
    message = r"stage 'policy' has no artifact for 'openvino', nor for 'onnx', which it opens too; it has \['torchscri"
    with pytest.raises(BackendError, match=message):
        load(sum_package.path, backend="openvino")


def port(**fields: Any) -> Port:
    return Port(**{"dtype": "float32", "shape": (1, 3), **fields})


@pytest.mark.parametrize("form", ["onnx", "ir"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"x": F3}, OUTPUTS, r"inputs: the manifest says \['x'\], the artifact has \['h_in', 'x'\]"),
        ({**INPUTS, "z": F3}, OUTPUTS, r"inputs: the manifest says \['h_in', 'x', 'z'\], the artifact"),
        (INPUTS, {"y": F3, "z": F3}, r"outputs: the manifest says \['y', 'z'\], the artifact has \['h_out', 'y'\]"),
        ({**INPUTS, "x": port(dtype="int32")}, OUTPUTS, r"input 'x': the manifest says int32, the artifact has f32"),
        ({**INPUTS, "x": port(shape=(1, 4))}, OUTPUTS, r"input 'x': the manifest says shape \[1, 4\]"),
        ({**INPUTS, "x": port(shape=(3,))}, OUTPUTS, r"input 'x': the manifest says shape \[3\]"),
        ({**INPUTS, "x": port(shape=("batch", 3))}, OUTPUTS, r"says shape \['batch', 3\], the artifact has \[1, 3\]"),
        (INPUTS, {**OUTPUTS, "y": port(shape=(2, 3))}, r"output 'y': the manifest says shape \[2, 3\]"),
    ],
)
def test_the_artifact_must_have_the_ports_of_the_manifest(
    form: str, inputs: dict[str, Port], outputs: dict[str, Port], message: str
) -> None:
    made, files = stage(inputs, outputs, native=form == "ir"), as_ir(SUM) if form == "ir" else [SUM]
    with pytest.raises(BackendError, match=message):
        OpenvinoBackend().open("stage", IR if form == "ir" else ONNX, files, made, Options())


def test_an_input_that_nothing_reads_may_be_there() -> None:
    """OpenVINO drops it from an ONNX file, and the manifest still has it."""
    y = np.zeros(2, np.float32)
    text = "policy (float[2] x, float[2] spare) => (float[2] y) { y = Add(x, x) }"
    bind(text, {"x": np.ones(2, np.float32), "spare": np.ones(2, np.float32)}, {"y": y})()
    np.testing.assert_array_equal(y, [2, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy (double[1] x) => (double[1] y) { y = Add(x, x) }", "Parameter 'x' is float64"),
        (
            """policy (float[1] x) => (float[1] y) {
                wide = Cast<to = 11>(x)
                square = Mul(wide, wide)
                y = Cast<to = 1>(square)
            }""",
            "Multiply 'square' is float64",
        ),
        (
            """policy (float[1] x) => (float[1] y) {
                truth = Cast<to = 9>(x)
                only = Squeeze(truth)
                wide = Cast<to = 11>(x)
                y = If (only) <
                    then_branch = a () => (float[1] p) { sum = Add(wide, wide) p = Cast<to = 1>(sum) },
                    else_branch = b () => (float[1] q) { q = Identity(x) }
                >
            }""",
            "is float64",
        ),
    ],
)
def test_what_it_would_compute_in_less_than_the_file_says_is_refused(text: str, message: str) -> None:
    dtype = "float64" if "double" in text else "float32"
    ports = {name: Port(dtype=dtype, shape=(1,)) for name in "xy"}
    with pytest.raises(BackendError, match=f"stage: .*{message}, which OpenVINO computes as float32"):
        open_onnx(support.model(text), stage({"x": ports["x"]}, {"y": ports["y"]}))


def test_a_float64_constant_that_is_only_converted_is_no_harm() -> None:
    text = """policy (float[1] x) => (float[1] y) {
        wide = Constant<value = double[1] {0.5}>()
        half = Cast<to = 1>(wide)
        y = Mul(x, half)
    }"""
    y = np.zeros(1, np.float32)
    bind(text, {"x": np.ones(1, np.float32)}, {"y": y})()
    assert y == 0.5


def counter(out: Path, start: int) -> Package:
    count = Port(dtype="int64", shape=(1,))
    manifest = single_stage(
        "counter",
        inputs={"by": count},
        outputs={"n": count},
        states={"total": Feedback(State(dtype="int64", shape=(1,), role="counter"), "n_out", "n_in")},
        artifacts={"onnx": ONNX},
    )
    text = """policy (int64[1] by, int64[1] n_in) => (int64[1] n, int64[1] n_out) {
        n_out = Add(n_in, by)
        n = Identity(n_out)
    }"""
    return write(out, manifest, files={"a.onnx": support.model(text)}, initial={"total": np.array([start], np.int64)})


def test_whole_numbers_beyond_32_bits_are_an_error_and_never_cut_off(tmp_path: Path) -> None:
    policy = load(counter(tmp_path / "p", 2**31 - 3), backend="openvino")
    one = np.array([1], np.int64)
    assert policy.step({"by": one})["n"] == 2**31 - 2
    for value in (2**31, -(2**31) - 1, 2**40):
        with pytest.raises(BackendError, match="step: the backend failed; .*'by' holds a number beyond 32 bits"):
            policy.step({"by": np.array([value])})
    assert policy.state()["total"] == 2**31 - 2
    with pytest.raises(BackendError, match="'n_in' holds a number beyond 32 bits"):
        load(counter(tmp_path / "q", 2**31), backend="openvino").step({"by": one})


# --- NaN -------------------------------------------------------------------------------------------------------------


def nan_package(out: Path) -> Package:
    text = "policy (float[1,2] x) => (float[1,2] y) { y = Div(x, x) }"
    ports = {name: Port(dtype="float32", shape=(1, 2)) for name in "xy"}
    manifest = single_stage("nan", inputs={"x": ports["x"]}, outputs={"y": ports["y"]}, artifacts={"onnx": ONNX})
    return write(out, manifest, files={"a.onnx": support.model(text)})


def test_nan_is_found_in_what_goes_in_and_in_what_comes_out(tmp_path: Path) -> None:
    policy = load(nan_package(tmp_path / "p"), backend="openvino")
    with pytest.raises(InputError, match=r"input 'x'\[0, 1\] is nan"):
        policy.step({"x": support.f32(1, np.nan)})
    with pytest.raises(NonFiniteError, match=r"output 'y'\[0, 1\] is nan"):
        policy.step({"x": support.f32(1, 0)})
    np.testing.assert_array_equal(policy.step({"x": support.f32(3, 4)})["y"], [[1, 1]])


# --- files that are not what they should be --------------------------------------------------------------------------

WEIGHTED = """
policy (float[1,3] x, float[1,3] h_in) => (float[1,3] y, float[1,3] h_out) {
    w = Constant<value = float[3] {1.1, 2.2, 3.3}>()
    h_out = Mul(h_in, w)
    y = Add(h_out, x)
}
"""
XML, BIN = as_ir(support.model(WEIGHTED))


def test_ir_opens_with_its_weights() -> None:
    given = {name: support.f32(1, 2, 3) for name in INPUTS}
    places = {name: np.zeros((1, 3), np.float32) for name in OUTPUTS}
    open_ir(XML, BIN).bind(given, places)()
    np.testing.assert_allclose(places["h_out"], given["h_in"] * np.array([1.1, 2.2, 3.3], np.float32), rtol=1e-7)


@pytest.mark.parametrize(
    "files",
    [
        (XML, BIN[:-4]),
        (XML, b""),
        (XML,),
        (XML[:-200], BIN),
        (b"<net", BIN),
        (b"<?xml version='1.0'?><html/>", BIN),
        (XML.replace(b'offset="0"', b'offset="4096"'), BIN),
        (XML.replace(b'offset="0"', b'offset="-4"'), BIN),
        (XML.replace(b'offset="0"', b'offset="18446744073709551612"'), BIN),
        (XML.replace(b'size="12"', b'size="99999999"'), BIN),
        (XML.replace(b'shape="3"', b'shape="3000"'), BIN),
        (XML.replace(b'type="Multiply"', b'type="Conjure"'), BIN),
        (XML.replace(b'from-layer="0"', b'from-layer="99"'), BIN),
        (XML.replace(b'to-port="0"', b'to-port="99"'), BIN),
    ],
    ids=lambda files: None,
)
def test_ir_that_is_damaged_is_refused(files: tuple[bytes, ...]) -> None:
    assert files != (XML, BIN)
    with pytest.raises(BackendError, match="stage: OpenVINO refuses it: "):
        open_ir(*files)


@pytest.mark.parametrize("files", [(b"",), (SUM,), (BIN, XML), (XML, BIN, BIN)], ids=["empty", "onnx", "turned", "3"])
def test_what_is_no_ir_is_refused(files: tuple[bytes, ...]) -> None:
    with pytest.raises(BackendError, match=r"stage: expected OpenVINO's IR, one \.xml and at most one \.bin"):
        open_ir(*files)


def test_damage_that_the_digests_agree_with_is_still_found(sum_package: Package, tmp_path: Path) -> None:
    package = in_ir(sum_package, tmp_path / "ir")
    support.change_file(package.path, "a.xml", package.read("a.xml").replace(b'type="Multiply"', b'type="Conjure"'))
    with pytest.raises(BackendError, match=r"stage 'policy' \(a\.xml\): OpenVINO refuses it: .*Conjure"):
        load(package.path)


def test_weights_that_were_rounded_to_float16_are_refused() -> None:
    with pytest.raises(BackendError, match=r"weights were rounded to float16; save it again, .*compress_to_fp16=False"):
        open_ir(*as_ir(support.model(WEIGHTED), compress=True))


@pytest.mark.parametrize("data", [b"", b"not onnx", b"\x08\x0a" * 50, SUM[:-10], XML])
def test_what_is_no_onnx_file_is_refused(data: bytes) -> None:
    with pytest.raises(BackendError, match=r"stage: OpenVINO refuses it|not a readable ONNX file|has \[\]"):
        open_onnx(data)


def test_an_onnx_file_keeps_its_weights_inside() -> None:
    with pytest.raises(BackendError, match="stage: an ONNX artifact is one file, with its weights inside; got 2 files"):
        OpenvinoBackend().open("stage", ONNX, [SUM, b"weights"], stage(), Options())
    made = onnx.load_from_string(support.model(WEIGHTED))
    weights = onnx.numpy_helper.from_array(np.ones(3, np.float32), "outside")
    onnx.external_data_helper.set_external_data(weights, location="weights.bin")
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    made.graph.initializer.append(weights)
    with pytest.raises(BackendError, match=r"stage: keeps weights outside the file, in 'weights\.bin'"):
        open_onnx(made.SerializeToString())


def test_a_name_that_is_no_text_is_refused() -> None:
    data = support.model(support.SUM_MODEL.replace("y = Mul", "Qy = Mul").replace("[1,3] y", "[1,3] Qy"))
    with pytest.raises(BackendError, match="stage: holds a name that is no text"):
        open_onnx(data.replace(b"Qy", b"\xff\xfe"))


def test_what_openvino_quotes_cannot_drive_a_terminal() -> None:
    made = onnx.load_from_string(SUM)
    made.graph.node[0].op_type = "\x1b]0;owned\x07"
    with pytest.raises(BackendError) as caught:
        open_onnx(made.SerializeToString())
    assert "\x1b" not in str(caught.value)


def test_errors_leave_out_where_in_openvino_they_arose() -> None:
    with pytest.raises(BackendError) as caught:
        open_ir(XML, b"")
    assert "Incorrect weights in bin file" in str(caught.value)
    assert ".cpp" not in str(caught.value)
