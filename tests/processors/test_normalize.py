from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import processing
import support
from ashore.errors import InputError, ManifestError, NonFiniteError
from ashore.package import Package, Recording, write
from ashore.package.tensors import save_arrays
from ashore.processors import Apply, build
from ashore.runtime import load
from ashore.spec import Artifact, Manifest, Port, Processor, Stage, State, Wire
from ashore.verify import bench, replay
from processing import LEROBOT

PORT = Port(dtype="float32", shape=(1, 3))
STATISTICS = {
    "x/mean": np.array([1, 2, 3], np.float32),
    "x/std": np.array([0.5, 1, 0], np.float32),
    "x/min": np.array([-1, 0, 2], np.float32),
    "x/max": np.array([1, 4, 2], np.float32),
}
VALUES = support.f32(0.3, -0.7, 3.1)


def stage(kind: str, ports: Port = PORT, **params: Any) -> Stage:
    processor = Processor(type=kind, params={"statistics": "x", **params}, assets=("stats.safetensors",))
    return Stage(rate="policy", inputs={"x": ports}, outputs={"y": ports}, processor=processor)


def make(kind: str, mode: str) -> Apply:
    return build("here", stage(kind, mode=mode), lambda _: save_arrays(STATISTICS))


def apply(kind: str, mode: str, values: np.ndarray) -> np.ndarray:
    return make(kind, mode)({"x": values})["y"]


def test_mean_std_divides_by_std_plus_eps() -> None:
    expected = (VALUES - STATISTICS["x/mean"]) / (STATISTICS["x/std"] + np.float32(1e-8))
    np.testing.assert_array_equal(apply("normalize", "mean_std", VALUES), expected)


def test_min_max_goes_from_minus_one_to_one_and_survives_an_empty_range() -> None:
    np.testing.assert_array_equal(apply("normalize", "min_max", STATISTICS["x/min"][None]), [[-1, -1, -1]])
    np.testing.assert_array_equal(apply("normalize", "min_max", STATISTICS["x/max"][None])[:, :2], [[1, 1]])


@pytest.mark.parametrize("mode", ["mean_std", "min_max"])
def test_denormalize_is_the_inverse(mode: str) -> None:
    there = apply("normalize", mode, VALUES)
    # The third range is empty, so its scale is eps and rounding is all that is left of the value.
    np.testing.assert_allclose(apply("denormalize", mode, there)[:, :2], VALUES[:, :2], rtol=1e-6)


@pytest.mark.parametrize("kind", ["normalize", "denormalize"])
@pytest.mark.parametrize("mode", ["mean_std", "min_max"])
def test_the_dtype_is_kept_and_the_argument_is_not_written_to(kind: str, mode: str) -> None:
    values = VALUES.copy()
    assert apply(kind, mode, values).dtype == np.float32
    np.testing.assert_array_equal(values, VALUES)


