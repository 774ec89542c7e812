"""``ashore export lerobot``: from the folder of a trained policy to a package."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from ashore.cli.output import console, evidence, print_json, progress, table
from ashore.cli.simulators import quiet
from ashore.errors import InputError
from ashore.package import Package


def run_export(
    checkpoint: Path, out: Path | None, *, plugins: Sequence[str], options: Mapping[str, Any], as_json: bool
) -> None:
    """Export a policy that LeRobot saved, and print what is in the package."""
    began = perf_counter()
    with quiet(), progress(f"opening {checkpoint}", None) as bar:
        for plugin in plugins:
            _import(plugin)
        from ashore.integrations.lerobot import export_lerobot
        from ashore.integrations.lerobot.checkpoint import find_folder

        folder = find_folder(checkpoint).resolve()
        target = out or folder.parent / f"{folder.name}-package"
        package = export_lerobot(
            folder, target, told=lambda what: bar.update(bar.task_ids[0], description=what), **options
        )
    seconds = perf_counter() - began
    if as_json:
        print_json(_about(package, seconds))
    else:
        _print(package, seconds)


def _import(name: str) -> None:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as python -m does
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"--plugin {name}: {error}") from error


def _about(package: Package, seconds: float) -> dict[str, Any]:
    manifest = package.manifest
    return {
        "package": str(package.path),
        "policy": manifest.metadata.get("lerobot"),
        "inputs": {name: {"dtype": port.dtype, "shape": list(port.shape)} for name, port in manifest.inputs.items()},
        "outputs": {name: {"dtype": port.dtype, "shape": list(port.shape)} for name, port in manifest.outputs.items()},
        "stages": list(manifest.stages),
        "states": {name: state.role for name, state in manifest.states.items()},
        **evidence(manifest),
        "seconds": seconds,
    }


def _print(package: Package, seconds: float) -> None:
    manifest, out = package.manifest, console()
    shown = table(f"{package.path}", "", "!port", "kind", "dtype", "shape")
    for group, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        for name, port in ports.items():
            shown.add_row(group, name, port.kind or "", port.dtype, str(list(port.shape)))
    for name, state in manifest.states.items():
        shown.add_row("state", name, state.role, state.dtype, str(list(state.shape)))
    out.print(shown)
    for one in manifest.findings:
        if one.severity != "info":
            out.print(f"{one.severity}: {one.message}", style="yellow")
    proof, beside = manifest.verification, manifest.metadata.get("lerobot", {})
    if proof is not None:
        worst = max(one.max_abs_error_free_running for one in proof.results)
        out.print(f"verified: {proof.steps} decisions, largest error {worst:.2g}", style="green")
    if "ticks" in beside:
        out.print(
            f"compared with LeRobot {beside['version']}: {beside['ticks']} ticks from camera to motor, largest error "
            f"{beside['max_abs_error']:.2g}",
            style="green",
        )
    out.print(f"{seconds:.1f} s")
