"""What was found, in words: the log in the package, and the summary on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ashore.capture.assembly import Assembly
from ashore.package import Package
from ashore.spec import Frozen, Manifest

_SHOWN = 8


def write_log(manifest: Manifest, assembly: Assembly, messages: Mapping[str, Sequence[str]]) -> str:
    """The whole story of an export."""
    resets = sum(step.reset for step in assembly.timeline)
    lines = [f"{manifest.name}: {len(assembly.timeline)} steps in {resets} episodes"]
    for rate, analysis in assembly.analyses.items():
        reference, ops = analysis.steps.reference, assembly.programs[rate].ops
        lines.append(
            f"{rate} rate: {len(analysis.steps.all)} of them; step {reference.index} became the graph,"
            f" {len(ops)} of its {len(reference.tape.ops)} operations matter"
        )
    lines.append("")
    for title, ports in (("inputs", manifest.inputs), ("outputs", manifest.outputs)):
        lines += [f"{title}:", *(f"  {name}: {port.dtype} {list(port.shape)}" for name, port in ports.items()), ""]
    lines += ["states:", *(f"  {text}" for text in _states(assembly)), ""]
    lines += ["constants that belong to no module:", *(f"  {_frozen(one)}" for one in manifest.constants), ""]
    lines += ["findings:", *(f"  {one.severity}: {one}" for one in assembly.findings), ""]
    lines += ["verification:", *(f"  {text}" for text in _verdict(manifest)), ""]
    for stage in assembly.layout.stages.values():
        name = stage.name
        lines.append(f"stage {name}:")
        lines += [f"  {op.line}: {op.target}" for op in stage.cut.ops]
        lines += [f"  exporter: {text}" for text in messages.get(name, ())]
        lines.append("")
    return "\n".join(lines)


def summary(package: Package) -> str:
    """What a person should see when an export is done."""
    manifest = package.manifest
    lines = [f"{package.path}: {', '.join(manifest.inputs)} -> {', '.join(manifest.outputs)}"]
    if manifest.states:
        lines.append("  states: " + ", ".join(f"{name} ({state.role})" for name, state in manifest.states.items()))
    if manifest.constants:
        lines.append("  frozen, and part of no module (is one of them a command?):")
        lines += [f"    {_frozen(one)}" for one in manifest.constants[:_SHOWN]]
        if len(manifest.constants) > _SHOWN:
            lines.append(f"    and {len(manifest.constants) - _SHOWN} more, see export.log")
    lines += [f"  {one.severity}: {one.message}" for one in manifest.findings if one.severity != "info"]
    lines += [f"  {text}" for text in _verdict(manifest)]
    return "\n".join(lines) + "\n"


def _states(assembly: Assembly) -> list[str]:
    return [
        f"{assembly.layout.states[key]}: {state.role}, on reset {state.reset}, "
        f"{'declared' if state.declared else 'found'} at {state.line}" + (f" as {state.path}" if state.path else "")
        for key, state in assembly.states.items()
    ]


def _frozen(constant: Frozen) -> str:
    shape = "x".join(map(str, constant.shape)) or "scalar"
    if constant.values is not None:
        held = (
            "["
            + ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in constant.values)
            + "]"
        )
    else:
        held = f"from {constant.lowest} to {constant.highest}"
    return f"{constant.name} ({constant.dtype} {shape}, {constant.where}): {held}"


def _verdict(manifest: Manifest) -> list[str]:
    proof = manifest.verification
    if proof is None or proof.status != "passed":
        return ["verification was skipped"]
    return [
        f"verified on {result.backend} ({result.runtime}): {proof.steps} steps"
        + (f" with {proof.substeps} substeps" if proof.substeps else "")
        + ", largest error "
        f"{result.max_abs_error_stepwise:.2g} stepwise, {result.max_abs_error_free_running:.2g} free-running"
        for result in proof.results
    ]
