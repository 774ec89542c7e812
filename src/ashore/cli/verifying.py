"""``ashore verify``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from ashore.cli.output import console, print_json, progress, table
from ashore.errors import PackageError
from ashore.package import Package, read
from ashore.verify import DEFAULT_ATOL, DEFAULT_RTOL, MODES, BackendReport, Compared, Examination, examine

_STYLES = {"error": "red", "warning": "yellow", "note": ""}


def run(
    path: Path,
    *,
    backends: Sequence[str | None],
    device: str | None,
    atol: float | None,
    rtol: float | None,
    steps: int,
    fuzz: int,
    seed: int,
    report: Path | None,
    as_json: bool,
) -> bool:
    """Verify the package at `path`, print what was found, and say whether it passed."""
    if report is not None and report.suffix not in (".html", ".htm"):
        raise PackageError(f"--report {report}: a report is an .html file")
    package = read(path)
    golden = package.golden()
    ticks = len(MODES) * len(golden.ticks) if golden else 0
    with progress("verifying", len(backends) * (ticks + steps + fuzz)) as bar:
        found = examine(
            package, backends=backends, device=device, atol=atol, rtol=rtol, steps=steps, decisions=fuzz, seed=seed,
            advance=lambda: bar.advance(bar.task_ids[0]),
        )  # fmt: skip
    if report is not None:
        _write(report, package, found)
    if as_json:
        print_json({**_document(found), "report": str(report) if report else None})
    else:
        _print(found)
        if report is not None:
            print(f"written to {report}")
    return found.passed


def _write(report: Path, package: Package, found: Examination) -> None:
    from ashore.view.page import write_page  # only who wants a page pays for it
    from ashore.view.report import report_page

    write_page(report_page(package, found), report)


def _document(found: Examination) -> dict[str, Any]:
    """Everything, and the replay on the first backend at the top, where scripts look for it."""
    whole = asdict(found)
    first: dict[str, Any] = {**whole["backends"][0]["replay"]}
    first.pop("traces")
    return {**first, "passed": found.passed, **{key: value for key, value in whole.items() if key != "package"}}


def _print(found: Examination) -> None:
    out = console()
    for one in found.backends:
        report = one.replay
        out.print(
            f"{report.package}: {report.steps} steps, {report.substeps} substeps, {report.resets} resets "
            f"on {report.backend!r}, within {report.atol:g} + {report.rtol:g} |x|"
        )
    report = found.backends[0].replay
    if report.tolerance_from == "package" and (report.atol > DEFAULT_ATOL or report.rtol > DEFAULT_RTOL):
        out.print("the package itself asks for this tolerance, which is looser than the default", style="yellow")
    _print_errors(out, found.backends)
    _print_pace(out, found.backends)
    for one in found.backends:
        for what, compared in (("drawn inputs", one.fuzz), ("one long episode", one.episode)):
            if compared is not None:
                out.print(f"{one.backend}, {_compared(what, compared)}")
    several = len(found.backends) > 1
    for one in found.backends:
        where = f"{one.backend}, " if several else ""
        for mismatch in one.replay.mismatches:
            out.print("differs", f"{where}{_spoken(mismatch.mode)}, {mismatch.message}", style="red")
    for problem in found.problems:
        out.print(f"{problem.severity}: {problem.message}", style=_STYLES[problem.severity])
    if found.passed:
        out.print("verified: the saved files compute what was recorded", style="green")
    else:
        out.print("not verified", style="red")


def _print_errors(out: Console, backends: Sequence[BackendReport]) -> None:
    several = len(backends) > 1
    heads = [f">{one.backend if several else 'max |error|'} {_spoken(mode)}" for one in backends for mode in MODES]
    shown = table("max |error|" if several else "", "port", *heads)
    reports = [one.replay for one in backends]
    for port in {port: None for report in reports for mode in MODES for port in report.max_abs_error[mode]}:
        numbers = (f"{report.max_abs_error[mode].get(port, 0.0):.3g}" for report in reports for mode in MODES)
        shown.add_row(port, *numbers)
    out.print(shown)


def _print_pace(out: Console, backends: Sequence[BackendReport]) -> None:
    shown = table("", "call", "on", ">samples", ">p50 µs", ">p99 µs", ">max µs", ">due every µs")
    for one in backends:
        for pace in one.pace:
            numbers = (f"{value:.1f}" for value in (pace.p50_us, pace.p99_us, pace.max_us))
            period = "not stated" if pace.period_us is None else f"{pace.period_us:.0f}"
            shown.add_row(pace.call, one.backend, f"{pace.samples:,}", *numbers, period)
    if shown.row_count:
        out.print(shown)


def _compared(what: str, compared: Compared) -> str:
    worst = max(compared.max_abs_error.values(), default=0.0)
    refused = f", {compared.refused} refused by both" if compared.refused else ""
    return f"{what}: {compared.decisions} decisions against {compared.reference}, max |error| {worst:.3g}{refused}"


def _spoken(mode: str) -> str:
    return mode.replace("_", "-")
