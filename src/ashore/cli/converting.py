"""``ashore convert``."""

from __future__ import annotations

from pathlib import Path

from ashore.cli.output import console, print_json, table
from ashore.errors import printable
from ashore.interop.leapp import Written, from_leapp, to_leapp
from ashore.package import Package, read


def run_to(path: Path, out: Path, *, backend: str | None, as_json: bool) -> None:
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


def run_from(path: Path, out: Path, *, as_json: bool) -> None:
    """Write the LEAPP directory at `path` as a package."""
    package = from_leapp(path, out)
    findings, files = package.manifest.findings, len(package.manifest.files) + 1
    if as_json:
        messages = [finding.message for finding in findings]
        print_json({"path": str(package.path), "files": files, "size_bytes": package.size, "findings": messages})
        return
    print(f"{package.path}: {files} files, {package.size:,} bytes")
    _print_findings(package)


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
