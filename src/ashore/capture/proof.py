"""Checking the files of a package before it is written: against the recording, and against the code on fresh inputs."""

from __future__ import annotations

from importlib.metadata import version

from ashore.capture.assembly import Assembly
from ashore.capture.findings import Finding
from ashore.capture.fresh import fresh_rollout
from ashore.capture.options import ExportOptions
from ashore.errors import BackendError
from ashore.package import Golden, Package, Recording
from ashore.spec import BackendResult, Verification
from ashore.verify import Report, replay

_ROWS = 3
_RUNTIMES = {"onnx": "onnxruntime", "torchscript": "torch", "pt2": "torch", "openvino": "openvino"}


def prove(draft: Package, assembly: Assembly, options: ExportOptions) -> tuple[Verification, list[Finding]]:
    """Load the saved files by the runtime and replay them; the verdict, and what stands against it."""
    if options.validation_steps == 0:
        return Verification(status="skipped"), []
    try:
        recorded = replay(draft, backend=_chosen(draft), atol=options.atol, rtol=options.rtol)
    except BackendError as error:
        message = str(error).replace(f"{draft.path}: ", "")
        return Verification(status="skipped"), [Finding("unsupported_operation", message)]
    golden = _fresh(assembly, options)
    fresh = replay(draft, golden=golden, backend=_chosen(draft), atol=options.atol, rtol=options.rtol)
    failures = [
        *_failures(assembly, recorded, "the recorded inputs"),
        *_failures(assembly, fresh, "fresh inputs"),
    ]
    backends = sorted({backend for stage in draft.manifest.stages.values() for backend in stage.artifacts})
    runtimes = sorted({_RUNTIMES[backend] for backend in backends})
    result = BackendResult(
        backend=", ".join(backends),
        runtime=", ".join(f"{name} {version(name)}" for name in runtimes),
        max_abs_error_stepwise=max(recorded.worst("stepwise"), fresh.worst("stepwise")),
        max_abs_error_free_running=max(recorded.worst("free_running"), fresh.worst("free_running")),
    )
    proof = Verification(
        status="passed" if not failures else "skipped",
        steps=recorded.steps + fresh.steps,
        substeps=recorded.substeps + fresh.substeps,
        resets=recorded.resets + fresh.resets,
        atol=options.atol,
        rtol=options.rtol,
        results=(result,),
    )
    return proof, failures


def _chosen(draft: Package) -> dict[str, str]:
    """Every stage on the backend that it was exported for."""
    return {name: next(iter(stage.artifacts)) for name, stage in draft.manifest.stages.items()}


def _fresh(assembly: Assembly, options: ExportOptions) -> Golden:
    """What the recorded operations give on inputs that were not recorded; with an open batch, for several rows."""
    initial = {key: assembly.start(key) for key in assembly.states}
    single = 0 if options.batch == "one" else None
    runs = [
        fresh_rollout(assembly.programs, assembly.timeline, initial, options.validation_steps, seed)
        for seed in range(_ROWS if assembly.batched and single is None else 1)
    ]
    recording = Recording()
    for ticks in zip(*runs, strict=True):
        if ticks[0].reset:
            recording.reset()
        groups = ([getattr(tick, group) for tick in ticks] for group in ("inputs", "outputs", "states"))
        assembly.add_tick(recording, ticks[0].rate, *groups, single=single)
    return recording.golden()


def _failures(assembly: Assembly, report: Report, what: str) -> list[Finding]:
    """The first thing that went wrong in each mode, with the line that declared the port."""
    found: dict[str, Finding] = {}
    lines = {f"outputs/{label}": assembly.line_of(key) for key, label in assembly.layout.outputs.items()}
    lines |= {
        f"states/{assembly.layout.states[key]}": state.line
        for key, state in assembly.states.items()
        if state.line is not None
    }
    for mismatch in report.mismatches:
        message = f"the saved files, on {what}: {mismatch.message}"
        found.setdefault(message, Finding("precision", message, lines.get(mismatch.port), mismatch.port or None))
    return list(found.values())
