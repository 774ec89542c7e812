"""A compiled policy on a microcontroller: cross-compiled, weighed, and replayed on an emulated one.

Beside the policy go a start-up file, a linker script and two small programs: `firmware.c`, the loop that a robot's own
firmware has, and `replay.c`, which runs the golden rollout on the target and compares. QEMU runs the second without any
hardware; a debugger that knows semihosting runs it on a real board.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ashore.backends.c.project import fill, text
from ashore.errors import BackendError, VerificationError
from ashore.package import Array, Arrays, Golden, Package, Tick
from ashore.spec import BATCH, Manifest, Port, State, Wiring

COMPILER = "arm-none-eabi-gcc"
EMULATOR = "qemu-system-arm"
FOLDER = "cortex_m"
"""Where the programs go, beside the policy."""

MAX_GOLDEN_BYTES = 256 * 1024
"""So much of a golden rollout goes into the replay: it shares the flash with the policy."""

_TOLERANCE = 1e-5
"""Where the package has none of its own."""


@dataclass(frozen=True)
class Core:
    """A processor, and a machine that QEMU knows it in."""

    flags: tuple[str, ...]
    machine: str


CORES: Mapping[str, Core] = MappingProxyType(
    {
        "cortex-m4": Core(("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"), "mps2-an386"),
        "cortex-m7": Core(("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"), "mps2-an500"),
    }
)
"""Processors with a floating-point unit; without one, a policy is too slow to be of use."""

FLAGS = ("-std=c99", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffunction-sections", "-fdata-sections")
FLAGS += ("-fno-common", "-fno-exceptions", "-Wall", "-Wextra")


@dataclass(frozen=True)
class Footprint:
    """What a policy takes on a microcontroller, in bytes."""

    core: str
    compiler: str
    code_bytes: int
    """Machine code of the policy."""

    constants_bytes: int
    """Its weights and tables."""

    flash_bytes: int
    """All of `firmware.elf`: the policy, start-up, and what it takes of the C library."""

    policy_bytes: int
    """The policy's own struct: states, held values, scratch."""

    ram_bytes: int
    """All static memory of `firmware.elf`: the policy, its inputs and outputs. The stack is not in it."""


@dataclass(frozen=True)
class Replayed:
    """What the golden rollout came to on the target."""

    passed: bool
    ticks: int
    max_abs_error: float
    stack_bytes: int
    """The most that was used while running it."""

    printed: str


def add_programs(package: Package, name: str, folder: Path) -> dict[str, Any]:
    """Put the programs beside a compiled policy, build them, and prove on an emulated target what can be proven.

    Args:
        package: the package that was compiled.
        name: the policy as a C identifier.
        folder: with the files of the compiled policy.

    Returns:
        The figures of `Footprint` and, with an emulator and a golden rollout, of `Replayed`; ``replayed`` says in words
        what became of that.

    Raises:
        BackendError: there is no cross-compiler, or it refuses.
        VerificationError: on the target, the policy does not compute what was recorded.
    """
    for path, data in board_files(package, name).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(data)
    figures: dict[str, Any] = asdict(build(folder))
    for path in (folder / FOLDER).glob("*.o"):
        path.unlink()
    program = folder / FOLDER / "replay.elf"
    if not program.is_file():
        return {**figures, "replayed": "no: the package holds no golden rollout"}
    if shutil.which(EMULATOR) is None:
        return {**figures, "replayed": f"no: {EMULATOR} is not installed"}
    told = replay(folder)
    if not told.passed:
        raise VerificationError(f"cortex-m: on the target it does not compute what was recorded: {told.printed}")
    error = {"ticks": told.ticks, "max_abs_error": told.max_abs_error, "stack_bytes": told.stack_bytes}
    return {
        **figures,
        **error,
        "replayed": f"{told.ticks} ticks on an emulated target, largest error {told.max_abs_error:g}",
    }


