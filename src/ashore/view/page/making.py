"""The page itself: every section in the order in which people ask."""

from __future__ import annotations

import base64
import datetime
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ashore import __version__
from ashore.errors import AshoreError
from ashore.package import Package, batch_of
from ashore.spec import MANIFEST, Manifest
from ashore.view import words
from ashore.view.html import Child, Markup, Section, badge, document, note, tag, tiles
from ashore.view.page import contract, records, timings
from ashore.view.page.details import details
from ashore.view.page.evidence import Evidence
from ashore.view.page.picture import picture
from ashore.view.page.plots import plots, trajectories
from ashore.view.page.ranges import observe

FILMS = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif", ".webp": "image/webp", ".png": "image/png"}
MAX_FILM_BYTES = 64 << 20


@dataclass(frozen=True)
class Page:
    """A page, ready to be written or shown."""

    name: str
    """The package it is about."""

    html: bytes
    verdict: str
    """In a few words: does the package still compute what was recorded?"""


def make_page(package: Package, evidence: Evidence, *, film: Path | None = None) -> Page:
    """Show a package.

    Args:
        package: what to show. Nothing in it is trusted: every text in it stays a text.
        evidence: what running it showed; see `gather`.
        film: a film or an image of the robot, to be put into the page.
    """
    manifest, golden = package.manifest, evidence.golden
    observed, initial = observe(golden), package.initial_state()
    told = details(manifest, observed, initial, batch_of(golden, manifest) if golden else 1)
    sections = [
        *([_film(film)] if film else []),
        picture(package, told),
        contract.contract(manifest, observed, initial),
        contract.joints(manifest),
        contract.stages(manifest),
        _trajectories(manifest, evidence),
        timings.latency(manifest, evidence),
        records.findings(manifest),
        records.constants(manifest),
        records.verification(manifest, evidence),
        records.provenance(manifest),
        records.files(manifest, package.size),
    ]
    verdict, tone = records.verdict(evidence)
    html = document(
        manifest.name,
        sections,
        lead=manifest.description or words.timing(manifest),
        badges=[badge(verdict, tone), *_warnings(manifest)],
        head=_tiles(package, evidence),
        foot=_foot(package),
        styles=("graph.css",),
        scripts=("graph.js",),
    )
    return Page(manifest.name, html, verdict)


def write_page(page: Page, out: Path) -> None:
    """Write a page, whole or not at all.

    Raises:
        AshoreError: `out` lies in a package, which holds nothing but its own files, or cannot be written.
    """
    for folder in out.absolute().parents:
        if (folder / MANIFEST).is_file():
            raise AshoreError(f"{out}: lies in the package {folder}, which holds nothing but its own files; use --out")
    if out.is_dir():
        raise AshoreError(f"{out}: is a directory; name the file to write")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            fresh = Path(scratch) / "page"
            fresh.write_bytes(page.html)
            fresh.replace(out)
    except OSError as error:
        raise AshoreError(f"{out}: cannot be written: {error.strerror or error}") from error


def _tiles(package: Package, evidence: Evidence) -> Markup:
    manifest = package.manifest
    pairs: list[tuple[str, Child]] = [("decides", [_rate(manifest), _substeps(manifest)])]
    if manifest.joints:
        pairs.append(("joints", str(len(manifest.joints))))
    counts = (len(manifest.inputs), len(manifest.outputs), len(manifest.states))
    pairs.append(("inputs, outputs, states", ", ".join(map(str, counts))))
    if evidence.report is not None:
        worst = evidence.report.worst("free_running")
        pairs.append(("largest error", f"{worst:.2g}" if worst else "0"))
    if "policy" in evidence.latency:
        one, period = evidence.latency["policy"], timings.period_us(manifest, "policy")
        p99 = one.percentile(99)
        share = tag("div", f"{p99 / period:.2%} of its period", class_="small") if period else None
        pairs.append(("a decision takes (p99)", [words.duration(p99), share]))
    pairs.append(("size", words.size(package.size)))
    return tiles(pairs)


def _rate(manifest: Manifest) -> str:
    timing = manifest.timing
    return words.frequency(timing.policy_dt_s) if timing and timing.policy_dt_s else "not stated"


def _substeps(manifest: Manifest) -> Markup | None:
    if not any(stage.rate == "substep" for stage in manifest.stages.values()):
        return None
    timing = manifest.timing
    each = f" of {words.duration(timing.physics_dt_s * 1e6)}" if timing and timing.physics_dt_s else ""
    return tag("div", f"{timing.decimation if timing else 1} substeps{each}", class_="small")


def _warnings(manifest: Manifest) -> list[Markup]:
    found: list[Markup] = []
    serious = [one for one in manifest.findings if one.severity != "info"]
    if serious:
        found.append(badge(f"{len(serious)} finding{'s' * (len(serious) > 1)} allowed", "warning"))
    privileged = [name for name, port in manifest.inputs.items() if port.source == "privileged"]
    if privileged:
        found.append(badge("needs what only a simulator has", "bad"))
    return found


def _trajectories(manifest: Manifest, evidence: Evidence) -> Section:
    title = "Trajectories"
    if evidence.golden is None:
        body = note("The package holds no recording.", tone="warning")
        return Section("trajectories", title, body)
    groups = [trajectories(manifest, evidence, group) for group in ("outputs", "states", "inputs")]
    drawn = plots(manifest, groups)
    parts: list[Markup] = []
    if evidence.stopped:
        parts.append(note(f"The package stopped before the end of the recording. {evidence.stopped}", tone="bad"))
    elif evidence.not_run:
        parts.append(note(f"Only what was recorded is shown: {evidence.not_run}", tone="warning"))
    for name, known, figures in zip(("Outputs", "States", "Inputs"), groups, drawn, strict=True):
        if not known:
            continue
        left = len(known) - len(figures)
        more = note(f"{left} more are not plotted, for the page would become too large.") if left else None
        heading = tag("summary", f"{name} ({len(known)})")
        parts.append(tag("details", heading, figures, more, open=name == "Outputs"))
    said = (
        "The recording of the environment, and what the package computes from the same inputs and resets, running "
        "freely from the first tick to the last."
    )
    return Section("trajectories", title, parts, note=said)


def _film(file: Path) -> Section:
    kind = FILMS.get(file.suffix.lower())
    if kind is None:
        raise AshoreError(f"{file}: a film ends in one of {', '.join(FILMS)}")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise AshoreError(f"{file}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_FILM_BYTES:
        raise AshoreError(f"{file}: {len(data):,} bytes; a page takes a film of at most {MAX_FILM_BYTES:,}: shorten it")
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    if kind.startswith("image/"):
        shown = tag("img", src=source, alt="The policy at work", class_="film")
    else:
        shown = tag("video", src=source, controls=True, loop=True, muted=True, playsinline=True, class_="film")
    return Section("film", "Film", shown, note=f"{file.name}, put into this page.")


def _foot(package: Package) -> Markup:
    now = datetime.datetime.now(datetime.timezone.utc)
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        now = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
    seal = package.manifest.manifest_sha256
    return tag(
        "p",
        f"Made by Ashore {__version__} on {now:%Y-%m-%d %H:%M} UTC from the package {package.path.name}",
        f", seal {seal[:12]}…" if seal else "",
        ". This page loads nothing and sends nothing.",
    )
