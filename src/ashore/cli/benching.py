"""``ashore bench``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ashore.cli.output import console, print_json, progress, table
from ashore.package import read
from ashore.verify import Latency, Timing, bench


def run(path: Path, *, backend: str, device: str | None, samples: int, threads: int, as_json: bool) -> None:
    """Measure the package at `path` and print what was measured."""
    package = read(path)
    rates = len({stage.rate for stage in package.manifest.stages.values()})
    with progress("measuring", 2 * samples * rates) as bar:
        timings = bench(
            package, backend=backend, device=device, threads=threads, samples=samples,
            advance=lambda count: bar.advance(bar.task_ids[0], count),
        )  # fmt: skip
    if as_json:
        rows = [{**asdict(timing), "ratio_p50": timing.ratio} for timing in timings]
        print_json({"package": package.manifest.name, "backend": backend, "threads": threads, "timings": rows})
        return
    print(f"{package.manifest.name}: {samples:,} calls each, taking turns, on {backend!r}, {threads} thread(s)")
    shown = table("", "rate", "what", ">p50 µs", ">p99 µs", ">p99.9 µs", ">p50 ratio")
    for timing in timings:
        for name, latency, ratio in _rows(timing):
            numbers = (f"{value:.1f}" for value in (latency.p50_us, latency.p99_us, latency.p999_us))
            shown.add_row(timing.rate, name, *numbers, ratio)
    console().print(shown)
    dt_s = package.manifest.timing.policy_dt_s if package.manifest.timing else None
    if dt_s is not None:
        share = timings[0].policy.p99_us / (dt_s * 1e6)
        print(f"A decision takes {share:.2%} of its {dt_s * 1e3:g} ms at p99.")


def _rows(timing: Timing) -> Iterator[tuple[str, Latency, str]]:
    yield "policy, checks on", timing.policy, f"{timing.ratio:.2f}x"
    yield "bare session.run", timing.bare, "1.00x"
