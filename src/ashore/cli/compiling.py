"""``ashore compile``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ashore.backends.c.writing import Compiled, compile_package, is_compiled
from ashore.cli.output import console, print_json, table
from ashore.interop.folders import check_free, place_folder
from ashore.package import ARCHIVE_SUFFIX, read

_SPOKEN = {
    "operations": "operations",
    "weights_bytes": "weights, bytes",
    "states_bytes": "states, bytes",
    "scratch_bytes": "scratch, bytes",
    "policy_bytes": "struct of the policy, bytes",
    "code_bytes": "machine code, bytes",
    "constants_bytes": "weights and tables, bytes",
    "flash_bytes": "flash of firmware.elf, bytes",
    "ram_bytes": "RAM of firmware.elf without its stack, bytes",
    "stack_bytes": "stack of the replay, bytes",
}


def run(path: Path, out: Path | None, *, backend: str, target: str, batch: int, as_json: bool) -> None:
    """Compile the package at `path` into a folder, by default beside it."""
    path = path.resolve()
    out = out or path.with_name(f"{path.name.removesuffix(ARCHIVE_SUFFIX)}-{backend}")
    check_free(out, is_compiled)
    compiled = compile_package(read(path), target=target, batch=batch)
    place_folder(out, compiled.files, lambda _: None)
    figures = {**asdict(compiled.figures), **compiled.made}
    if as_json:
        sizes = {name: len(data) for name, data in compiled.files.items()}
        print_json(
            {"path": str(out), "name": compiled.name, "backend": backend, "target": target, "batch": batch,
             "files": sizes, **figures}
        )  # fmt: skip
        return
    _print(compiled, figures, out, target)


def _print(compiled: Compiled, figures: dict[str, Any], out: Path, target: str) -> None:
    print(f"{out}: {compiled.name}, compiled for {target!r}")
    shown = table("", "file", ">bytes")
    for name, data in compiled.files.items():
        shown.add_row(name, f"{len(data):,}")
    console().print(shown)
    shown = table("", "figure", ">")
    for name, value in figures.items():
        if isinstance(value, int):
            shown.add_row(_SPOKEN.get(name, name.replace("_", " ")), f"{value:,}")
    console().print(shown)
    if "replayed" in figures:
        console().print(f"golden rollout: {figures['replayed']}")
    if "compiler" in figures:
        console().print(f"by {figures['compiler']}", style="dim")
