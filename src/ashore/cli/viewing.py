"""``ashore view``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ashore.cli.output import console, print_json, progress
from ashore.package import ARCHIVE_SUFFIX, read
from ashore.view.page import Evidence, Page, gather, make_page, serve, write_page


def run(
    path: Path,
    *,
    out: Path | None,
    film: Path | None,
    samples: int,
    backend: str | None,
    port: int | None,
    as_json: bool,
) -> None:
    """Write the page of the package at `path`, and with a port show it until the user has seen enough."""
    package = read(path)
    out = out or _beside(path)
    with progress("starting", None) as bar:
        evidence = gather(
            package,
            samples=samples,
            backend=backend,
            advance=lambda what: bar.update(bar.task_ids[0], description=what),
        )
    page = make_page(package, evidence, film=film)
    write_page(page, out)
    server = serve(page, port) if port is not None else None
    url = f"http://127.0.0.1:{server.server_port}/" if server else None
    if as_json:
        print_json({"path": str(out), "url": url, **_measured(page, evidence)})
    else:
        _print(page, evidence, out, url)
    if server is not None:
        with server, suppress(KeyboardInterrupt):
            server.serve_forever()


def _beside(path: Path) -> Path:
    whole = path.resolve()  # its name, where it is written as a dot
    return whole.with_name(whole.name.removesuffix(ARCHIVE_SUFFIX) + ".html")


def _measured(page: Page, evidence: Evidence) -> dict[str, object]:
    return {
        "package": page.name,
        "size_bytes": len(page.html),
        "verdict": page.verdict,
        "not_run": evidence.not_run,
        "passed": evidence.report.passed if evidence.report else None,
        "max_abs_error": evidence.report.worst("free_running") if evidence.report else None,
        "latency_us": {
            rate: {"samples": len(one.times_us), "p50": one.percentile(50), "p99": one.percentile(99)}
            for rate, one in evidence.latency.items()
        },
    }


def _print(page: Page, evidence: Evidence, out: Path, url: str | None) -> None:
    shown = console()
    good = evidence.report is not None and evidence.report.passed
    shown.print(f"{page.name} {page.verdict}", style="green" if good else "yellow")
    if evidence.not_run:
        shown.print(evidence.not_run, style="yellow")
    shown.print(f"{out}: {len(page.html):,} bytes")
    if url:
        shown.print(f"{url} until Ctrl+C")
