"""``ashore export TRAINER CHECKPOINT``: from a checkpoint to a package."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from ashore.cli.output import console, evidence, print_json, progress, table
from ashore.cli.simulators import quiet
from ashore.errors import InputError
from ashore.package import Package


@dataclass(frozen=True)
class Wish:
    """What to export, still as the command line says it."""

    trainer: str
    checkpoint: Path
    config: Path | None
    model: str | None
    normalizer: str | None
    obs: Sequence[str]
    actions: str | None
    trust: bool
    out: Path | None
    name: str | None
    onnx: Path | None


def run(wish: Wish, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Export a checkpoint, and print what is in the package."""
    from ashore.actor.plain import check_file_name, write_onnx
    from ashore.integrations.trainers import Source, export_checkpoint
    from ashore.interop.exploy.placing import check_place

    if wish.onnx is not None:  # all that can be known before the package is written
        check_file_name(wish.onnx.name, ".onnx")
        check_place(wish.onnx)
        if not str(options["backend"]).startswith("onnx"):
            raise InputError(
                f"--onnx {wish.onnx}: --export-method {options['backend']} writes no ONNX; use onnx-dynamo, or leave "
                f"it out"
            )
    actions = None if wish.actions is None else _numbers("--actions", wish.actions)
    if actions is not None and len(actions) != 2:
        raise InputError(f"--actions={wish.actions}: expected the least and the largest action, such as -1,1")
    source = Source(
        wish.checkpoint, wish.config, wish.model, wish.normalizer, dict(_shapes(wish.obs)),
        None if actions is None else (actions[0], actions[1]), wish.trust,
    )  # fmt: skip
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", wish.name or wish.checkpoint.stem)
    began = perf_counter()
    with quiet(), progress(f"exporting {wish.checkpoint.name}", None):
        package = export_checkpoint(
            wish.trainer, source, (wish.out or wish.checkpoint.parent) / name, **{"summary": False, **options}
        )
        if wish.onnx is not None:
            write_onnx(package, wish.onnx)
    report = _about(package, wish.onnx, perf_counter() - began)
    if as_json:
        print_json(report)
    else:
        _print(report, package)


def _shapes(given: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []
    for text in given:
        name, equals, numbers = text.partition("=")
        if not name or not equals:
            raise InputError(f"--obs {text}: expected NAME=SHAPE, such as policy=48 or camera=1,64,64")
        shape = _numbers(f"--obs {name}", numbers)
        if any(one != int(one) for one in shape):
            raise InputError(f"--obs {text}: expected whole numbers, got {numbers!r}")
        found.append((name, tuple(map(int, shape))))
    return found


def _numbers(where: str, text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError as error:
        raise InputError(f"{where}: expected numbers with commas between them, got {text!r}") from error


def _about(package: Package, onnx: Path | None, seconds: float) -> dict[str, Any]:
    manifest = package.manifest
    return {
        "package": str(package.path),
        "onnx": None if onnx is None else str(onnx),
        "actor": manifest.metadata["actor"],
        "inputs": {name: list(port.shape) for name, port in manifest.inputs.items()},
        "outputs": {name: list(port.shape) for name, port in manifest.outputs.items()},
        "states": {name: state.role for name, state in manifest.states.items()},
        **evidence(manifest),
        "seconds": seconds,
    }


def _print(report: Mapping[str, Any], package: Package) -> None:
    out, actor = console(), report["actor"]
    shown = table(str(report["package"]), "", "!port", "shape")
    for group in ("inputs", "outputs"):
        for name, shape in report[group].items():
            shown.add_row(group.removesuffix("s"), name, str(shape))
    for name, role in report["states"].items():
        shown.add_row("state", name, role)
    out.print(shown)
    out.print(f"{actor['trainer']}: {actor['architecture']}, {actor['head']}")
    for one in actor["normalizers"]:
        out.print(f"normaliser {one['name']}: {one['formula']}, sha256 {one['sha256'][:12]}…")
    for one in package.manifest.findings:
        if one.severity != "info":
            out.print(f"{one.severity}: {one.message}", style="yellow")
    proof = report["verification"]
    if proof is not None and proof["status"] == "passed":
        error = proof["max_abs_error"]
        out.print(
            f"verified: {proof['steps']} steps with {proof['resets']} resets, largest error {error:.2g}", style="green"
        )
    else:
        out.print("not verified", style="yellow")
    if report["onnx"] is not None:
        out.print(f"plain file {report['onnx']}")
    out.print(f"{report['seconds']:.1f} s")
