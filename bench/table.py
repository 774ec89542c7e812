"""Measure what the table in the README says, keep it in bench/results.json, and write the table into the pages.

python bench/table.py                the measurements, which takes half an hour, and the pages
python bench/table.py --only step    one of them again: step, startup or cases; the others stay as they were
python bench/table.py --write        only the pages, from the results that are there

The pages have the table between two comments; tests/docs/test_table.py checks that it says what the results say.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
ROOT = BENCH.parent
RESULTS = BENCH / "results.json"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PAGES = (ROOT / "README.md", ROOT / "docs" / "comparison.md")
SCRIPTS = {"step": "leapp_step.py", "startup": "startup.py", "cases": "hard_cases.py"}
"""Measurement -> script. One that is not there yet is left out, and so is its column."""

VERSIONS = ("onnxruntime", "torch", "leapp", "numpy")


def measured(name: str) -> tuple[Any, str]:
    """What a script says as JSON, and its complaint if a limit is not kept: what was measured is kept all the same."""
    print(f"measuring: {name}", file=sys.stderr, flush=True)
    command = [sys.executable, SCRIPTS[name], "--json"]
    done = subprocess.run(command, cwd=BENCH, stdout=subprocess.PIPE, text=True, check=False)
    try:
        return json.loads(
            done.stdout
        ), f"{name}: {SCRIPTS[name]} ended with {done.returncode}" if done.returncode else ""
    except json.JSONDecodeError:
        sys.exit(f"{SCRIPTS[name]} failed with {done.returncode}: {done.stdout[-2000:]}")


def collect(only: list[str], before: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The results, measured again as far as that is asked for, and what did not keep its limit."""
    results, complaints = dict(before), []
    for name in only:
        load = os.getloadavg()[0]
        found, complaint = measured(name)
        complaints += [complaint] if complaint else []
        if name == "cases":  # what became of every case; the sentences that tools print are left out
            found["rows"] = [[row["case"], row["ashore"]["outcome"], row["leapp"]["outcome"]] for row in found["rows"]]
        if isinstance(found, list):
            found = {"rows": found}
        results[name] = {
            "measured": date.today().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": round(load, 1),
            "python": platform.python_version(),
            "versions": {package: version(package) for package in VERSIONS},
            **found,
        }
    return results, complaints


def table(results: dict[str, Any]) -> str:
    """The table in Markdown, with what was measured below it."""
    step, startup, cases = results["step"], results["startup"], results["cases"]
    rows, p50 = step["rows"], startup["p50"]
    bare = rows["bare session.run"]["p50_us"]

    def latency(name: str) -> list[str]:
        row = rows[name]
        return [f"{row['p50_us'] / bare:.2f}x", f"{us(row['p50_us'])}", us(row["p99_us"])]

    def start(name: str) -> list[str]:
        return [f"{p50[name]['cpu_ms'] / 1e3:.2f} s", f"{p50[name]['memory_mib']:.0f} MiB"]

    def ended(tool: str) -> list[str]:
        counts = cases["counts"][tool]
        failed = counts["fails when run"] + counts["died"]
        return [str(one) for one in (counts["exact"], counts["refused"], failed, counts["silently wrong"])]

    none = ["", "", "", ""]
    columns = {
        "": [
            "a step, against a bare `session.run`, p50", "a step, p50", "a step, p99",
            "import, load, first step: CPU time", "its memory",
            "hard cases: exact", "hard cases: refused when exported",
            "hard cases: an error when run, or a crash", "**hard cases: silently wrong**",
        ],
        "Ashore": [*latency("ashore.load(…).step"), *start("ashore"), *ended("ashore")],
        "Ashore, as C": [*latency('ashore.load(…, backend="c").step'), "", "", *none],
        "bare ONNX Runtime": [*latency("bare session.run"), *start("bare onnxruntime"), *none],
        f"LEAPP {step['versions']['leapp']}": [*latency("leapp.InferenceManager"), *start("leapp"), *ended("leapp")],
        "torch eager": [*latency("torch eager"), *start("torch eager"), *none],
    }  # fmt: skip
    lines = [list(columns), ["---", *["---:"] * (len(columns) - 1)], *zip(*columns.values(), strict=True)]
    told = "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)
    return f"{told}\n\n{below(results)}"


def us(value: float) -> str:
    return f"{value:.1f} µs" if value < 10 else f"{value:.0f} µs"


def below(results: dict[str, Any]) -> str:
    step, startup, cases = results["step"], results["startup"], results["cases"]
    calls = next(iter(step["rows"].values()))["samples"]
    versions = ", ".join(f"{name} {number}" for name, number in step["versions"].items())
    wrong = cases["counts"]["leapp"]["silently wrong"]
    after, untold = cases["leapp_wrong_only_after_a_reset"], cases["leapp_wrong_with_a_state_that_it_was_not_told"]
    of = "" if cases["cases"] == cases["of"] else f" of {cases['of']}"
    priority = ", with a real-time priority" if step["realtime"] else ""
    busy = (
        f" Other programs ran at the same time (load {step['load']:.0f}), which the times show; they belong to one run."
        if is_busy(step)
        else ""
    )
    return f"""\
- A step of one pipeline that both tools exported (six sensors, three frames of history, last action, MLP
  147-256-128-64-12): {calls:,} calls each, taking turns in one process, one thread{priority}.
- Import, load and first step of a small package: the median of {startup["runs"]} fresh processes each.
- Hard cases: {cases["cases"]}{of} pieces of [environment code](CASES), exported by both tools and run beside the code
  for 30 steps with resets. They were written to test Ashore, and LEAPP's authors never saw them. LEAPP was told every
  state that can be reached from outside, Ashore none. Of LEAPP's {wrong} wrong ones, {after} are wrong only after a
  reset, and {untold} have a state that it could not be told. {cases["leapp_exact_where_ashore_refuses"]} cases that
  Ashore refuses, LEAPP exports, and they were right in these 30 steps.
- Python {step["python"]}, {versions}, {step["machine"]}; measured by
  `make bench`.{busy}"""


def is_busy(measurement: dict[str, Any]) -> bool:
    """Whether more wanted to run than there are cores, when it was measured."""
    return measurement["load"] > int(measurement["machine"].split()[-2])


def written(page: Path, results: dict[str, Any]) -> str:
    """A page with the table in it."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page}: expected {BEGIN} and {END}")
    cases = "docs/cases.md" if page.name == "README.md" else "cases.md"
    return f"{before}{BEGIN}\n\n{table(results).replace('CASES', cases)}\n\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=SCRIPTS, help="measure this only; may be given again")
    parser.add_argument("--write", action="store_true", help="measure nothing")
    options = parser.parse_args()
    results, complaints = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}, []
    if not options.write:
        there = [name for name, script in SCRIPTS.items() if (BENCH / script).exists()]
        results, complaints = collect(options.only or there, results)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    for page in PAGES:
        page.write_text(written(page, results))
    print(table(results))
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
