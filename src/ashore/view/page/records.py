"""What the export left in the package: findings, constants, verification, origin, files."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ashore.spec import MANIFEST, Manifest
from ashore.verify import MODES, Report
from ashore.view import words
from ashore.view.html import Child, Markup, Section, badge, code, facts, note, table, tag
from ashore.view.html.parts import Tone
from ashore.view.page.evidence import Evidence

_TONES: dict[str, Tone] = {"info": "plain", "warning": "warning", "error": "bad"}
_SHORT = 12
"""So many digits of a digest are shown; the manifest has all."""


def findings(manifest: Manifest) -> Section:
    """What the export saw and was told to allow."""
    if not manifest.findings:
        body = note(
            "None. The export saw nothing that could make the package differ from the environment.", tone="good"
        )
        return Section("findings", "Findings", body)
    columns = ("severity", "finding", "message", "tensor", "where", "remedy")
    rows = [
        (
            badge(one.severity, _TONES[one.severity]),
            one.name,
            one.message,
            _code(one.tensor),
            _code(one.where),
            one.remedy,
        )
        for one in manifest.findings
    ]
    said = (
        "What the export saw that could make the package differ from the environment, and what it was allowed to pass."
    )
    return Section(
        "findings", "Findings", table("Findings that were allowed", columns, rows, captioned=False), note=said
    )


def constants(manifest: Manifest) -> Section:
    """What was taken for a constant, outside any module."""
    said = (
        "Tensors that never changed while the export watched, and that are no parameters: check that none is a command."
    )
    if not manifest.constants:
        body = note("None: nothing outside parameters and buffers of modules was taken for a constant.")
        return Section("constants", "Constants", body)
    rows = [
        (
            _code(one.name),
            _code(one.where),
            f"{one.dtype} [{', '.join(map(str, one.shape))}]",
            words.constant(one),
        )
        for one in manifest.constants
    ]
    body = table("Frozen constants", ("name", "where", "!array", "values"), rows, captioned=False)
    return Section("constants", "Constants", body, note=said)


def verification(manifest: Manifest, evidence: Evidence) -> Section:
    """What was proven when the package was written, and what this page found."""
    return Section(
        "verification",
        "Verification",
        [
            tag("h3", "Now, while this page was made"),
            _now(evidence),
            tag("h3", "When the package was written"),
            _then(manifest),
        ],
    )


def provenance(manifest: Manifest) -> Section:
    """Where the package comes from."""
    return Section("provenance", "Provenance", facts(_origin(manifest)))


def files(manifest: Manifest, total: int) -> Section:
    """Every file, its size and the beginning of its digest."""
    entries = sorted(manifest.files.items(), key=lambda item: -item[1].size)
    rows = [
        (code(path), f"{entry.size:,}", f"{entry.size / max(1, total):.0%}", code(entry.sha256[:_SHORT]))
        for path, entry in entries
    ]
    seal = f", sealed by {manifest.manifest_sha256[:_SHORT]}…" if manifest.manifest_sha256 else ""
    said = f"{len(entries)} files of {total:,} bytes together, and {MANIFEST}{seal}. Every digest was checked."
    return Section(
        "files",
        "Files",
        table("Files", ("path", ">bytes", ">share", "sha256 begins"), rows, captioned=False),
        note=said,
    )


def verdict(evidence: Evidence) -> tuple[str, Tone]:
    """In a few words: does the package still compute what was recorded?"""
    if evidence.not_run is not None:
        return "could not be run here", "warning"
    if evidence.report is None:
        return "no recording", "warning"
    if evidence.report.passed and evidence.stopped is None:
        return "gives back its recording", "good"
    return "differs from its recording", "bad"


def _now(evidence: Evidence) -> list[Markup]:
    if evidence.not_run is not None:
        return [note(f"The package could not be run here: {evidence.not_run}", tone="warning")]
    report = evidence.report
    if report is None:
        return [note("The package holds no recording, so there is nothing to compare with.", tone="warning")]
    parts: list[Markup] = []
    if report.passed:
        said = "The saved files compute what was recorded, stepwise and free-running."
        parts.append(note(said, tone="good"))
    parts += [note(f"{words.spoken(one.mode)}, {one.message}", tone="bad") for one in report.mismatches]
    if evidence.stopped:
        parts.append(note(f"Running the recording ended with an error. {evidence.stopped}", tone="bad"))
    chosen = {"default": "the default", "package": "as the package asks", "caller": "as asked for"}[
        report.tolerance_from
    ]
    parts.append(
        facts(
            [
                ("recording", f"{report.steps} steps, {report.substeps} substeps, {report.resets} resets"),
                ("runs on", report.backend),
                ("tolerance", f"{report.atol:g} + {report.rtol:g} |x|, {chosen}"),
            ]
        )
    )
    parts.append(_errors(report))
    return parts


def _errors(report: Report) -> Markup:
    ports = {port: None for mode in MODES for port in report.max_abs_error[mode]}
    rows = [(port, *(f"{report.max_abs_error[mode].get(port, 0.0):.3g}" for mode in MODES)) for port in ports]
    return table("Largest differences", ("port", *(f">{words.spoken(mode)}" for mode in MODES)), rows)


def _then(manifest: Manifest) -> Markup:
    proof = manifest.verification
    if proof is None:
        return note("The package does not say.", tone="warning")
    if proof.status == "skipped":
        return note("The export was told to verify nothing.", tone="warning")
    pairs: list[tuple[str, Child]] = [
        ("verified on", f"{proof.steps} steps, {proof.substeps} substeps, {proof.resets} resets"),
    ]
    if proof.atol is not None and proof.rtol is not None:
        pairs.append(("tolerance", f"{proof.atol:g} + {proof.rtol:g} |x|"))
    for one in proof.results:
        errors = f"{one.max_abs_error_stepwise:.3g} stepwise, {one.max_abs_error_free_running:.3g} free-running"
        pairs.append((f"{one.backend} ({one.runtime})", f"largest error {errors}"))
    return facts(pairs)


def _origin(manifest: Manifest) -> Iterator[tuple[str, Child]]:
    origin = manifest.provenance
    yield "name", manifest.name
    yield "version", manifest.version or "not stated"
    if manifest.description:
        yield "description", manifest.description
    yield "task", origin.task or "not stated"
    if origin.checkpoint:
        yield "checkpoint", [code(origin.checkpoint.name), ", sha256 ", code(origin.checkpoint.sha256)]
    if origin.git:
        yield "training code", [code(origin.git.commit), ", with uncommitted changes" if origin.git.dirty else ""]
    if origin.tools:
        yield "tools", ", ".join(f"{name} {version}" for name, version in origin.tools.items())
    if origin.python:
        yield "Python", origin.python
    if origin.platform:
        yield "platform", origin.platform
    yield "created", origin.created_at or "not stated"
    yield "licence", manifest.licence or "not stated"
    yield "schema", f"version {manifest.schema_version}"
    if manifest.manifest_sha256:
        yield "seal", code(manifest.manifest_sha256)
    for key, value in manifest.metadata.items():
        yield key, code(json.dumps(value, ensure_ascii=False))


def _code(text: str | None) -> Markup | None:
    return code(text) if text else None
