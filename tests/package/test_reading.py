from __future__ import annotations

from pathlib import Path

import pytest

import support
from ashore.errors import PackageError
from ashore.package import Package, pack, read

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("path", sorted(DATA.glob("v*/*.ashore")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_packages_of_every_schema_version_keep_loading(path: Path) -> None:
    package = read(path)
    assert package.golden() is not None
    assert package.initial_state().keys() == package.manifest.states.keys()


def test_there_is_a_kept_package_of_every_schema_version() -> None:
    from ashore.spec import SCHEMA_VERSION

    assert {path.parent.name for path in DATA.glob("v*/*.ashore")} == {
        f"v{version}" for version in range(1, SCHEMA_VERSION + 1)
    }


def test_nothing_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="there is no package here"):
        read(tmp_path / "nothing")
    with pytest.raises(PackageError, match=r"there is no manifest\.json here"):
        read(tmp_path)


def test_a_missing_file_is_named(sum_package: Package) -> None:
    (sum_package.path / "golden.safetensors").unlink()
    with pytest.raises(PackageError, match=r"golden\.safetensors is missing"):
        read(sum_package.path)


def test_a_file_nobody_listed_is_named(sum_package: Package) -> None:
    (sum_package.path / "artifacts" / "extra.onnx").write_bytes(b"")
    with pytest.raises(PackageError, match=r"artifacts/extra\.onnx is not listed"):
        read(sum_package.path)


def test_a_wrong_length_is_named(sum_package: Package) -> None:
    path = sum_package.path / "artifacts" / "policy.onnx"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(PackageError, match=r"artifacts/policy\.onnx: expected \d+ bytes, got \d+"):
        read(sum_package.path)


def test_a_damaged_file_is_named(sum_package: Package) -> None:
    path = sum_package.path / "artifacts" / "policy.onnx"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PackageError, match=r"artifacts/policy\.onnx is damaged: its sha256 is"):
        read(sum_package.path)


def test_a_file_changed_after_opening_is_not_used(sum_package: Package) -> None:
    path = sum_package.path / "artifacts" / "policy.onnx"
    path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(PackageError, match="changed after the package was opened; open it again"):
        sum_package.read("artifacts/policy.onnx")


def test_a_manifest_changed_after_opening_is_not_packed(sum_package: Package, tmp_path: Path) -> None:
    support.edit_manifest(sum_package.path, lambda document: document.update(version="2"))
    with pytest.raises(PackageError, match=r"manifest\.json changed after the package was opened"):
        pack(sum_package, tmp_path / "p.ashore")
    assert not (tmp_path / "p.ashore").exists()


def test_a_package_with_too_many_files_is_refused(sum_package: Package) -> None:
    for folder in range(3):
        (sum_package.path / f"f{folder}").mkdir()
        for number in range(1500):
            (sum_package.path / f"f{folder}" / f"{number}").touch()
    with pytest.raises(PackageError, match="more than 4096 files"):
        read(sum_package.path)


def test_a_package_with_too_many_folders_is_refused(sum_package: Package) -> None:
    for number in range(9000):
        (sum_package.path / f"f{number}").mkdir()
    with pytest.raises(PackageError, match="more than 4096 files"):
        read(sum_package.path)


def test_a_file_the_package_does_not_have_is_refused(sum_package: Package) -> None:
    with pytest.raises(PackageError, match="has no file '../secret'"):
        sum_package.read("../secret")


def test_a_package_without_states_or_golden_reads(tmp_path: Path) -> None:
    from ashore.package import write
    from ashore.spec import Artifact, Port, single_stage

    port = Port(dtype="float32", shape=(1, 3))
    manifest = single_stage(
        "plain", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")}
    )
    package = write(tmp_path / "p", manifest, files={"a.onnx": b"x"})
    assert package.golden() is None
    assert package.initial_state() == {}


def test_a_packed_package_reads_the_same(sum_package: Package, tmp_path: Path) -> None:
    packed = pack(sum_package, tmp_path / "p.ashore")
    assert packed.size == sum_package.size
    for path in sum_package.manifest.files:
        assert packed.read(path) == sum_package.read(path)


def test_a_package_reached_through_a_link_reads(sum_package: Package, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(sum_package.path)
    assert read(tmp_path / "current").manifest == sum_package.manifest


def test_a_changed_manifest_says_how_to_change_it_properly(sum_package: Package) -> None:
    support.edit_manifest(sum_package.path, lambda document: document.update(version="2"), reseal=False)
    with pytest.raises(PackageError, match="changed after the package was written"):
        read(sum_package.path)
