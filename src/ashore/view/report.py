"""What a verification found, as one page that loads nothing: to be sent with a package, and read without Ashore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ashore.package import Package
from ashore.verify import MODES, BackendReport, Compared, Examination, Pace, Problem
from ashore.view.html import Markup, Section, Series, badge, document, facts, histogram, join, lines, note, table, tiles
from ashore.view.html.parts import Tone
from ashore.view.page import Page

_TONES: Mapping[str, Tone] = {"error": "bad", "warning": "warning", "note": "plain"}
_ORDER = ("error", "warning", "note")


def report_page(package: Package, found: Examination) -> Page:
    """Make the page.

    Args:
        package: what was verified.
        found: what was found.
    """
    manifest, first = package.manifest, found.backends[0].replay
    verdict = badge("verified", "good") if found.passed else badge("not verified", "bad")
    lead = "The saved files compute what was recorded, and the contract is the one they were recorded with."
    if not found.passed:
        lead = "Something differs; what and where stands first under Findings."
    errors, warnings = (sum(one.severity == kind for one in _findings(found)) for kind in ("error", "warning"))
    head = tiles(
        [
            ("Recorded", f"{first.steps} decisions, {first.substeps} substeps, {first.resets} resets"),
            ("Largest difference", f"{max(one.replay.worst(mode) for one in found.backends for mode in MODES):.2g}"),
            ("Within", f"{first.atol:g} + {first.rtol:g} |x|"),
            ("Backends", ", ".join(one.backend for one in found.backends)),
            ("Errors, warnings", f"{errors}, {warnings}"),
        ]
    )
    golden = package.golden()
    resets = [tick.index for tick in golden.ticks if tick.reset] if golden is not None else []
    sections = [
        Section("findings", "Findings", _findings_table(found)),
        Section(
            "errors", "Against the recording", [_errors_table(found), *_error_plots(found, resets)], note=_REPLAYED
        ),
        Section("inputs", "Inputs", _inputs_table(found), note=_INPUTS),
        Section("timing", "Timing", [_pace_table(found), *_pace_plots(found)], note=_TIMED),
    ]
    if compared := list(_compared(found)):
        sections.insert(2, Section("compared", "Against another way to run it", compared, note=_COMPARED))
    sections.append(Section("package", "Package", _about(package)))
    html = document(f"Verification of {manifest.name}", sections, lead=lead, badges=[verdict], head=head)
    return Page(manifest.name, html, "verified" if found.passed else "not verified")


_REPLAYED = (
    "Stepwise, every tick starts from the recorded state; free-running, only the resets are taken from the recording, "
    "so errors add up as they would on a robot."
)
_COMPARED = "The environment is not here to ask, so the files were run in another way and both were compared."
_INPUTS = "What each input was while it was recorded, and whether anything reacts when it is changed."
_TIMED = "On the machine that this was run on. A call that is not done when the next is due comes too late."


def _findings(found: Examination) -> list[Problem]:
    """Everything that was found, the worst first."""
    several = len(found.backends) > 1
    differences = [
        Problem(
            "replay",
            "error",
            one.port or one.call,
            (f"{backend.backend}, " if several else "") + f"{one.mode.replace('_', '-')}, {one.message}",
        )
        for backend in found.backends
        for one in backend.replay.mismatches
    ]
    return sorted((*differences, *found.problems), key=lambda problem: _ORDER.index(problem.severity))


def _findings_table(found: Examination) -> Markup:
    problems = _findings(found)
    if not problems:
        return note("Nothing to say: no difference, no change of the contract, no input without effect.", tone="good")
    rows = [(badge(one.severity, _TONES[one.severity]), one.part, one.where, one.message) for one in problems]
    return table("Findings", ["severity", "part", ".where", "what"], rows)


def _errors_table(found: Examination) -> Markup:
    columns = [f">{one.backend}, {mode.replace('_', '-')}" for one in found.backends for mode in MODES]
    reports = [one.replay for one in found.backends]
    ports = dict.fromkeys(port for report in reports for mode in MODES for port in report.max_abs_error[mode])
    rows = [
        (port, *(f"{report.max_abs_error[mode].get(port, 0.0):.3g}" for report in reports for mode in MODES))
        for port in ports
    ]
    return table("Largest absolute difference", [".port", *columns], rows)


def _error_plots(found: Examination, resets: Sequence[int]) -> Iterator[Markup]:
    for one in found.backends:
        traces = one.replay.traces["free_running"]
        if not traces:
            continue
        ticks = sorted({tick for trace in traces.values() for tick in trace.ticks})
        rows = {port: dict(zip(trace.ticks, trace.errors, strict=True)) for port, trace in traces.items()}
        series = [Series(port, [row.get(tick) for tick in ticks]) for port, row in rows.items()]
        growing = [drift.port for drift in one.drift if drift.grows]
        said = f"It grows within an episode: {', '.join(growing)}." if growing else "It grows in no port."
        yield lines(
            f"Error in every tick, free-running on {one.backend}",
            ticks,
            series,
            summary=said,
            x_label="tick",
            y_label="largest absolute difference",
            marks=resets,
            mark_label="reset",
        )


def _compared(found: Examination) -> Iterator[Markup]:
    rows: list[Sequence[str]] = []
    for one in found.backends:
        for what, compared in (("drawn inputs", one.fuzz), ("one long episode", one.episode)):
            if compared is not None:
                rows.append(_compared_row(one, what, compared))
    if rows:
        columns = ["backend", "inputs", "against", ">decisions", ">largest difference", ">refused by both", "verdict"]
        yield table("Comparisons", columns, rows)
    for one in found.backends:
        if one.episode is not None and one.episode.traces:
            longest = max(map(len, one.episode.traces.values()))
            series = [
                Series(port, [*errors, *[None] * (longest - len(errors))])
                for port, errors in one.episode.traces.items()
            ]
            yield lines(
                f"Error over one long episode on {one.backend}, against {one.episode.reference}",
                range(longest),
                series,
                summary=f"{one.episode.decisions} decisions without a reset.",
                x_label="call",
                y_label="largest absolute difference",
            )


def _compared_row(one: BackendReport, what: str, compared: Compared) -> Sequence[str]:
    worst = max(compared.max_abs_error.values(), default=0.0)
    seeded = f"{what}, seed {compared.seed}" if what.startswith("drawn") else what
    verdict = badge("differs", "bad") if compared.first else badge("agrees", "good")
    return (
        one.backend,
        seeded,
        compared.reference,
        f"{compared.decisions:,}",
        f"{worst:.3g}",
        str(compared.refused),
        verdict,
    )


def _inputs_table(found: Examination) -> Markup:
    tried, names = found.sensitivity, dict.fromkeys((*found.ranges, *found.sensitivity.by, *found.sensitivity.skipped))
    rows: list[Sequence[str | None]] = []
    for name in names:
        seen = found.ranges.get(name)
        if name in tried.silent:
            reacts: str = badge("nothing reacts", "warning")
        elif name in tried.silent_elements:
            reacts = join(badge("in part", "warning"), " not to ", ", ".join(tried.silent_elements[name]))
        elif name in tried.by:
            one_by_one = tried.by[name] == "element"
            reacts = join(badge("reacts", "good"), " to each element" if one_by_one else " to all together")
        else:
            reacts = badge("not looked at")
        rows.append(
            (
                name,
                f"{seen.lowest:.4g}" if seen else None,
                f"{seen.highest:.4g}" if seen else None,
                ("yes" if seen.unit else "no") if seen else None,
                reacts,
            )
        )
    return table("Inputs", [".input", ">lowest", ">highest", "unit vector", "does an output react"], rows)


def _pace_table(found: Examination) -> Markup:
    rows = [_pace_row(one, pace) for one in found.backends for pace in one.pace]
    columns = ["call", "backend", ">samples", ">p50 ms", ">p99 ms", ">max ms", ">due every ms", "verdict"]
    return table("Time of a call", columns, rows)


def _pace_row(one: BackendReport, pace: Pace) -> Sequence[str | None]:
    times = (f"{value / 1e3:.4g}" for value in (pace.p50_us, pace.p99_us, pace.max_us))
    if pace.period_us is None:
        period, verdict = None, badge("not stated")
    else:
        period = f"{pace.period_us / 1e3:.4g}"
        verdict = badge("too late", "bad") if pace.p99_us > pace.period_us else badge("in time", "good")
    return (pace.call, one.backend, f"{pace.samples:,}", *times, period, verdict)


def _pace_plots(found: Examination) -> Iterator[Markup]:
    for one in found.backends:
        for pace in one.pace:
            marks = [("p50", pace.p50_us), ("p99", pace.p99_us)]
            yield histogram(
                f"{pace.call} on {one.backend}",
                pace.edges_us,
                pace.counts,
                summary=f"{pace.samples:,} calls; half of them took less than {pace.p50_us:.4g} µs.",
                x_label="µs",
                marks=marks,
                log=True,
            )


def _about(package: Package) -> Markup:
    manifest = package.manifest
    proof = manifest.verification
    tools = ", ".join(f"{name} {version}" for name, version in manifest.provenance.tools.items())
    return facts(
        [
            ("Name", manifest.name),
            ("Version", manifest.version),
            ("Made", manifest.provenance.created_at),
            ("With", tools or None),
            ("Manifest", manifest.manifest_sha256),
            ("Verification when it was written", proof.status if proof else None),
            ("Findings that were allowed", ", ".join(dict.fromkeys(one.name for one in manifest.findings)) or "none"),
        ]
    )
