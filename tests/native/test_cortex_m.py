"""A policy on a microcontroller: cross-compiled, weighed, and its golden rollout run by an emulated processor."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import graphs
import support
from ashore.backends.c import cortex_m, generate
from ashore.errors import BackendError, VerificationError
from ashore.package import Package
from native.builds import STRICT, attempt, call, need, write_files
from native.limbs import write_limb

TOOLS = (cortex_m.COMPILER, cortex_m.EMULATOR)


def write_board(package: Package, out: Path) -> str:
    source = generate(package, target="cortex-m")
    write_files(out, {**source.files, **cortex_m.board_files(package, source.name)})
    return source.name


@pytest.fixture(scope="module")
def limb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(*TOOLS)
    folder = tmp_path_factory.mktemp("limb")
    write_board(write_limb(folder / "package"), folder / "c")
    return folder / "c"


@pytest.mark.parametrize("core", cortex_m.CORES)
def test_the_golden_rollout_passes_on_the_target(core: str, limb: Path) -> None:
    footprint = cortex_m.build(limb, core=core)
    assert footprint.core == core
    assert 0 < footprint.code_bytes < footprint.flash_bytes < 64 * 1024
    assert footprint.constants_bytes > 88  # the weights alone
    assert 8 <= footprint.policy_bytes < footprint.ram_bytes < 4096
    replayed = cortex_m.replay(limb, core=core)
    assert replayed.passed, replayed.printed
    assert replayed.ticks == 30
    assert replayed.max_abs_error < 1e-6
    assert 0 < replayed.stack_bytes < 4096


OTHERS: dict[str, Callable[[Path], Package]] = {
    "arm": support.write_arm,  # a state of whole numbers that is kept over a reset
    "sum": support.write_sum,  # no substeps
    "lstm": lambda out: graphs.write_subject(graphs.lstm(12, 16, 4), out),
    "pipeline": lambda out: graphs.write_subject(graphs.pipeline(), out),
    "wide": lambda out: graphs.write_subject(graphs.mlp(300, 900, 4), out, ticks=3),  # weights in a file of their own
}


@pytest.mark.parametrize("which", OTHERS)
def test_other_packages_pass_too(which: str, tmp_path: Path) -> None:
    package = OTHERS[which](tmp_path / "package")
    write_board(package, tmp_path / "c")
    cortex_m.build(tmp_path / "c")
    replayed = cortex_m.replay(tmp_path / "c")
    assert replayed.passed, replayed.printed
    golden = package.golden()
    assert golden is not None
    assert replayed.ticks == len(golden.ticks)


@pytest.mark.parametrize("byte", [31, -1])
def test_a_rollout_that_differs_fails(byte: int, tmp_path: Path) -> None:
    """Of an input in the first case, which what follows from it does not fit; of a state in the last tick otherwise."""
    write_board(write_limb(tmp_path / "package"), tmp_path / "c")
    golden = tmp_path / "c" / "cortex_m" / "golden.c"
    head, values = golden.read_text().split("golden_values[] = {\n")
    numbers = values.removesuffix("};\n").replace("\n", "").replace(" ", "").strip(",").split(",")
    numbers[byte] = str(int(numbers[byte]) ^ 1)
    golden.write_text(f"{head}golden_values[] = {{\n{','.join(numbers)}}};\n")
    cortex_m.build(tmp_path / "c")
    replayed = cortex_m.replay(tmp_path / "c")
    assert not replayed.passed
    assert replayed.max_abs_error > 1e-2
    assert replayed.printed.startswith("FAILED: 30 ticks")


def test_the_rollout_of_another_package_is_refused(limb: Path, tmp_path: Path) -> None:
    write_board(write_limb(tmp_path / "package", recorded=3), tmp_path / "c")
    golden = (limb / "cortex_m" / "golden.c").read_bytes()
    (tmp_path / "c" / "cortex_m" / "golden.c").write_bytes(golden)
    cortex_m.build(tmp_path / "c")
    with pytest.raises(BackendError, match="golden.c is of another package"):
        cortex_m.replay(tmp_path / "c")


def test_without_a_golden_rollout_it_is_weighed_and_not_replayed(tmp_path: Path) -> None:
    write_board(write_limb(tmp_path / "package", recorded=0), tmp_path / "c")
    assert cortex_m.build(tmp_path / "c").flash_bytes > 1000
    with pytest.raises(VerificationError, match="the package holds no golden rollout"):
        cortex_m.replay(tmp_path / "c")


def test_the_programs_compile_without_a_warning_and_without_a_heap(limb: Path, tmp_path: Path) -> None:
    flags = (*cortex_m.CORES["cortex-m4"].flags, *cortex_m.FLAGS, *STRICT, "-I", limb, "-I", limb / "cortex_m")
    for path in (*limb.glob("*.c"), *limb.glob("cortex_m/*.c")):
        call([cortex_m.COMPILER, *flags, "-c", path, "-o", tmp_path / "one.o"])
    cortex_m.build(limb)
    for program in ("firmware", "replay"):
        symbols = call(["arm-none-eabi-nm", limb / "cortex_m" / f"{program}.elf"])
        assert "on_reset" in symbols
        assert not {"malloc", "_malloc_r", "_sbrk", "printf"} & set(symbols.split())


def test_a_core_that_nobody_knows_is_refused(limb: Path) -> None:
    with pytest.raises(BackendError, match="there is no core 'cortex-m0'; expected one of cortex-m4, cortex-m7"):
        cortex_m.build(limb, core="cortex-m0")


def test_a_machine_without_the_tools_is_told_what_to_install(limb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cortex_m.build(limb)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackendError, match="apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"):
        cortex_m.build(limb)
    with pytest.raises(BackendError, match="apt install qemu-system-arm"):
        cortex_m.replay(limb)


def test_what_the_compiler_refuses_is_said(tmp_path: Path) -> None:
    write_board(write_limb(tmp_path / "package"), tmp_path / "c")
    (tmp_path / "c" / "policy.c").write_text("int broken(")
    with pytest.raises(BackendError, match=r"(?s)-c .*policy.c.* failed:.*expected"):
        cortex_m.build(tmp_path / "c")


def test_globals_that_change_are_refused(tmp_path: Path) -> None:
    write_board(write_limb(tmp_path / "package"), tmp_path / "c")
    with (tmp_path / "c" / "policy.c").open("a") as file:
        file.write("int counter[4];\n")
    with pytest.raises(BackendError, match="16 bytes of globals that change"):
        cortex_m.build(tmp_path / "c")


# --- from the command line --------------------------------------------------------------------------------------------


def compile_(package: Package, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return attempt(
        [sys.executable, "-m", "ashore", "compile", package.path, "--target", "cortex-m", "--out", out, *options]
    )


def test_the_command_reports_flash_and_ram_and_what_was_proven(tmp_path: Path) -> None:
    package = write_limb(tmp_path / "package")
    done = compile_(package, tmp_path / "c", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["core"] == "cortex-m4"
    assert told["code_bytes"] < told["flash_bytes"] < 64 * 1024
    assert told["policy_bytes"] < told["ram_bytes"] < 4096
    assert (told["ticks"], told["max_abs_error"] < 1e-6) == (30, True)
    for path in ("policy.c", "cortex_m/firmware.c", "cortex_m/firmware.elf", "cortex_m/replay.elf"):
        assert (tmp_path / "c" / path).stat().st_size == told["files"][path]
    again = compile_(package, tmp_path / "c")  # what was compiled may be compiled again
    assert again.returncode == 0, again.stderr
    assert re.search(rf"^flash of firmware.elf, bytes +{told['flash_bytes']:,}$", again.stdout, re.MULTILINE)
    assert re.search(
        rf"^RAM of firmware.elf without its stack, bytes +{told['ram_bytes']}$", again.stdout, re.MULTILINE
    )
    assert "golden rollout: 30 ticks on an emulated target, largest error " in again.stdout


def test_the_command_writes_nothing_if_the_rollout_fails_on_the_target(tmp_path: Path) -> None:
    done = compile_(write_limb(tmp_path / "package", off=0.5), tmp_path / "c")
    assert done.returncode == 3
    assert "on the target it does not compute what was recorded: FAILED: 30 ticks, largest error 5.0" in done.stderr
    assert not (tmp_path / "c").exists()


def test_the_command_says_what_is_not_proven(tmp_path: Path) -> None:
    done = compile_(write_limb(tmp_path / "package", recorded=0), tmp_path / "c")
    assert done.returncode == 0, done.stderr
    assert "golden rollout: no: the package holds no golden rollout" in done.stdout


def test_a_microcontroller_serves_one_robot(tmp_path: Path) -> None:
    done = compile_(support.write_batched(tmp_path / "package"), tmp_path / "c", "--batch", "2")
    assert done.returncode == 3
    assert "a microcontroller serves one robot, got 2" in done.stderr


def test_a_rollout_of_several_rows_is_replayed_for_the_first(tmp_path: Path) -> None:
    done = compile_(support.write_batched(tmp_path / "package", rows=3), tmp_path / "c", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ticks"] == 5