@pytest.mark.parametrize(
    ("made", "statistics", "message"),
    [
        (stage("normalise"), {}, r"here: unknown processor 'normalise'; did you mean 'normalize'\?"),
        (stage("whiten"), {}, r"this Ashore has \['absolute_actions', 'action_queue', 'denormalize',"),
        (stage("normalize"), {}, "missing required field `mode`"),
        (stage("normalize", mode="mean_std", epz=1), {}, "unknown field `epz`"),
        (stage("normalize", mode="mean_std"), {}, r"holds no 'x/mean', but \[\]"),
        (stage("normalize", Port(dtype="uint8", shape=(1, 3)), mode="mean_std"), STATISTICS, "both float32 or both"),
        (
            stage("normalize", mode="mean_std"),
            {**STATISTICS, "x/mean": np.zeros((1,), np.float32)},
            r"'x/mean' is float32 \[1\]; expected float32 and the last axes of \[1, 3\]",
        ),
        (
            stage("normalize", mode="mean_std"),
            {**STATISTICS, "x/mean": np.zeros((), np.float32)},
            r"'x/mean' is float32 \[\]",
        ),
        (
            stage("normalize", mode="mean_std"),
            {**STATISTICS, "x/std": np.full(3, np.nan, np.float32)},
            "'x/std' holds NaN",
        ),
        (
            Stage(
                rate="policy",
                inputs={"x": PORT, "z": PORT},
                outputs={"y": PORT},
                processor=Processor(type="normalize", assets=("s",)),
            ),
            STATISTICS,
            "expected one input, one output and one asset",
        ),
        (
            Stage(
                rate="policy",
                inputs={"x": PORT},
                outputs={"y": Port(dtype="float32", shape=(1, 4))},
                processor=Processor(type="normalize", assets=("s",)),
            ),
            STATISTICS,
            "expected an input and an output of one shape",
        ),
    ],
)
def test_a_processor_that_cannot_work_is_refused(made: Stage, statistics: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        build("here", made, lambda _: save_arrays(statistics))


@pytest.mark.parametrize("mode", ["mean_std", "min_max", "quantiles", "quantile10"])
@pytest.mark.parametrize("feature", ["vector", "image"])
@pytest.mark.parametrize("rows", [1, 2])
def test_it_is_what_lerobot_computes_to_the_bit(feature: str, mode: str, rows: int) -> None:
    """Also where a range is empty, or a std 0."""
    values = LEROBOT[f"scale/{feature}/x"][:rows]
    statistics = {key.removeprefix("scale/"): array for key, array in LEROBOT.items() if key.startswith("scale/")}
    ports = processing.port("batch", *values.shape[1:])
    for kind, direction, eps in (("normalize", "forward", 1e-8), ("denormalize", "inverse", 0.0)):
        params = {"mode": mode, "statistics": feature} | ({"eps": eps} if mode == "mean_std" else {})
        apply = processing.make(processing.stage(kind, {"x": ports}, {"y": ports}, ("a",), **params), statistics)
        np.testing.assert_array_equal(apply({"x": values})["y"], LEROBOT[f"scale/{feature}/{mode}/{direction}"][:rows])


@pytest.mark.parametrize("rows", [1, 3])
def test_trim_drops_what_lies_beyond_the_statistics(rows: int) -> None:
    chunk, short = processing.port("batch", 4, 5), processing.port("batch", 4, 3)
    params = {"mode": "mean_std", "statistics": "x", "trim": True}
    made = processing.stage("denormalize", {"x": chunk}, {"y": short}, ("a",), **params)
    values = np.random.default_rng(0).normal(size=(rows, 4, 5)).astype(np.float32)
    expected = values[..., :3] * (STATISTICS["x/std"] + np.float32(1e-8)) + STATISTICS["x/mean"]
    np.testing.assert_array_equal(processing.make(made, STATISTICS)({"x": values})["y"], expected)


def trimming(kind: str, before: Port, after: Port, **params: Any) -> Stage:
    params = {"mode": "mean_std", "statistics": "x"} | params
    return processing.stage(kind, {"x": before}, {"y": after}, ("a",), **params)


@pytest.mark.parametrize(
    ("made", "statistics", "message"),
    [
        (stage("normalize", mode="identity"), {}, "the mode is 'identity', so the stage would touch nothing; leave"),
        (stage("normalize", mode="zscore"), {}, "Invalid enum value 'zscore' - at"),
        (stage("normalize", mode="quantiles"), STATISTICS, r"holds no 'x/q01', but \['x/max', "),
        (stage("normalize", mode="quantile10"), STATISTICS, "holds no 'x/q10'"),
        (
            stage("normalize", mode="mean_std"),
            {"x/mean": np.zeros(3, np.float32), "x/std": np.ones(3, np.float32)},
            r"those of values that are scaled already \(mean_std\), so the stage would touch nothing",
        ),
        (
            stage("denormalize", mode="min_max"),
            {"x/min": -np.ones(3, np.float32), "x/max": np.ones(3, np.float32)},
            r"scaled already \(min_max\), so the stage would touch nothing",
        ),
        (
            stage("denormalize", mode="mean_std", eps=0.0),
            {**STATISTICS, "x/std": np.zeros(3, np.float32)},
            "its statistics and eps give a scale of 0 or infinity",
        ),
        (
            stage("normalize", processing.port(1, 3, 4, 4), mode="mean_std"),
            {name: array[:2, None, None] for name, array in STATISTICS.items()},
            r"'x/mean' is float32 \[2, 1, 1\]; .* the last axes of \[1, 3, 4, 4\], or \[channels, 1, 1\]",
        ),
        (
            stage("normalize", processing.port(1, 3, 4, 4), mode="mean_std"),
            {name: array[:, None] for name, array in STATISTICS.items()},
            r"'x/mean' is float32 \[3, 1\]",
        ),
        (
            trimming("normalize", processing.port(1, 5), processing.port(1, 3), trim=True),
            STATISTICS,
            "trim is for denormalize; before a network, use slice",
        ),
        (
            trimming("denormalize", processing.port(1, 5), processing.port(1, 3)),
            STATISTICS,
            "input and an output of one",
        ),
        (
            trimming("denormalize", PORT, PORT, trim=True),
            STATISTICS,
            r"expected trim to shorten the last axis, and no other, .* float32 \[1, 3\] to float32 \[1, 3\]",
        ),
        (
            trimming("denormalize", processing.port("batch", 5), processing.port(1, 3), trim=True),
            STATISTICS,
            r"and no other, .*; got float32 \['batch', 5\] to float32 \[1, 3\]",
        ),
        (
            trimming("denormalize", processing.port(1, 5), processing.port(1, 4), trim=True),
            STATISTICS,
            r"'x/mean' is float32 \[3\]; expected float32 and the last axes of \[1, 4\]",
        ),
    ],
)
def test_what_does_not_fit_or_would_touch_nothing_is_refused(made: Stage, statistics: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        processing.make(made, save_arrays(statistics))


def write_scaled(out: Path, **changes: Any) -> Package:
    """The sum policy between two normalisers and a denormaliser."""
    statistics = {**STATISTICS, "x/max": STATISTICS["x/max"] + 1, **changes}
    first, second = stage("normalize", mode="mean_std", eps=0.5), stage("normalize", mode="min_max")
    ends = stage("denormalize", mode="mean_std")
    network = Stage(
        rate="policy",
        inputs={"x": PORT, "h_in": PORT},
        outputs={"y": PORT, "h_out": PORT},
        artifacts={"onnx": Artifact(path="artifacts/policy.onnx")},
    )
    manifest = Manifest(
        name="scaled",
        inputs={"x": PORT},
        outputs={"y": PORT},
        stages={"d_after": ends, "c_network": network, "b_second": second, "a_first": first},
        wires=(
            Wire("inputs/x", "a_first/x"),
            Wire("a_first/y", "b_second/x"),
            Wire("b_second/y", "c_network/x"),
            Wire("c_network/y", "d_after/x"),
            Wire("d_after/y", "outputs/y"),
            Wire("states/h", "c_network/h_in"),
            Wire("c_network/h_out", "states/h"),
        ),
        states={"h": State(dtype="float32", shape=(1, 3), role="memory")},
    )
    recording, reference = Recording(), support.Sum()
    for x in support.inputs_like((1, 3), 5, seed=4):
        y = scaled(x, reference, statistics)
        recording.step({"x": x}, {"y": y}, {"h": reference.h})
    contents = support.sum_contents()
    files = {**contents["files"], "stats.safetensors": save_arrays(statistics)}
    golden = None if changes else recording.golden()
    return write(out, manifest, files=files, initial=contents["initial"], golden=golden)


def scaled(x: np.ndarray, reference: support.Sum, statistics: dict[str, np.ndarray]) -> np.ndarray:
    mean, std, low, high = (statistics[f"x/{name}"] for name in ("mean", "std", "min", "max"))
    normal = (x - mean) / (std + np.float32(0.5))
    inner = reference.step(2 * (normal - low) / (high - low) - 1)
    return inner * (std + np.float32(1e-8)) + mean


@pytest.mark.parametrize(
    ("params", "statistics"),
    [
        ({"mode": "mean_std", "eps": 1e300}, {}),
        ({"mode": "mean_std", "eps": 0.0}, {}),
        ({"mode": "min_max"}, {"x/min": np.full(3, -3e38, np.float32), "x/max": np.full(3, 3e38, np.float32)}),
    ],
)
def test_a_scale_of_zero_or_infinity_is_refused_when_loading(params: Any, statistics: Any) -> None:
    data = save_arrays({**STATISTICS, **statistics})
    with pytest.raises(ManifestError, match="its statistics and eps give a scale of 0 or infinity"):
        build("here", stage("normalize", **params), lambda _: data)


def test_the_runtime_applies_each_processor_once_and_in_order(tmp_path: Path) -> None:
    report = replay(write_scaled(tmp_path / "p"))
    assert report.passed
    assert report.worst("free_running") < 1e-6


def test_a_package_with_processors_is_measured_like_any_other(tmp_path: Path) -> None:
    (timing,) = bench(write_scaled(tmp_path / "p"), samples=40)
    assert timing.policy.samples == 40


def test_inputs_are_checked_before_they_are_processed(tmp_path: Path) -> None:
    policy = load(write_scaled(tmp_path / "p"))
    with pytest.raises(InputError, match="expected dtype float32, got float64"):
        policy.step({"x": np.zeros((1, 3))})
    with pytest.raises(InputError, match=r"input 'x'\[0, 1\] is nan"):
        policy.step({"x": support.f32(1, np.nan, 1)})


def test_what_overflows_in_a_processor_is_no_warning_but_an_error_and_leaves_the_state_alone(tmp_path: Path) -> None:
    policy = load(write_scaled(tmp_path / "p", **{"x/std": np.full(3, 1e10, np.float32)}))
    before = policy.state()
    with pytest.raises(NonFiniteError, match=r"output 'y'\[0, 0\] is inf"):
        policy.step({"x": support.f32(3e27, 3e27, 3e27)})
    np.testing.assert_array_equal(policy.state()["h"], before["h"])


def test_a_processor_that_gives_another_shape_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ashore.errors import BackendError
    from ashore.processors import registry

    monkeypatch.setattr(
        registry, "PROCESSORS", {**registry.PROCESSORS, "normalize": lambda *_: lambda inputs: {"y": np.float32(1)}}
    )
    policy = load(write_scaled(tmp_path / "p"))
    with pytest.raises(BackendError, match=r"a processor gave float32 \[\] for 'y'"):
        policy.step({"x": VALUES})
