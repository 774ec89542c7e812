"""``ashore verify``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ashore.cli.output import console, print_json, progress, table
from ashore.package import read
from ashore.verify import DEFAULT_ATOL, DEFAULT_RTOL, MODES, Report, replay


def run(
    path: Path, *, backend: str | None, device: str | None, atol: float | None, rtol: float | None, as_json: bool
) -> bool:
    """Verify the package at `path`, print what was found, and say whether it passed."""
    package = read(path)
    golden = package.golden()
    with progress("replaying", len(MODES) * len(golden.ticks) if golden else 0) as bar:
        report = replay(
            package, backend=backend, device=device, atol=atol, rtol=rtol, advance=lambda: bar.advance(bar.task_ids[0])
        )
    if as_json:
        print_json({**asdict(report), "passed": report.passed})
    else:
        _print(report)
    return report.passed


def _print(report: Report) -> None:
    out = console()
    out.print(
        f"{report.package}: {report.steps} steps, {report.substeps} substeps, {report.resets} resets "
        f"on {report.backend!r}, within {report.atol:g} + {report.rtol:g} |x|"
    )
    if report.tolerance_from == "package" and (report.atol > DEFAULT_ATOL or report.rtol > DEFAULT_RTOL):
        out.print("the package itself asks for this tolerance, which is looser than the default", style="yellow")
    shown = table("", "port", *(f">max |error| {_spoken(mode)}" for mode in MODES))
    for port in {port: None for mode in MODES for port in report.max_abs_error[mode]}:
        shown.add_row(port, *(f"{report.max_abs_error[mode].get(port, 0.0):.3g}" for mode in MODES))
    out.print(shown)
    for mismatch in report.mismatches:
        out.print("differs", f"{_spoken(mismatch.mode)}, {mismatch.message}", style="red")
    if report.passed:
        out.print("verified: the saved files compute what was recorded", style="green")
    else:
        out.print("not verified", style="red")


def _spoken(mode: str) -> str:
    return mode.replace("_", "-")