def board_files(package: Package, name: str) -> dict[str, bytes]:
    """The programs around a compiled policy, by their paths in its folder.

    Args:
        package: the package that was compiled.
        name: the policy as a C identifier.
    """
    manifest = package.manifest
    substeps = any(stage.rate == "substep" for stage in manifest.stages.values())
    policy = f"ashore_{name}"
    declared = f"static {policy}_substep_in substep_in;\nstatic {policy}_substep_out substep_out;\n"
    called = (
        "        for (int tick = 0; tick < @POLICY@_contract.decimation; ++tick) { /* every physics_dt_s */\n"
        "            if (@POLICY@_substep(&policy, &substep_in, &substep_out) != ASHORE_OK) return 1;\n"
        "            /* send substep_out to the drives */\n"
        "        }\n"
    ).replace("@POLICY@", policy)
    values = {"POLICY": policy, "DECLARE_SUBSTEP": declared * substeps, "CALL_SUBSTEP": called * substeps}
    made = {one: text(f"cortex_m/{one}") for one in ("startup.c", "board.h", "board.ld")}
    made["firmware.c"] = fill(text("cortex_m/firmware.c"), values)
    golden = package.golden()
    if golden is not None:
        made["golden.h"] = text("cortex_m/golden.h")
        made["golden.c"] = _golden_source(manifest, golden)
        made["replay.c"] = fill(text("cortex_m/replay.c"), values)
    return {f"{FOLDER}/{path}": content.encode() for path, content in made.items()}


def build(folder: Path, *, core: str = "cortex-m4") -> Footprint:
    """Compile what lies in a folder: ``policy.o``, ``firmware.elf`` and, with a golden rollout, ``replay.elf``.

    Args:
        folder: with the compiled policy, and with what `board_files` gave.
        core: one of `CORES`.

    Raises:
        BackendError: there is no cross-compiler, or it refuses.
    """
    if core not in CORES:
        raise BackendError(f"cortex-m: there is no core {core!r}; expected one of {', '.join(CORES)}")
    if shutil.which(COMPILER) is None:
        raise BackendError(
            f"cortex-m: {COMPILER} is not installed, or not on the PATH; "
            f"on Debian: apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"
        )
    out, flags = folder / FOLDER, (*CORES[core].flags, *FLAGS, f"-I{folder}", f"-I{folder / FOLDER}")
    objects = [
        _compile(source, out / f"{source.stem}.o", flags)
        for source in sorted((*folder.glob("*.c"), *folder.glob("*.S")))
    ]
    startup = _compile(out / "startup.c", out / "startup.o", flags)
    for program, extra in (("firmware", ()), ("replay", ("golden",))):
        if (out / f"{program}.c").is_file():
            parts = [_compile(out / f"{one}.c", out / f"{one}.o", flags) for one in (program, *extra)]
            _link(out / f"{program}.elf", (*parts, startup, *objects), core, out / "board.ld")
    sections = [_sections(one) for one in objects]
    changing = sum(_sum(one, ".data", ".bss") for one in sections)
    if changing:
        raise BackendError(f"cortex-m: the policy has {changing} bytes of globals that change; it should have none")
    image = _sections(out / "firmware.elf")
    return Footprint(
        core=core,
        compiler=_run((COMPILER, "--version")).splitlines()[0],
        code_bytes=sum(_sum(one, ".text") for one in sections),
        constants_bytes=sum(_sum(one, ".rodata") for one in sections),
        flash_bytes=_sum(image, ".text", ".ARM", ".data"),
        policy_bytes=_size_of(out / "firmware.elf", "policy"),
        ram_bytes=_sum(image, ".data", ".bss"),
    )


def replay(folder: Path, *, core: str = "cortex-m4", timeout_s: float = 300.0) -> Replayed:
    """Run the golden rollout on an emulated processor.

    Args:
        folder: what `build` has built in.
        core: what it was built for.
        timeout_s: the longest that it may take.

    Raises:
        VerificationError: the package has no golden rollout.
        BackendError: there is no emulator, or the program did not end.
    """
    program = folder / FOLDER / "replay.elf"
    if not program.is_file():
        raise VerificationError(f"{program}: there is none; the package holds no golden rollout")
    if shutil.which(EMULATOR) is None:
        raise BackendError(f"cortex-m: {EMULATOR} is not installed; on Debian: apt install qemu-system-arm")
    try:
        done = subprocess.run(
            emulation(program, core), capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"cortex-m: the replay did not end within {timeout_s:g} s") from error
    printed = (done.stderr + done.stdout).strip()  # what is printed by semihosting goes to the error stream
    told = re.search(r"(passed|FAILED): (\d+) ticks, largest error (\S+)(?: in \S+)?, stack (\d+) bytes", printed)
    if told is None:
        raise BackendError(
            f"cortex-m: the replay broke off with {done.returncode}: {printed[-500:] or 'it said nothing'}"
        )
    passed = told[1] == "passed" and done.returncode == 0
    return Replayed(passed, int(told[2]), float(told[3]), int(told[4]), printed)


