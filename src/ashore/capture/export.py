"""From a recording to a package on disk, or to an error with every finding in it.

Nothing is written where the package goes until the saved files have been loaded by the runtime and have given what the
code gave.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import sys
import tempfile
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from ashore.backends import Exported, Request, find_exporter
from ashore.backends.export_cache import find_export, is_cache_on, keep_export
from ashore.capture.alive import alive
from ashore.capture.analysis import analyse
from ashore.capture.assembly import Assembly, as_records
from ashore.capture.attention import guard_attention
from ashore.capture.batching import make_batched
from ashore.capture.build import build
from ashore.capture.declarations import check_declarations
from ashore.capture.findings import KINDS, Finding
from ashore.capture.folding import fold_masks
from ashore.capture.inspect import inspect_recording
from ashore.capture.layout import StageLayout, lay_out
from ashore.capture.log import summary, write_log
from ashore.capture.naming import owned_tensors
from ashore.capture.operations import schema_name
from ashore.capture.options import ExportOptions
from ashore.capture.program import Programs, all_states
from ashore.capture.proof import prove
from ashore.capture.replay import roll_out
from ashore.capture.roles import role_of
from ashore.capture.session import Session
from ashore.capture.stages import StageCut, StageModule, cut
from ashore.errors import ExportError
from ashore.package import Package, write
from ashore.spec import RATES, Manifest, Rate, Verification
from ashore.view import draw

_LOG = logging.getLogger(__name__)


@contextmanager
def _by_itself() -> Iterator[None]:
    """Work on the CPU and in no mode of torch, whatever the user's code is in.

    And look for no garbage: exporters make a million objects that stay, and a fifth of the time would go into that.
    """
    enabled = gc.isenabled()
    gc.disable()
    # A device of one's own costs something in every operation, so it is only taken where another one is the default.
    cpu = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    try:
        with cpu, torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
            yield
    finally:
        if enabled:
            gc.enable()


@_by_itself()
def export(session: Session, name: str, out: Path | None, options: ExportOptions) -> Package | None:
    """Write the package of a recording.

    Args:
        session: what was recorded.
        name: of the package.
        out: where to write it; None writes nothing, and only finds out whether it could be.
        options: how.

    Returns:
        The package, after the saved files were checked against the recording.

    Raises:
        ExportError: with every finding. Nothing was written.
    """
    assembly = understand(session, options)
    stages = [_export_stage(assembly, one, options) for one in assembly.layout.stages.values()]
    if out is None:
        return None
    manifest, files, contents, proof, failures = _draft(name, assembly, stages, options)
    if failures and any(stage.was_known for stage in stages):
        _LOG.warning("what was exported before, and lay in the cache, is not what was recorded; it is exported anew")
        anew = dataclasses.replace(options, cache=False)
        stages = [_export_stage(assembly, one, anew) for one in assembly.layout.stages.values()]
        manifest, files, contents, proof, failures = _draft(name, assembly, stages, options)
    _judge([*assembly.findings, *failures], options.allow)
    if proof.status == "passed":
        for stage in stages:
            stage.keep()
    exported = {stage.name: stage.exported for stage in stages}
    records = as_records([*assembly.findings, *failures])
    manifest = msgspec.structs.replace(manifest, verification=proof, findings=records)
    messages = {stage: one.messages for stage, one in exported.items()}
    files["export.log"] = write_log(manifest, assembly, messages).encode()
    if options.picture:
        drawing = draw(manifest)
        files |= {"graph.svg": drawing.svg(), "graph.png": drawing.png()}
    package = write(out, manifest, files=files, **contents)
    if options.summary or options.verbose:
        sys.stderr.write(files["export.log"].decode() if options.verbose else summary(package))
    return package


@dataclass(frozen=True)
class _ExportedStage:
    """A stage and its file."""

    name: str
    exporter: str
    request: Request
    exported: Exported
    was_known: bool
    """Whether the file lay in the cache."""

    def keep(self) -> None:
        """Keep the file for next time, once it is proven."""
        if not self.was_known:
            keep_export(self.exporter, self.request, self.exported)


def _draft(
    name: str,
    assembly: Assembly,
    stages: Sequence[_ExportedStage],
    options: ExportOptions,
) -> tuple[Manifest, dict[str, bytes], dict[str, Any], Verification, list[Finding]]:
    """Write a package where nobody sees it, and prove it.

    Returns:
        Its contract, files and further contents, the verdict, and what stands against it.
    """
    manifest = assembly.manifest(name, {stage.name: stage.exported for stage in stages})
    files = {path: data for stage in stages for path, data in assembly.files(stage.name, stage.exported).items()}
    contents: dict[str, Any] = {"initial": assembly.initial(), "golden": assembly.golden()}
    with tempfile.TemporaryDirectory() as scratch:
        draft = write(Path(scratch) / "draft", manifest, files=files, **contents)
        proof, failures = prove(draft, assembly, options)
    return manifest, files, contents, proof, failures


def understand(session: Session, options: ExportOptions) -> Assembly:
    """Find out what was recorded, or raise everything that stands against exporting it."""
    if not session.steps:
        raise ExportError("nothing was recorded: no step declared an input or an output")
    for rate in RATES:
        steps = [step for step in session.steps if step.rate == rate]
        _judge(list(check_declarations(steps)) if steps else [], options.allow)
    named = {key: name for key, (name, _) in session.named.items()}
    things = alive(torch.nn.Module, list, deque)
    owned = owned_tensors(thing for thing in things if issubclass(type(thing), torch.nn.Module)) | named
    lists = [thing for thing in things if issubclass(type(thing), list | deque)]
    analyses = analyse(session.steps, feedback=options.feedback, owned=owned, named=named, lists=lists)
    findings = [*options.findings, *(finding for analysis in analyses.values() for finding in analysis.findings)]
    findings += (
        one
        for one in inspect_recording(analyses, session.static)
        if not _counts(one, options.counters) and not (session.simulates and one.name == "late_leak")
    )
    _judge(findings, options.allow)
    programs = build(analyses, owned)
    acting = programs.get("substep")
    if acting is not None and not acting.outputs and not acting.next:
        session.keep_rate("policy")  # nothing comes out of the substeps
        return understand(session, options)
    for program in programs.values():
        fold_masks(program)
    rollout = roll_out(analyses, programs, exclusive=session.exclusive)
    findings += rollout.findings
    _judge(findings, options.allow if rollout.states else ())
    findings += _found_states(programs, set(named.values()))
    for rate, program in programs.items():
        guard_attention(program, analyses[rate].steps.reference)
    batched = None
    if options.batch != "recorded":
        batched, problems = make_batched(programs, {rate: one.steps.reference for rate, one in analyses.items()})
        findings += problems
        _judge(findings, options.allow)
    cuts: dict[Rate, list[StageCut]] = {}
    edges = {name for analysis in analyses.values() for name in analysis.edges}
    for rate, program in programs.items():
        nodes = [node for node in session.nodes if session.rates.get(node, "policy") == rate]
        cuts[rate], entangled = cut(program, nodes or sorted({node for node, _ in program.outputs}), edges)
        findings += entangled
    _judge(findings, options.allow)
    layout = lay_out(programs, cuts, edges=edges)
    assembly = Assembly(session, analyses, programs, rollout, layout, findings, owned, options, batched)
    findings += assembly.notices()
    _judge(findings, options.allow)
    return assembly


def _counts(finding: Finding, counters: Collection[str]) -> bool:
    return finding.name == "python_counter" and str(finding.tensor).rpartition(".")[2] in counters


def _found_states(programs: Programs, named: Collection[str]) -> Iterator[Finding]:
    """Give every state its role, and tell of those that nobody declared."""
    for program in programs.values():
        for name in program.next:
            state = program.states[name]
            role = role_of(program, state)
            state.role = role if state.role == "memory" else state.role
    for state in all_states(programs).values():
        if not state.declared and state.name not in named:
            message = f"{state.path or state.name} is kept between steps, as the state {state.name} ({state.role})"
            yield Finding("undeclared_state", message, state.line, state.path)


def _judge(findings: Sequence[Finding], allowed: Collection[str]) -> None:
    """Fail if anything was found that is an error and not allowed."""
    errors = [finding for finding in findings if finding.severity == "error" and finding.name not in allowed]
    if errors:
        raise _failure(errors)


def _failure(errors: list[Finding]) -> ExportError:
    """The error that tells of all findings, causes before consequences."""
    errors = sorted(errors, key=lambda error: list(KINDS).index(error.name))
    remedies = dict.fromkeys(f"{error.name}: {KINDS[error.name].remedy}" for error in errors)
    parts = ("the export would not be exact:", *_once_each(errors), "What to do:", *remedies)
    return ExportError("\n  ".join(parts).replace("\n  What to do:", "\nWhat to do:"), errors)


def _once_each(errors: Sequence[Finding]) -> Iterator[str]:
    """Each finding, but of those that say the same of the same line only the first."""
    alike: dict[tuple[str, object], list[Finding]] = {}
    for error in errors:
        alike.setdefault((error.name, error.line or error.message), []).append(error)
    for group in alike.values():
        further = len(set(map(str, group))) - 1
        yield f"{group[0]} (and {further} more like it)" if further else str(group[0])


def _export_stage(assembly: Assembly, stage: StageLayout, options: ExportOptions) -> _ExportedStage:
    inputs, outputs = list(stage.inputs.values()), list(stage.outputs.values())
    axes, (opset, ir_version) = assembly.batch_axes(stage.rate, inputs), options.target()
    chosen = assembly.session.targets.get(stage.cut.name, {})
    module = StageModule(assembly.programs[stage.rate], stage.cut, inputs, outputs, axes).eval()
    request = Request(
        module,
        assembly.example(stage.rate, inputs),
        tuple(stage.inputs),
        tuple(stage.outputs),
        dynamic=axes,
        opset=chosen.get("opset", opset),
        ir_version=chosen.get("ir_version", ir_version),
        fingerprint=module.fingerprint() if options.cache and is_cache_on() else None,
    )
    name = assembly.session.backends.get(stage.cut.name) or options.backend
    known = find_export(name, request)
    if known is not None:
        return _ExportedStage(stage.name, name, request, known, was_known=True)
    export = find_exporter(name)
    try:
        exported = export(request)
    except Exception as error:  # exporters raise anything at all
        finding = _refused(stage, name, error)
        raise _failure([finding]) from error
    return _ExportedStage(stage.name, name, request, exported, was_known=False)


def _refused(stage: StageLayout, exporter: str, error: Exception) -> Finding:
    """What an exporter could not do, and the line that asked for it."""
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    story = "\n".join(map(str, chain))
    reason = next((line.strip() for line in str(chain[-1]).splitlines() if line.strip()), type(chain[-1]).__name__)
    message = f"{exporter} cannot express stage {stage.cut.name}: {reason}"
    for op in stage.cut.ops:
        target = str(op.target)
        if any(name in story for name in (target, target.replace("_.", "."), f"{schema_name(op)}'")):
            return Finding("unsupported_operation", f"{message} (in `{op.line.text}`)", op.line)
    return Finding("unsupported_operation", message)
