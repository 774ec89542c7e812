from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import support
from ashore.errors import PackageError
from ashore.package import Golden, Package, Recording, batch_of, write
from ashore.package.golden import dump_golden, load_golden
from ashore.package.tensors import load_arrays, save_arrays

MANIFEST = support.arm_manifest()


def golden() -> Golden:
    return support.arm_contents()["golden"]


def test_a_rollout_survives_the_round_trip() -> None:
    before = golden()
    after = load_golden(dump_golden(before, MANIFEST), MANIFEST)
    assert len(after.ticks) == len(before.ticks) == 28
    for ours, theirs in zip(after.ticks, before.ticks, strict=True):
        assert (ours.rate, ours.reset, ours.index) == (theirs.rate, theirs.reset, theirs.index)
        for group in ("inputs", "outputs", "states"):
            mine, yours = getattr(ours, group), getattr(theirs, group)
            assert mine.keys() == yours.keys()
            for name in mine:
                np.testing.assert_array_equal(mine[name], yours[name])


def test_a_recording_copies_what_it_is_given() -> None:
    recording, x = Recording(), support.f32(1, 2, 3)
    recording.step({"x": x}, {"y": x}, {"h": x})
    x[:] = 9
    assert recording.golden().ticks[0].inputs["x"].tolist() == [[1, 2, 3]]


def test_a_recording_takes_mappings_only() -> None:
    with pytest.raises(PackageError, match="recording: expected mappings from name to array"):
        Recording().step(None, {})  # type: ignore[arg-type]


def test_a_batch_of_nothing_is_refused(tmp_path: Path) -> None:
    manifest = support.write_batched(tmp_path / "p").manifest
    recording, empty = Recording(), np.zeros((0, 2), np.float32)
    recording.step({"x": empty}, {"y": empty}, {"h": empty[None]})
    with pytest.raises(PackageError, match="a batch of 0 rows"):
        dump_golden(recording.golden(), manifest)


def test_ticks_and_resets_are_counted() -> None:
    assert golden().count("policy") == 6
    assert golden().count("substep") == 22
    assert golden().resets == 2


def arrays() -> dict[str, np.ndarray]:
    return dict(load_arrays(dump_golden(golden(), MANIFEST), "golden"))


def rows(count: int, array: np.ndarray) -> np.ndarray:
    return array[:count]


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("ticks", None, "'ticks' or 'resets' is missing"),
        ("resets", None, "'ticks' or 'resets' is missing"),
        ("ticks", lambda a: a.astype(np.int64), "ticks: expected dtype uint8"),
        ("ticks", lambda a: a + 2, r"ticks: expected 0 \(step\) or 1 \(substep\), got 3"),
        ("ticks", lambda a: a[::-1].copy(), "tick 0 is a substep before the first step"),
        ("resets", lambda a: a[:3], r"resets: expected shape \[28\], got \[3\]"),
        ("resets", lambda a: np.zeros_like(a), "a rollout starts with a reset"),
        ("resets", lambda a: np.ones_like(a), "tick 1 is a substep before the first step after a reset"),
        ("policy/inputs/q", lambda a: a[:3], r"policy/inputs/q: expected 6 rows"),
        ("policy/inputs/q", lambda a: a[:, :, :1], r"inputs/q: expected shape \[1, 2\], got \[1, 1\]"),
        ("policy/inputs/q", lambda a: a.astype(np.float64), "inputs/q: expected dtype float32"),
        ("policy/inputs/q", lambda a: a * np.nan, "inputs/q: holds NaN or an infinity"),
        ("policy/inputs/q", None, "policy/inputs/q is missing"),
        ("substep/outputs/torque", None, "substep/outputs/torque is missing"),
        ("states/filter", None, "states/filter is missing"),
        ("states/filter", lambda a: a[:2], "states/filter: expected 28 rows"),
        ("policy/inputs/extra", lambda _: np.zeros((6, 1), np.float32), "policy/inputs/extra belongs to no port"),
        ("junk", lambda _: np.zeros((0,), np.float32), "junk belongs to no port"),
        ("policy/inputs/q", lambda _: np.zeros((), np.float32), "policy/inputs/q: expected 6 rows"),
    ],
)
def test_a_rollout_that_does_not_fit_is_refused(key: str, change: object, message: str) -> None:
    broken = arrays()
    if change is None:
        del broken[key]
    else:
        broken[key] = change(broken.get(key))  # type: ignore[operator]
    with pytest.raises(PackageError, match=message):
        load_golden(save_arrays(broken), MANIFEST)


def test_an_empty_rollout_is_refused() -> None:
    with pytest.raises(PackageError, match="a rollout starts with a reset"):
        dump_golden(Golden(()), MANIFEST)


def test_a_rollout_of_another_package_is_not_written(tmp_path: Path) -> None:
    contents = support.sum_contents()
    contents["golden"] = golden()
    with pytest.raises(PackageError, match="golden.safetensors: tick 0: inputs"):
        write(tmp_path / "p", support.sum_manifest(), **contents)
    assert not (tmp_path / "p").exists()


def test_the_batch_of_a_rollout_is_found(arm_package: Package) -> None:
    recorded = arm_package.golden()
    assert recorded is not None
    assert batch_of(recorded, arm_package.manifest) == 1
