"""`ashore compile`: what is in the folder, and what is never lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ashore.cli.main import main
from ashore.package import Package, pack, read


def ashore(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["ashore", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    out, errors = capsys.readouterr()
    return code, out, errors


Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("target", ["host", "generic"])
def test_sources_and_libraries_are_written(arm_package: Package, tmp_path: Path, capsys: Capture, target: str) -> None:
    code, out, _ = ashore(capsys, "compile", arm_package.path, "--target", target, "--out", tmp_path / "out", "--json")
    told = json.loads(out)
    assert code == 0
    assert sorted(told["files"]) == sorted(path.name for path in (tmp_path / "out").iterdir())
    assert {"ashore.h", "policy.h", "policy.c", "libashore_arm.so", "libashore_arm.a", "compiled.json"} <= {
        *told["files"]
    }
    assert told["states_bytes"] == 24
    assert told["policy_bytes"] >= told["states_bytes"]
    assert ("-march=native" in told["compiler"]) == (target == "host")
    note = json.loads((tmp_path / "out" / "compiled.json").read_text())
    assert (note["package"], note["manifest_sha256"]) == ("arm", arm_package.manifest.manifest_sha256)


PROGRAM = r"""
#include <stdio.h>
#include "policy.h"

int main(void)
{
    static ashore_arm policy;
    ashore_arm_step_in in = {{1.0f, 2.0f}};
    ashore_arm_step_out out;
    ashore_arm_reset(&policy);
    if (ashore_arm_step(&policy, &in, &out) != ASHORE_OK) return 1;
    printf("%g %g\n", out.action[0], out.action[1]);
    return 0;
}
"""


@pytest.mark.parametrize("library", ["libashore_arm.a", "libashore_arm.so"])
def test_a_program_is_linked_with_either_library(
    arm_package: Package, tmp_path: Path, capsys: Capture, library: str
) -> None:
    out = tmp_path / "out"
    assert ashore(capsys, "compile", arm_package.path, "--out", out)[0] == 0
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run(["cc", "-I", out, "main.c", out / library, "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert done.stdout == "2.125 3.875\n"


def test_the_same_package_gives_the_same_bytes(arm_package: Package, tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        assert ashore(capsys, "compile", arm_package.path, "--out", tmp_path / name)[0] == 0
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert first == second


def test_a_table_says_what_was_made(arm_package: Package, capsys: Capture) -> None:
    code, out, _ = ashore(capsys, "compile", arm_package.path)
    assert code == 0
    assert out.startswith(f"{arm_package.path}-c: arm, compiled for 'host'\n")
    for row in (
        "policy.c",
        "libashore_arm.so",
        "operations",
        "weights, bytes",
        "states, bytes",
        "struct of the policy",
    ):
        assert row in out
    packed = pack(read(arm_package.path), arm_package.path.with_name("one.ashore"))
    assert ashore(capsys, "compile", packed.path)[1].startswith(f"{packed.path.with_name('one-c')}: arm")


def test_microcontrollers_get_sources(arm_package: Package, tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = ashore(
        capsys, "compile", arm_package.path, "--target", "cortex-m", "--out", tmp_path / "o", "--json"
    )
    assert code == 0
    assert {"ashore.h", "policy.h", "policy.c"} <= json.loads(out)["files"].keys()


# --- nothing is lost -------------------------------------------------------------------------------------------------


def test_an_older_compilation_is_replaced_and_nothing_else(
    arm_package: Package, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    for target in ("host", "cortex-m"):
        assert ashore(capsys, "compile", arm_package.path, "--out", out, "--target", target)[0] == 0
    assert not (out / "libashore_arm.so").exists()
    (out / "mine.c").write_text("my own work")
    code, _, errors = ashore(capsys, "compile", arm_package.path, "--out", out)
    assert (code, "out: is there already; remove it or choose another place" in errors) == (3, True)
    assert (out / "mine.c").read_text() == "my own work"
    (out / "mine.c").unlink()
    (out / "compiled.json").write_text("{}")
    assert ashore(capsys, "compile", arm_package.path, "--out", out)[0] == 3


@pytest.mark.parametrize("what", ["file", "folder", "link", "package"])
def test_what_is_in_the_way_stays(arm_package: Package, tmp_path: Path, capsys: Capture, what: str) -> None:
    out = tmp_path / "out"
    if what == "file":
        out.write_text("x")
    elif what == "folder":
        out.mkdir()
        (out / "x").touch()
    elif what == "link":
        (tmp_path / "real").mkdir()
        out.symlink_to(tmp_path / "real")
    else:
        out = arm_package.path / "c"
    code, _, errors = ashore(capsys, "compile", arm_package.path, "--out", out)
    assert code == 3
    assert any(words in errors for words in ("is there already", "is a link", "lies in the package")), errors
    assert read(arm_package.path).manifest.name == "arm"


def test_a_compilation_that_fails_leaves_what_was_there(
    arm_package: Package, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert ashore(capsys, "compile", arm_package.path, "--out", out)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for variable in ("CC", "AR"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "/nonexistent/tool")
            code, _, errors = ashore(capsys, "compile", arm_package.path, "--out", out)
        assert code == 3
        assert "/nonexistent/tool" in errors
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arm", "out"]


# --- what the system has to have --------------------------------------------------------------------------------------

CHECK = Path(__file__).parents[2] / "tools" / "setup_system.sh"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    assert subprocess.run([bash, CHECK, "--check"]).returncode == 0
    for name in ("gcc", "arm-none-eabi-gcc", "ar", "g++", "make", "cmake", "chromium", "chromedriver"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [bash, CHECK, "--check"], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("these are missing: clang qemu-system-arm; run make setup-system, or apt-get install")
