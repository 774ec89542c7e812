"""``ashore inspect``: a page a deployment engineer can work from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from ashore.cli.output import console, print_json, printable, table
from ashore.errors import PackageError
from ashore.package import Package, read
from ashore.runtime import Options
from ashore.runtime.onnx import open_session
from ashore.spec import Limits, Manifest, Port, Wiring


def run(path: Path, *, as_json: bool) -> None:
    """Print the contract of the package, or the ports of the bare ONNX file, at `path`."""
    if path.suffix == ".onnx":
        _inspect_onnx(path, as_json=as_json)
        return
    package = read(path)
    if as_json:
        manifest = msgspec.json.decode(msgspec.json.encode(package.manifest))
        print_json({"path": str(path), "size_bytes": package.size, "manifest": manifest})
    else:
        _print_package(package)


def _print_package(package: Package) -> None:
    out, manifest = console(), package.manifest
    title = f"{manifest.name} {manifest.version or ''}".strip()
    out.print(title, style="bold")
    if manifest.description:
        out.print(manifest.description)
    out.print(f"schema {manifest.schema_version}, {len(manifest.files) + 1} files, {package.size:,} bytes")
    _print_rates(out, manifest)
    _print_ports(out, "Inputs", manifest.inputs, manifest)
    _print_ports(out, "Outputs", manifest.outputs, manifest)
    _print_joints(out, manifest)
    _print_states(out, manifest)
    _print_stages(out, package)
    _print_processors(out, manifest)
    _print_findings(out, manifest)
    _print_origin(out, manifest)


def _print_rates(out: Console, manifest: Manifest) -> None:
    timing = manifest.timing
    if timing is None:
        out.print("rates unknown: the package does not say how often it decides", style="yellow")
        return
    text = f"decides every {timing.policy_dt_s * 1e3:g} ms ({1 / timing.policy_dt_s:g} Hz)"
    if timing.physics_dt_s is not None:
        text += f", {timing.decimation} substeps of {timing.physics_dt_s * 1e3:g} ms each"
    out.print(text)


def _print_ports(out: Console, title: str, ports: Mapping[str, Port], manifest: Manifest) -> None:
    graph = Wiring(manifest)
    shown = table(title, "name", "rate", "dtype", "shape", "kind", "unit", "frame", "source", "elements", "limits")
    for name, port in ports.items():
        rates = [
            rate
            for rate in ("policy", "substep")
            if name in (graph.inputs_of(rate) if title == "Inputs" else graph.outputs_of(rate))
        ]
        shown.add_row(
            name,
            ", ".join(rates),
            port.dtype,
            _shape(port.shape),
            port.kind or "-",
            port.unit if isinstance(port.unit, str) else ", ".join(port.unit or ("-",)),
            port.frame or "-",
            Text(port.source or "-", style="red" if port.source == "privileged" else ""),
            _elements(port),
            _limits(port.limits),
        )
    _print(out, shown)


def _print_joints(out: Console, manifest: Manifest) -> None:
    if not manifest.joints:
        return
    shown = table("Joints", ">#", "name", "type", ">default", ">kp", ">kd", ">effort", ">velocity", "range", "actuator")
    for index, joint in enumerate(manifest.joints):
        bounds = joint.position_limits
        shown.add_row(
            str(index),
            joint.name,
            joint.type,
            *map(_number, (joint.default_position, joint.kp, joint.kd, joint.effort_limit, joint.velocity_limit)),
            f"{bounds.lower:.6g} … {bounds.upper:.6g}" if bounds else "-",
            joint.actuator or "-",
        )
    _print(out, shown)


def _print_states(out: Console, manifest: Manifest) -> None:
    if manifest.states:
        shown = table("States", "name", "role", "dtype", "shape", "on reset")
        for name, state in manifest.states.items():
            shown.add_row(name, state.role, state.dtype, _shape(state.shape), state.reset)
        _print(out, shown)


def _print_stages(out: Console, package: Package) -> None:
    manifest = package.manifest
    shown = table("Stages", "name", "rate", "backend", "file", ">bytes", ">opset")
    for name, stage in manifest.stages.items():
        for backend, artifact in stage.artifacts.items():
            size = f"{manifest.files[artifact.path].size:,}"
            shown.add_row(name, stage.rate, backend, artifact.path, size, str(artifact.opset or "-"))
    _print(out, shown)


def _print_processors(out: Console, manifest: Manifest) -> None:
    entries = [("before", entry) for entry in manifest.preprocessors] + [
        ("after", entry) for entry in manifest.postprocessors
    ]
    if entries:
        shown = table("Processors", "when", "type", "port", "parameters")
        for when, entry in entries:
            parameters = ", ".join(f"{key}={value}" for key, value in entry.params.items())
            shown.add_row(when, entry.type, entry.port, parameters)
        _print(out, shown)


def _print_findings(out: Console, manifest: Manifest) -> None:
    if manifest.findings:
        shown = table("Findings that were allowed", "severity", "name", "where", "message")
        for finding in manifest.findings:
            shown.add_row(finding.severity, finding.name, finding.where or "-", finding.message)
        _print(out, shown)


def _print_origin(out: Console, manifest: Manifest) -> None:
    shown = table("Origin", "what", "value")
    for what, value in _origin(manifest):
        shown.add_row(what, value)
    _print(out, shown)


def _origin(manifest: Manifest) -> Iterator[tuple[str, str]]:
    origin, proof = manifest.provenance, manifest.verification
    if proof is None:
        yield "verified at export", "not recorded"
    elif proof.status == "skipped":
        yield "verified at export", "skipped"
    else:
        worst = proof.max_abs_error_free_running
        yield (
            "verified at export",
            f"{proof.steps} steps, {proof.resets} resets on {proof.backend}, free-running max |error| {_number(worst)}",
        )
    if origin.task:
        yield "task", origin.task
    if origin.checkpoint:
        yield "checkpoint", f"{origin.checkpoint.name} (sha256 {origin.checkpoint.sha256[:12]}…)"
    if origin.git:
        yield "code", origin.git.commit[:12] + (", with uncommitted changes" if origin.git.dirty else "")
    if origin.tools:
        yield "tools", ", ".join(f"{name} {version}" for name, version in origin.tools.items())
    if origin.created_at:
        yield "created", origin.created_at
    yield "licence", manifest.licence or "not stated"
    yield "manifest sha256", str(manifest.manifest_sha256)


def _inspect_onnx(path: Path, *, as_json: bool) -> None:
    if not path.is_file():
        raise PackageError(f"{path}: there is no such file")
    session, size = open_session(path, Options(), str(path)), path.stat().st_size
    document = {
        "path": str(path),
        "size_bytes": size,
        "inputs": list(_onnx_ports(session.get_inputs())),
        "outputs": list(_onnx_ports(session.get_outputs())),
        "metadata": dict(session.get_modelmeta().custom_metadata_map),
    }
    if as_json:
        print_json(document)
        return
    out = console()
    out.print(f"{path.name}: a bare ONNX file, {size:,} bytes", style="bold")
    for group in ("inputs", "outputs"):
        shown = table(group.capitalize(), "name", "type", "shape")
        for port in document[group]:
            shown.add_row(printable(port["name"]), port["type"], printable(_shape(port["shape"])))
        _print(out, shown)
    if document["metadata"]:
        shown = table("Metadata", "key", "value")
        for key, value in document["metadata"].items():
            shown.add_row(printable(key), printable(value))
        _print(out, shown)
    out.print("It says nothing of units, joint order, gains, rates or states. A package would.")


def _onnx_ports(ports: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for port in ports:
        yield {"name": port.name, "type": port.type, "shape": port.shape}


def _print(out: Console, shown: Any) -> None:
    out.print()
    out.print(shown)


def _shape(shape: Iterable[object]) -> str:
    return "x".join(str(dim) for dim in shape) or "scalar"


def _elements(port: Port) -> str:
    named = [", ".join(names) for names in port.element_names or () if names]
    return "; ".join(named) or "-"


def _limits(limits: Limits | None) -> str:
    if limits is None:
        return "-"
    sides = (side if isinstance(side, tuple) else (side,) for side in (limits.lower, limits.upper))
    return " … ".join(", ".join(_number(value) for value in side) for side in sides)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
