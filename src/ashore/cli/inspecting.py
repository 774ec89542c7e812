"""``ashore inspect``: a page a deployment engineer can work from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.text import Text

from ashore.cli.output import console, print_json, table
from ashore.errors import PackageError, printable
from ashore.package import Array, Package, read
from ashore.runtime import Options
from ashore.runtime.onnx import describe, open_session
from ashore.spec import RATES, Manifest, Port, State, Wiring
from ashore.view import words

_FEW = 6
"""So many numbers are shown one by one; of more, only the range."""

_STYLES = {"info": "", "warning": "yellow", "error": "red"}


def run(path: Path, *, as_json: bool) -> None:
    """Print the contract of the package, or the ports of the bare ONNX file, at `path`."""
    if path.suffix == ".onnx" and not path.is_dir():
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
    out.print(f"{manifest.name} {manifest.version or ''}".strip(), style="bold")
    if manifest.description:
        out.print(manifest.description)
    out.print(f"schema {manifest.schema_version}, {len(manifest.files) + 1} files, {package.size:,} bytes")
    _print_rates(out, manifest)
    graph = Wiring(manifest)
    rates = {name: [rate for rate in RATES if name in graph.inputs_of(rate)] for name in manifest.inputs}
    _print_ports(out, "Inputs", manifest.inputs, rates, manifest)
    rates = {name: [rate for rate in RATES if name in graph.outputs_of(rate)] for name in manifest.outputs}
    _print_ports(out, "Outputs", manifest.outputs, rates, manifest)
    _print_joints(out, manifest)
    _print_states(out, package)
    _print_stages(out, manifest)
    _print_constants(out, manifest)
    _print_findings(out, manifest)
    _print_pairs(out, "Metadata", ((key, json.dumps(value)) for key, value in manifest.metadata.items()))
    _print_pairs(out, "Origin", _origin(manifest))


def _print_rates(out: Console, manifest: Manifest) -> None:
    timing = manifest.timing
    if timing is None:
        out.print("rates unknown: the package does not say how often it decides", style="yellow")
        return
    if timing.policy_dt_s is None:
        out.print(f"{timing.decimation} substeps a decision; how long they take is not stated", style="yellow")
        return
    text = f"decides every {timing.policy_dt_s * 1e3:g} ms ({1 / timing.policy_dt_s:g} Hz)"
    if timing.physics_dt_s is not None:
        text += f", {timing.decimation} substeps of {timing.physics_dt_s * 1e3:g} ms each"
    out.print(text)


def _print_ports(
    out: Console, title: str, ports: Mapping[str, Port], rates: Mapping[str, list[Any]], manifest: Manifest
) -> None:
    meaning = table(f"{title}: meaning", "!name", "!kind", "unit", "frame", "source")
    layout = table(f"{title}: layout", "!name", "rate", "array", "elements")
    joints = {joint.name: index for index, joint in enumerate(manifest.joints)}
    for name, port in ports.items():
        unit = port.unit if isinstance(port.unit, str) else " ".join(port.unit or ("-",))
        source = Text(port.source or "-", style="red" if port.source == "privileged" else "")
        meaning.add_row(name, port.kind or "-", unit, port.frame or "-", source)
        layout.add_row(name, " ".join(rates[name]), _array(port), _elements(port, joints))
    _print(out, meaning)
    _print(out, layout)
    for name, port in ports.items():
        if details := "; ".join(_details(port)):
            out.print(f"  {name}: {details}")


def _details(port: Port) -> Iterator[str]:
    if port.limits is not None:
        yield f"limits {words.limits(port.limits)}"
    if not port.finite:
        yield "may hold NaN and infinities"
    if port.connection:
        yield f"connection {port.connection}"
    if port.description:
        yield port.description
    if port.metadata:
        yield json.dumps(port.metadata)


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
            *map(words.number, (joint.default_position, joint.kp, joint.kd, joint.effort_limit, joint.velocity_limit)),
            f"{bounds.lower:.6g} … {bounds.upper:.6g}" if bounds else "-",
            joint.actuator or "-",
        )
    _print(out, shown)


def _print_states(out: Console, package: Package) -> None:
    if package.manifest.states:
        initial = package.initial_state()
        shown = table("States", "name", "role", "array", "on reset", "initial value")
        for name, state in package.manifest.states.items():
            shown.add_row(name, state.role, _array(state), state.reset, _values(initial[name]))
        _print(out, shown)


def _print_stages(out: Console, manifest: Manifest) -> None:
    shown = table(f"Stages, run as {manifest.runner.type}", "name", "rate", "runs on", "file", ">bytes", ">opset")
    for name, stage in manifest.stages.items():
        if stage.processor is not None:
            parameters = " ".join(f"{key}={value}" for key, value in stage.processor.params.items())
            shown.add_row(name, stage.rate, f"{stage.processor.type} {parameters}", " ".join(stage.processor.assets))
        if stage.runner is not None:
            parameters = " ".join(f"{key}={value}" for key, value in stage.runner.params.items())
            shown.add_row(name, stage.rate, f"{stage.runner.type} {parameters}", " ".join(stage.runner.stages))
        for backend, artifact in stage.artifacts.items():
            size = f"{manifest.files[artifact.path].size:,}"
            shown.add_row(name, stage.rate, backend, artifact.path, size, str(artifact.opset or "-"))
    _print(out, shown)
    if len(manifest.stages) > 1:
        _print_pairs(out, "Wires", ((wire.source, wire.target) for wire in manifest.wires), "from", "to")


def _print_constants(out: Console, manifest: Manifest) -> None:
    if manifest.constants:
        title = "Frozen constants (never change; check that none is a command)"
        shown = table(title, "name", "where", "array", "values")
        for constant in manifest.constants:
            array = f"{constant.dtype} {_shape(constant.shape)}"
            shown.add_row(constant.name, constant.where or "-", array, words.constant(constant))
        _print(out, shown)


def _print_findings(out: Console, manifest: Manifest) -> None:
    if manifest.findings:
        shown = table("Findings that were allowed", "severity", "name", "where", "tensor", "message", "remedy")
        for finding in manifest.findings:
            details = (finding.where or "-", finding.tensor or "-", finding.message, finding.remedy or "-")
            shown.add_row(Text(finding.severity, style=_STYLES[finding.severity]), finding.name, *details)
        _print(out, shown)


def _print_pairs(
    out: Console, title: str, pairs: Iterable[tuple[str, str]], left: str = "what", right: str = "value"
) -> None:
    shown = table(title, left, right)
    for pair in pairs:
        shown.add_row(*pair)
    if shown.row_count:
        _print(out, shown)


def _origin(manifest: Manifest) -> Iterator[tuple[str, str]]:
    origin, proof = manifest.provenance, manifest.verification
    if proof is None:
        yield "verified at export", "not recorded"
    elif proof.status == "skipped":
        yield "verified at export", "skipped"
    else:
        for result in proof.results:
            worst = words.number(result.max_abs_error_free_running)
            rollout = f"{proof.steps} steps, {proof.resets} resets on {result.backend} ({result.runtime})"
            yield "verified at export", f"{rollout}, free-running max |error| {worst}"
            yield "tolerance", f"{proof.atol:g} + {proof.rtol:g} |x|"
    if origin.task:
        yield "task", origin.task
    if origin.checkpoint:
        yield "checkpoint", f"{origin.checkpoint.name}, sha256 {origin.checkpoint.sha256}"
    if origin.git:
        yield "code", origin.git.commit + (", with uncommitted changes" if origin.git.dirty else "")
    if origin.tools:
        yield "tools", ", ".join(f"{name} {version}" for name, version in origin.tools.items())
    if origin.created_at:
        yield "created", origin.created_at
    yield "licence", manifest.licence or "not stated"
    yield "seal", str(manifest.manifest_sha256)


def _inspect_onnx(path: Path, *, as_json: bool) -> None:
    if not path.is_file():
        raise PackageError(f"{path}: there is no such file")
    described, size = describe(open_session(path, Options(), str(path)), str(path)), path.stat().st_size
    document: dict[str, Any] = {"path": str(path), "size_bytes": size, **asdict(described)}
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
    _print_pairs(out, "Metadata", ((printable(key), printable(value)) for key, value in document["metadata"].items()))
    out.print("\nIt says nothing of units, joint order, gains, rates or states. A package would.")


def _print(out: Console, shown: Any) -> None:
    out.print()
    out.print(shown)


def _array(array: Port | State) -> str:
    return f"{array.dtype} {_shape(array.shape)}"


def _shape(shape: Iterable[object]) -> str:
    return "x".join(str(dim) for dim in shape) or "scalar"


def _elements(port: Port, joints: Mapping[str, int]) -> str:
    """The names along each axis; joints by their numbers in the table of joints."""
    axes: list[str] = []
    for names in port.element_names or ():
        if names and all(name in joints for name in names):
            axes.append(f"joints {_runs([joints[name] for name in names])}")
        elif names:
            axes.append(" ".join(names))
    return "; ".join(axes) or "-"


def _runs(numbers: list[int]) -> str:
    """0 1 2 5 4 as ``0-2 5 4``: short where the order is plain, exact where it is not."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(map(str, run)) for run in runs)


def _values(array: Array) -> str:
    if array.size <= _FEW:
        return " ".join(words.number(value) for value in array.ravel().tolist())
    return words.span(words.number(float(np.min(array))), words.number(float(np.max(array))))
