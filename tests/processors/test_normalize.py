from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import support
from ashore.errors import InputError, ManifestError, NonFiniteError
from ashore.package import write
from ashore.package.tensors import save_arrays
from ashore.processors import build
from ashore.runtime import load
from ashore.spec import Port, Processor

PORT = Port(dtype="float32", shape=(1, 3))
STATISTICS = {
    "x/mean": np.array([1, 2, 3], np.float32),
    "x/std": np.array([0.5, 1, 0], np.float32),
    "x/min": np.array([-1, 0, 2], np.float32),
    "x/max": np.array([1, 4, 2], np.float32),
}
VALUES = support.f32(0.3, -0.7, 3.1)


def make(kind: str, mode: str, **fields: Any):
    processor = Processor(type=kind, port="x", params={"mode": mode, **fields}, artifact="stats.safetensors")
    return build(processor, PORT, STATISTICS)


def test_mean_std_divides_by_std_plus_eps() -> None:
    expected = (VALUES - STATISTICS["x/mean"]) / (STATISTICS["x/std"] + np.float32(1e-8))
    np.testing.assert_array_equal(make("normalize", "mean_std")(VALUES), expected)


def test_min_max_goes_from_minus_one_to_one_and_survives_an_empty_range() -> None:
    transform = make("normalize", "min_max")
    np.testing.assert_array_equal(transform(STATISTICS["x/min"][None]), [[-1, -1, -1]])
    np.testing.assert_array_equal(transform(STATISTICS["x/max"][None])[:, :2], [[1, 1]])


@pytest.mark.parametrize("mode", ["mean_std", "min_max"])
def test_denormalize_is_the_inverse(mode: str) -> None:
    there, back = make("normalize", mode), make("denormalize", mode)
    # The third range is empty, so its scale is eps and rounding is all that is left of the value.
    np.testing.assert_allclose(back(there(VALUES))[:, :2], VALUES[:, :2], rtol=1e-6)


def test_the_argument_is_not_written_to() -> None:
    values = VALUES.copy()
    make("normalize", "mean_std")(values)
    np.testing.assert_array_equal(values, VALUES)


@pytest.mark.parametrize("mode", ["mean_std", "min_max"])
def test_the_dtype_is_kept(mode: str) -> None:
    assert make("normalize", mode)(VALUES).dtype == np.float32
    assert make("denormalize", mode)(VALUES).dtype == np.float32


@pytest.mark.parametrize(
    ("processor", "port", "arrays", "message"),
    [
        (Processor(type="normalise", port="x"), PORT, {}, "unknown type 'normalise'; did you mean 'normalize'?"),
        (Processor(type="whiten", port="x"), PORT, {}, r"this Ashore has \['denormalize', 'normalize'\]"),
        (Processor(type="normalize", port="x"), PORT, {}, "missing required field `mode`"),
        (Processor(type="normalize", port="x", params={"mode": "mean_std", "epz": 1}), PORT, {}, "unknown field `epz`"),
        (Processor(type="normalize", port="x", params={"mode": "mean_std"}), PORT, {}, "holds no 'x/mean'"),
        (
            Processor(type="normalize", port="x", params={"mode": "mean_std"}),
            Port(dtype="uint8", shape=(1, 3)),
            STATISTICS,
            "works on float32 and float64, the port is uint8",
        ),
        (
            Processor(type="normalize", port="x", params={"mode": "mean_std"}),
            PORT,
            {**STATISTICS, "x/mean": np.zeros((1,), np.float32)},
            r"'x/mean' is float32 \[1\]; expected float32 and the last axes of \[1, 3\]",
        ),
        (
            Processor(type="normalize", port="x", params={"mode": "mean_std"}),
            PORT,
            {**STATISTICS, "x/mean": np.zeros((), np.float32)},
            r"'x/mean' is float32 \[\]",
        ),
        (
            Processor(type="normalize", port="x", params={"mode": "mean_std"}),
            PORT,
            {**STATISTICS, "x/std": np.full(3, np.nan, np.float32)},
            "'x/std' holds NaN",
        ),
    ],
)
def test_a_processor_that_cannot_work_is_refused(processor: Processor, port: Port, arrays: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        build(processor, port, arrays)


def package_with_processors(out: Path) -> Path:
    statistics = {**STATISTICS, "y/mean": STATISTICS["x/mean"], "y/std": STATISTICS["x/std"]}
    manifest = msgspec.structs.replace(
        support.sum_manifest(),
        preprocessors=(
            Processor(
                type="normalize", port="x", params={"mode": "mean_std", "eps": 0.5}, artifact="stats.safetensors"
            ),
            Processor(type="normalize", port="x", params={"mode": "min_max"}, artifact="stats.safetensors"),
        ),
        postprocessors=(
            Processor(type="denormalize", port="y", params={"mode": "mean_std"}, artifact="stats.safetensors"),
        ),
    )
    contents = support.sum_contents()
    files = {**contents["files"], "stats.safetensors": save_arrays({**statistics, "x/max": statistics["x/max"] + 1})}
    return write(out, manifest, files=files, initial=contents["initial"]).path


def test_the_runtime_applies_each_processor_once_and_in_order(tmp_path: Path) -> None:
    policy, reference = load(package_with_processors(tmp_path / "p")), support.Sum()
    mean, std = STATISTICS["x/mean"], STATISTICS["x/std"]
    low, high = STATISTICS["x/min"], STATISTICS["x/max"] + 1
    for x in support.inputs_like((1, 3), 5, seed=4):
        scaled = (x - mean) / (std + np.float32(0.5))
        inner = reference.step(2 * (scaled - low) / (high - low) - 1)
        expected = inner * (std + np.float32(1e-8)) + mean
        np.testing.assert_allclose(policy.step({"x": x})["y"], expected, rtol=1e-6)


def test_inputs_are_checked_before_they_are_processed(tmp_path: Path) -> None:
    policy = load(package_with_processors(tmp_path / "p"))
    with pytest.raises(InputError, match="expected dtype float32, got float64"):
        policy.step({"x": np.zeros((1, 3))})
    with pytest.raises(InputError, match="is nan"):
        policy.step({"x": support.f32(1, np.nan, 1)})


def test_an_output_that_overflows_when_processed_leaves_the_state_alone(tmp_path: Path) -> None:
    path = package_with_processors(tmp_path / "p")
    policy = load(path)
    before = policy.state()
    with pytest.raises(NonFiniteError, match="'h'|'y'"):
        policy.step({"x": support.f32(3e37, 3e37, 3e37)})
    np.testing.assert_array_equal(policy.state()["h"], before["h"])
