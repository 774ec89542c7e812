"""``ashore convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ashore.cli.output import console, print_json, table
from ashore.errors import BackendError, printable
from ashore.interop.leapp import Written, from_leapp, to_leapp
from ashore.interop.policy_package import from_policy_package, to_policy_package
from ashore.package import Package, read


def run_to_leapp(path: Path, out: Path, *, backend: str | None, as_json: bool) -> None:
    """Write the package at `path` as a LEAPP directory."""
    written = to_leapp(read(path), out, backend=backend)
    if as_json:
        print_json(
            {
                "path": str(written.path),
                "yaml": str(written.yaml),
                "size_bytes": written.size,
                "inputs": written.inputs,
                "outputs": written.outputs,
                "states": written.states,
            }
        )
        return
    print(f"{written.yaml}: {written.size:,} bytes in all")
    _print_names(written)


def run_to_exploy(path: Path, out: Path, *, debug: bool, as_json: bool) -> None:
    """Write the package at `path` as one ONNX file."""
    _need_onnx()
    from ashore.interop.exploy import to_exploy

    written = to_exploy(read(path), out, debug=debug)
    if as_json:
        print_json(
            {
                "path": str(written.path),
                "size_bytes": written.size,
                "debug": [str(file) for file in written.debug],
                "inputs": written.inputs,
                "outputs": written.outputs,
                "memory": written.memory,
                "decimation": written.decimation,
                "replayed_ticks": written.replayed_ticks,
                "max_abs_error": written.max_abs_error,
                "warnings": written.warnings,
            }
        )
        return
    print(f"{written.path}: {written.size:,} bytes, decides every {written.decimation} ticks")
    print(_proof("ticks", written.replayed_ticks, written.max_abs_error))
    for warning in written.warnings:
        console().print(f"warning: {printable(warning)}", style="yellow")


def run_to_policy_package(path: Path, out: Path, *, as_json: bool) -> None:
    """Write the package at `path` as a policy_package directory."""
    written = to_policy_package(read(path), out)
    if as_json:
        print_json(
            {
                "path": str(written.path),
                "size_bytes": written.size,
                "runner": written.runner,
                "inputs": written.inputs,
                "replayed_steps": written.replayed_steps,
                "max_abs_error": written.max_abs_error,
            }
        )
        return
    print(f"{written.path}: {written.size:,} bytes, {written.runner}")
    print(_proof("steps", written.replayed_steps, written.max_abs_error))


def run_from(origin: Literal["leapp", "exploy", "policy_package"], path: Path, out: Path, *, as_json: bool) -> None:
    """Write what is at `path` as a package."""
    readers = {"leapp": from_leapp, "exploy": _from_exploy, "policy_package": from_policy_package}
    package = readers[origin](path, out)
    findings, files = package.manifest.findings, len(package.manifest.files) + 1
    if as_json:
        messages = [finding.message for finding in findings]
        print_json({"path": str(package.path), "files": files, "size_bytes": package.size, "findings": messages})
        return
    print(f"{package.path}: {files} files, {package.size:,} bytes")
    _print_findings(package)


def _proof(what: str, count: int, max_abs_error: float) -> str:
    if not count:
        return "nothing to compare with: the package holds no golden rollout"
    return f"{count} {what} of the golden rollout agree, to {max_abs_error:.2g}"


def _from_exploy(path: Path, out: Path) -> Package:
    _need_onnx()
    from ashore.interop.exploy import from_exploy

    return from_exploy(path, out)


def _need_onnx() -> None:
    from importlib.util import find_spec

    if find_spec("onnx") is None:
        raise BackendError("converting to and from exploy needs onnx; use pip install 'ashore[export]'")


def _print_names(written: Written) -> None:
    shown = table("", "package", "LEAPP")
    for group, names in (("inputs", written.inputs), ("states", written.states)):
        for name, ends in names.items():
            shown.add_row(f"{group}/{name}", " ".join(ends))
    for name, end in written.outputs.items():
        shown.add_row(f"outputs/{name}", end)
    console().print(shown)


def _print_findings(package: Package) -> None:
    for finding in package.manifest.findings:
        console().print(f"{finding.severity}: {printable(finding.message)}", style="yellow")
