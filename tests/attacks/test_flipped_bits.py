"""One flipped bit anywhere in a package is found, in every kind of file it has."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import support
from ashore.errors import AshoreError
from ashore.package import read

FILES = ("manifest.json", "artifacts/act.onnx", "state.safetensors", "golden.safetensors")


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_in_a_directory_is_found(name: str, tmp_path: Path) -> None:
    path = support.write_arm(tmp_path / "arm").path / name
    good = path.read_bytes()
    chosen = random.Random(0).sample(range(len(good) * 8), min(600, len(good) * 8))
    for position in chosen:
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        path.write_bytes(bad)
        with pytest.raises(AshoreError):
            read(tmp_path / "arm")
    path.write_bytes(good)
    read(tmp_path / "arm")


def test_a_flipped_bit_in_an_archive_changes_nothing_or_is_found(tmp_path: Path) -> None:
    """A zip has fields that nobody reads (times, versions), so some flips do not matter. None may get through."""
    package = support.write_arm(tmp_path / "arm.ashore")
    path, good = package.path, package.path.read_bytes()
    found = 0
    for position in random.Random(1).sample(range(len(good) * 8), 1500):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        path.write_bytes(bad)
        try:
            again = read(path)
        except AshoreError:
            found += 1
            continue
        assert again.manifest == package.manifest
        for name in again.manifest.files:
            again.read(name)
    assert found > 1200
