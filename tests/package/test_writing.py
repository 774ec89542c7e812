from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

import support
from ashore.errors import ManifestError, PackageError
from ashore.package import pack, read, unpack, write, writing


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_package_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    package = support.write_arm(tmp_path / "arm")
    again = read(tmp_path / "arm")
    assert again.manifest == package.manifest
    assert sorted(tree(tmp_path / "arm")) == [
        "artifacts/act.onnx",
        "artifacts/decide.onnx",
        "golden.safetensors",
        "manifest.json",
        "state.safetensors",
    ]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        support.write_arm(tmp_path / name)
        support.write_arm(tmp_path / f"{name}.ashore")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert (tmp_path / "one.ashore").read_bytes() == (tmp_path / "two.ashore").read_bytes()


def test_an_existing_package_is_replaced(tmp_path: Path) -> None:
    support.write_arm(tmp_path / "p")
    support.write_sum(tmp_path / "p")
    assert read(tmp_path / "p").manifest.name == "sum"
    assert [path.name for path in tmp_path.iterdir()] == ["p"], "nothing is left beside it"


@pytest.mark.parametrize("suffix", ["", ".ashore"])
def test_a_failed_write_leaves_the_old_package_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    target = tmp_path / f"p{suffix}"
    support.write_arm(target)
    real, calls = os.fsync, []

    def fail(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 1 + (suffix == ""):
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(writing.os, "fsync", fail)
    with pytest.raises(PackageError, match="cannot be written: No space left on device"):
        support.write_sum(target)
    monkeypatch.undo()
    assert read(target).manifest.name == "arm"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_an_interrupt_between_the_two_renames_keeps_the_old_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    support.write_arm(tmp_path / "p")
    real, calls = os.rename, []

    def interrupt(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(writing.os, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        support.write_sum(tmp_path / "p")
    monkeypatch.undo()
    assert read(tmp_path / "p").manifest.name == "arm"
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize("suffix", ["", ".ashore"])
def test_what_could_not_be_read_back_never_takes_the_place_of_a_good_package(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / f"p{suffix}"
    support.write_arm(target)
    name = "_write_archive" if suffix else "_write_directory"
    place = getattr(writing, name)

    def damaged(where: Path, contents: Mapping[str, bytes]) -> None:
        place(where, {**contents, "artifacts/policy.onnx": b"not what was asked for"})

    monkeypatch.setattr(writing, name, damaged)
    with pytest.raises(PackageError, match=r"artifacts/policy\.onnx: .* bytes"):
        support.write_sum(target)
    assert read(target).manifest.name == "arm"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("suffix", ["", ".ashore"])
@pytest.mark.parametrize("count", [4093, 4094])
def test_too_many_files_are_refused_before_one_is_written(
    tmp_path: Path, suffix: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4096 files are allowed: here the manifest, the initial states, the golden rollout, the policy, and the others."""
    written: list[str] = []
    for name in ("_write_archive", "_write_directory"):
        monkeypatch.setattr(writing, name, lambda where, contents: written.append(str(where)))
    contents = support.sum_contents()
    files = {**contents["files"], **{f"extra/{number}": b"" for number in range(count - 1)}}
    wrong = "more than 4096 files" if count == 4094 else "there is no"
    with pytest.raises(PackageError, match=wrong):
        write(tmp_path / f"p{suffix}", support.sum_manifest(), **{**contents, "files": files})
    assert bool(written) is (count == 4093)
    assert not list(tmp_path.iterdir())


def test_everything_is_flushed_to_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(handle: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real_sync(handle)

    def replace(source: Path, target: Path) -> None:
        events.append("in place")
        real_replace(source, target)

    monkeypatch.setattr(writing.os, "fsync", sync)
    monkeypatch.setattr(writing.os, "replace", replace)
    support.write_sum(tmp_path / "p")
    before, after = events[: events.index("in place")], events[events.index("in place") :]
    files = {"policy.onnx", "state.safetensors", "golden.safetensors", "manifest.json"}
    assert {*files, "artifacts", "new"} <= set(before)
    assert after == ["in place", tmp_path.name]


def test_packing_keeps_the_bytes_of_the_manifest(tmp_path: Path) -> None:
    """Whoever compares the seal of a packed package with that of its directory finds them equal."""
    package = support.write_arm(tmp_path / "arm")
    packed = pack(package, tmp_path / "arm.ashore")
    assert packed.read("manifest.json") == package.read("manifest.json")


def test_a_directory_that_is_no_package_is_never_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    (home / "manifest.json").write_text('{"format": "policy_package"}')
    with pytest.raises(PackageError, match="is there already and is not a package"):
        support.write_sum(home)
    assert (home / "thesis.tex").read_text() == "years of work"


def test_a_file_that_is_no_package_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.ashore").write_text("my notes")
    with pytest.raises(PackageError, match="is there already and is not a package"):
        support.write_sum(tmp_path / "notes.ashore")
    assert (tmp_path / "notes.ashore").read_text() == "my notes"


@pytest.mark.parametrize("inner", ["inner", "artifacts/inner", "inner.ashore"])
def test_nothing_is_written_into_a_package(tmp_path: Path, inner: str) -> None:
    package = support.write_arm(tmp_path / "arm")
    with pytest.raises(PackageError, match="lies in the package .*, which holds nothing but its own files"):
        support.write_sum(package.path / inner)
    read(package.path)


@pytest.mark.parametrize("target", ["a" * 300, "a\0b"])
def test_an_impossible_path_is_one_clear_error(tmp_path: Path, target: str) -> None:
    with pytest.raises(PackageError, match="cannot be written: File name too long|cannot be a path"):
        support.write_sum(tmp_path / target)


def test_an_empty_directory_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    assert support.write_sum(tmp_path / "p").manifest.name == "sum"


def test_directory_and_file_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("a file")
    with pytest.raises(PackageError, match="is there already, as a file"):
        support.write_sum(tmp_path / "p")
    (tmp_path / "q.ashore").mkdir()
    with pytest.raises(PackageError, match="is there already, as a directory"):
        support.write_sum(tmp_path / "q.ashore")


def test_a_link_is_not_followed_when_writing(tmp_path: Path) -> None:
    support.write_sum(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PackageError, match="is a link"):
        support.write_arm(tmp_path / "link")


def test_missing_folders_are_made(tmp_path: Path) -> None:
    assert support.write_sum(tmp_path / "a" / "b" / "p").manifest.name == "sum"


def test_what_cannot_be_checked_is_not_written(tmp_path: Path) -> None:
    contents = support.sum_contents()
    manifest = support.sum_manifest()
    with pytest.raises(ManifestError, match=r"stages\.policy\.artifacts\.onnx: 'artifacts/policy.onnx' does not exist"):
        write(tmp_path / "p", manifest, files={"other.bin": b""}, initial=contents["initial"])
    with pytest.raises(PackageError, match=r"state.safetensors: expected the states \['h'\], got \[\]"):
        write(tmp_path / "p", manifest, files=contents["files"])
    with pytest.raises(PackageError, match=r"h: expected shape \[1, 3\], got \[1, 2\]"):
        write(tmp_path / "p", manifest, files=contents["files"], initial={"h": np.zeros((1, 2), np.float32)})
    with pytest.raises(PackageError, match="h: expected dtype float32, got float64"):
        write(tmp_path / "p", manifest, files=contents["files"], initial={"h": np.zeros((1, 3))})
    with pytest.raises(PackageError, match="h: holds NaN or an infinity"):
        write(tmp_path / "p", manifest, files=contents["files"], initial={"h": support.f32(1, 2, np.nan)})
    for strange in ({"q": "text"}, {"q": memoryview(b"x")}, {5: b"x"}):
        with pytest.raises(PackageError, match="files: expected paths and bytes"):
            write(tmp_path / "p", manifest, **{**contents, "files": {**contents["files"], **strange}})
    for strange in ([[1, 2, 3]], np.ma.masked_array(support.f32(1, 2, 3), [[0, 1, 0]])):
        with pytest.raises(PackageError, match="h: expected a plain numpy array, got (list|MaskedArray)"):
            write(tmp_path / "p", manifest, **{**contents, "initial": {"h": strange}})
    with pytest.raises(PackageError, match=r"'golden\.safetensors' is written by Ashore itself"):
        write(tmp_path / "p", manifest, **{**contents, "files": {**contents["files"], "golden.safetensors": b""}})
    with pytest.raises(ManifestError, match=r"files\['\.\./p'\]: a path has no empty"):
        write(tmp_path / "p", manifest, **{**contents, "files": {**contents["files"], "../p": b""}})
    assert list(tmp_path.iterdir()) == []


def test_pack_and_unpack_come_back_to_the_same_files(tmp_path: Path) -> None:
    package = support.write_arm(tmp_path / "arm")
    packed = pack(package, tmp_path / "arm.ashore")
    unpack(packed, tmp_path / "again")
    assert packed.manifest == package.manifest
    assert tree(tmp_path / "again") == tree(tmp_path / "arm")


def test_an_archive_is_not_compressed(tmp_path: Path) -> None:
    big = msgspec.structs.replace(support.sum_manifest(), description="x" * 10_000)
    package = write(tmp_path / "p", big, **support.sum_contents())
    assert pack(package, tmp_path / "p.ashore").path.stat().st_size > package.size + 10_000


def test_the_suffix_says_what_is_written(tmp_path: Path) -> None:
    package = support.write_sum(tmp_path / "p")
    with pytest.raises(PackageError, match=r"a packed package ends in \.ashore"):
        pack(package, tmp_path / "p.zip")
    with pytest.raises(PackageError, match="an unpacked package is a directory"):
        unpack(package, tmp_path / "q.ashore")


def test_an_unwritable_place_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PackageError, match="cannot be written: "):
        support.write_sum(tmp_path / "file" / "p")
