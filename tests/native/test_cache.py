"""The cache of compiled policies: what is found there is checked before it is opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ashore
import support
from ashore.backends.c import loading
from ashore.backends.cache import LIBRARIES, SEAL
from ashore.errors import BackendError
from ashore.package import Package
from native import handmade
from native.conftest import Use

pytestmark = pytest.mark.usefixtures("generated")
Q = {"q": support.f32(1, 2)}


def load(package: Package) -> None:
    ashore.load(package, backend="c").step(Q)


def entry_of(cache: Path) -> Path:
    (entry,) = cache.iterdir()
    return entry


def test_what_was_compiled_is_not_compiled_again(
    arm_package: Package, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(arm_package)
    monkeypatch.setattr(loading, "link_library", None)
    monkeypatch.setattr("ashore.backends.c.generate", None, raising=False)
    load(arm_package)
    assert sorted(path.name for path in entry_of(fresh_cache).iterdir()) == ["policy.so", SEAL]
    assert entry_of(fresh_cache).name.startswith("arm-")


@pytest.mark.parametrize("change", ["package", "batch", "compiler", "generator", "version"])
def test_anything_that_decides_the_library_gets_one_of_its_own(
    tmp_path: Path, arm_package: Package, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    keys = [loading._key(arm_package.manifest, 1, loading.find_compiler(loading.LIBRARY_FLAGS))]
    batch, flags, manifest = 1, loading.LIBRARY_FLAGS, arm_package.manifest
    if change == "package":
        manifest = support.write_arm(tmp_path / "other", version="2").manifest
    elif change == "batch":
        batch = 2
    elif change == "compiler":
        flags = (*flags, "-DX")
    elif change == "generator":
        monkeypatch.setattr(loading, "digest_of_sources", lambda *_: "another")
    else:
        monkeypatch.setattr(loading, "__version__", "another")
    keys.append(loading._key(manifest, batch, loading.find_compiler(flags)))
    assert keys[0] != keys[1]


def test_compilers_and_machines_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    identities = set()
    for compiler in ("gcc", "clang"):
        monkeypatch.setenv("CC", compiler)
        for native in ((), ("-march=native",), ("-march=x86-64-v3",)):
            identities.add(loading.find_compiler(loading.LIBRARY_FLAGS, native).identity)
    assert len(identities) == 6


def test_flags_that_the_compiler_does_not_know_for_this_machine_are_left_out() -> None:
    assert loading.find_compiler(("-O2",), ("-march=pdp11",)).flags == ("-O2",)


# --- where it is -----------------------------------------------------------------------------------------------------


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASHORE_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert LIBRARIES.folder == tmp_path / "own" / "c"
    monkeypatch.delenv("ASHORE_CACHE")
    assert LIBRARIES.folder == tmp_path / "xdg" / "ashore" / "c"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert LIBRARIES.folder == tmp_path / "home" / ".cache" / "ashore" / "c"


def test_a_cache_that_cannot_be_written_says_what_to_do(
    arm_package: Package, fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("ASHORE_CACHE", str(blocked))
    with pytest.raises(BackendError, match=r"file/c: what is compiled cannot be kept there: .*; set ASHORE_CACHE to a"):
        load(arm_package)
    monkeypatch.setenv("ASHORE_CACHE", "/proc/nowhere")
    with pytest.raises(
        BackendError, match=r"/proc/nowhere/c: what is compiled cannot be kept there: .*set ASHORE_CACHE"
    ):
        load(arm_package)


def test_a_failed_compilation_leaves_nothing(arm_package: Package, fresh_cache: Path, generated: Use) -> None:
    generated(handmade.arm("/* here */", "this is no C;"))
    with pytest.raises(BackendError, match=r"(?s)arm: cc cannot compile it \(exit status 1\):.*policy.c:.*error:"):
        load(arm_package)
    assert list(fresh_cache.iterdir()) == []


# --- what is in it ---------------------------------------------------------------------------------------------------


@pytest.fixture
def entry(arm_package: Package, fresh_cache: Path) -> Path:
    """What the cache holds of the package."""
    load(arm_package)
    return entry_of(fresh_cache)


def poison(entry: Path, file: str, data: bytes) -> None:
    (entry / file).unlink()
    (entry / file).write_bytes(data)
    (entry / file).chmod(0o500)


OTHERS = [b"", b"#!/bin/sh\n", b"\x7fELF and more"]


@pytest.mark.parametrize("data", OTHERS)
def test_a_library_with_other_bytes_is_not_opened(arm_package: Package, entry: Path, data: bytes) -> None:
    poison(entry, "policy.so", data)
    with pytest.raises(
        BackendError,
        match=r"policy\.so: is not the library that was compiled: its sha256 is \w{12}…, and seal\.json says \w{12}…; "
        r"it was changed, and is not opened; remove .*/arm-\w+, and it is compiled again",
    ):
        load(arm_package)
    assert (entry / "policy.so").read_bytes() == data, "nothing is mended in silence"
    shutil.rmtree(entry)
    load(arm_package)


def test_one_flipped_bit_is_seen(arm_package: Package, entry: Path) -> None:
    data = bytearray((entry / "policy.so").read_bytes())
    data[len(data) // 2] ^= 1
    poison(entry, "policy.so", bytes(data))
    with pytest.raises(BackendError, match="is not the library that was compiled"):
        load(arm_package)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"key": 1, "sha256": "", "size": 0, "notes": {}}', b"\xff" * 99]
)
def test_a_damaged_seal_is_not_believed(arm_package: Package, entry: Path, data: bytes) -> None:
    poison(entry, SEAL, data)
    with pytest.raises(BackendError, match=r"seal\.json: is damaged, so nobody knows what lies beside it: .*; remove"):
        load(arm_package)


def test_library_and_seal_of_another_policy_are_not_opened(
    arm_package: Package, entry: Path, tmp_path: Path, generated: Use
) -> None:
    """Both files fit each other, and are not what belongs here."""
    generated(handmade.arm("* 2.0f", "* 3.0f"))
    load(support.write_arm(tmp_path / "other", version="2"))
    (other,) = set(entry.parent.iterdir()) - {entry}
    shutil.rmtree(entry)
    other.rename(entry)
    with pytest.raises(
        BackendError, match=r"seal\.json: belongs to another library than arm-\w+; somebody put it there"
    ):
        load(arm_package)


@pytest.mark.parametrize("file", ["policy.so", SEAL])
def test_a_file_that_is_missing_is_named(arm_package: Package, entry: Path, file: str) -> None:
    (entry / file).unlink()
    with pytest.raises(
        BackendError, match=rf"{file}: cannot be read from the cache: No such file or directory; remove"
    ):
        load(arm_package)


@pytest.mark.parametrize("what", ["policy.so", SEAL, "."])
def test_a_link_is_not_followed(arm_package: Package, entry: Path, tmp_path: Path, what: str) -> None:
    place = entry if what == "." else entry / what
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackendError, match=rf"{place}: expected a (plain file|folder) of the cache; remove"):
        load(arm_package)


@pytest.mark.parametrize("what", ["policy.so", SEAL, ".", ".."])
def test_what_others_may_write_to_is_not_opened(arm_package: Package, entry: Path, what: str) -> None:
    (entry / what).chmod(0o777)
    with pytest.raises(
        BackendError, match=r"can be written to by others \(mode 777\), and a library is code; use chmod"
    ):
        load(arm_package)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["policy.so", SEAL, ".", ".."])
def test_what_belongs_to_somebody_else_is_not_opened(arm_package: Package, entry: Path, what: str) -> None:
    os.chown(entry / what, 65534, 65534)
    with pytest.raises(
        BackendError, match=r"belongs to the user 65534, not to 0, and a library is code; set ASHORE_CACHE"
    ):
        load(arm_package)


# --- several at once -------------------------------------------------------------------------------------------------

FIRST = """
import importlib, sys, time
sys.path[:0] = sys.argv[2:]
import ashore, support
from native import handmade

importlib.import_module("ashore.backends.c").generate = lambda *_, **__: handmade.arm()
sys.stdin.read(1)
print(ashore.load(sys.argv[1], backend="c").step({"q": support.f32(1, 2)})["action"].tolist())
"""


def test_processes_that_load_at_once_do_not_disturb_each_other(arm_package: Package, fresh_cache: Path) -> None:
    paths = [str(Path(support.__file__).parent)]
    command = [sys.executable, "-c", FIRST, str(arm_package.path), *paths]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert (out, process.returncode) == ("[[2.125, 3.875]]\n", 0), errors
    assert sorted(path.name.partition("-")[0] for path in fresh_cache.iterdir()) == ["arm", "ashore_native"]


def test_another_process_that_was_faster_is_believed(
    arm_package: Package, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, folders = loading.link_library, []

    def slow(*arguments: object) -> None:
        link(*arguments)  # type: ignore[arg-type]
        if not folders:
            folders.append(fresh_cache)
            load(arm_package)

    monkeypatch.setattr(loading, "link_library", slow)
    load(arm_package)
    assert len(list(fresh_cache.iterdir())) == 1