def emulation(program: Path, core: str) -> tuple[str, ...]:
    """The command that runs a program on an emulated processor."""
    machine = CORES[core].machine
    return (
        EMULATOR,
        "-M",
        machine,
        "-nographic",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-semihosting",
        "-kernel",
        str(program),
    )


def _compile(source: Path, out: Path, flags: Sequence[str]) -> Path:
    _run((COMPILER, *flags, "-c", str(source), "-o", str(out)))
    return out


def _link(out: Path, objects: Sequence[Path], core: str, script: Path) -> None:
    flags = (*CORES[core].flags, "--specs=nano.specs", "-nostartfiles", "-Wl,--gc-sections", f"-Wl,-T,{script}")
    _run((COMPILER, *flags, *map(str, objects), "-lm", "-o", str(out)))


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BackendError(f"cortex-m: {' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def _sections(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _run(("arm-none-eabi-size", "-A", str(path))).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}


def _sum(sections: Mapping[str, int], *prefixes: str) -> int:
    return sum(size for name, size in sections.items() if name.startswith(prefixes))


def _size_of(program: Path, symbol: str) -> int:
    found = re.search(
        rf"^[0-9a-f]+ ([0-9a-f]+) [bBdD] {symbol}$", _run(("arm-none-eabi-nm", "-S", str(program))), re.MULTILINE
    )
    if found is None:
        raise BackendError(f"cortex-m: {program} has no {symbol!r}")
    return int(found[1], 16)


# --- the golden rollout as C -----------------------------------------------------------------------------------------


def _golden_source(manifest: Manifest, golden: Golden) -> str:
    wiring, ticks, calls, size = Wiring(manifest), list[bytes](), list[int](), 0
    for tick in golden.ticks:
        values = _tick_bytes(manifest, wiring, tick)
        if size + len(values) > MAX_GOLDEN_BYTES and ticks:
            break
        ticks.append(values)
        calls.append((tick.rate == "substep") + 2 * tick.reset)
        size += len(values)
    proof = manifest.verification
    atol, rtol = (
        one if one is not None else _TOLERANCE for one in ((proof.atol, proof.rtol) if proof else (None, None))
    )
    return "\n".join(
        [
            '#include "golden.h"',
            "",
            f'const char golden_digest[] = "{manifest.manifest_sha256}";',
            f"const unsigned long golden_ticks = {len(ticks)};",
            f"const double golden_atol = {atol!r}, golden_rtol = {rtol!r};",
            f"const unsigned long golden_size = {size};",
            f"const unsigned char golden_calls[] = {_bytes(bytes(calls))};",
            f"const unsigned char golden_values[] = {_bytes(b''.join(ticks))};",
            "",
        ]
    )


def _tick_bytes(manifest: Manifest, wiring: Wiring, tick: Tick) -> bytes:
    """Inputs, outputs and states of a tick, in the order of the contract; of a batch, the first row."""
    groups: tuple[tuple[Sequence[str], Arrays, Mapping[str, Port | State]], ...] = (
        (wiring.inputs_of(tick.rate), tick.inputs, manifest.inputs),
        (wiring.outputs_of(tick.rate), tick.outputs, manifest.outputs),
        (tuple(manifest.states), tick.states, manifest.states),
    )
    return b"".join(
        _first_row(arrays[name], known[name]).tobytes() for names, arrays, known in groups for name in names
    )


def _first_row(value: Array, port: Port | State) -> Array:
    return np.take(value, [0], axis=port.shape.index(BATCH)) if BATCH in port.shape else value


def _bytes(values: bytes) -> str:
    rows = (values[at : at + 24] for at in range(0, len(values), 24))
    return "{\n" + "".join(f"    {''.join(f'{one},' for one in row)}\n" for row in rows) + "}"
