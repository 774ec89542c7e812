"""Export of the annotated pipeline by Ashore against LEAPP: same code, same backend; fresh processes taking turns.

Both draw their picture and both validate, Ashore also by replaying the saved files on recorded and on fresh inputs.
Then each package is run on inputs that were not recorded, and must give what the code gives.

python bench/export.py [--runs 7] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

LIMITED = "onnx-dynamo"
EXPORTERS = (LIMITED, "onnx-torchscript", "jit-trace", "pt2")
TOOLS = ("ashore", "leapp")
LIMIT = 1.3
LIMIT_ERROR = 1e-6
MEASURES = {
    "export": "stop + compile_graph",
    "session": "start … compile_graph",
    "all": "import … compile_graph",
    "cpu": "CPU time of all that",
}
Times = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("TOOL", "EXPORTER", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        tool, exporter, out = options.one
        (Path(out) / "times.json").write_text(json.dumps(export(tool, exporter, Path(out))))
        return
    rows = [row for exporter in EXPORTERS for row in compare(exporter, options.runs, show=not options.json)]
    if options.json:
        print(json.dumps({"runs": options.runs, "limit": LIMIT, "limited": LIMITED, "rows": rows}, indent=2))
    slow = [row["measure"] for row in rows if row["exporter"] == LIMITED and row["ratio_p50"] > LIMIT]
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


# --- one export, in a process of its own -----------------------------------------------------------------------------


def export(name: str, exporter: str, out: Path) -> Times:
    """Export the pipeline once: seconds of each measure, and the CPU time of all of it."""
    import torch

    from annotated import NAME, STEPS, Annotated, rollout

    torch.set_num_threads(1)
    os.environ["ASHORE_EXPORT_CACHE"] = "off"  # each run exports
    began, cpu = perf_counter(), process_time()
    tool = importlib.import_module(name)
    annotate, start, stop, compile_graph = tool.annotate, tool.start, tool.stop, tool.compile_graph
    imported = perf_counter()
    pipeline = Annotated(annotate, exporter)
    started = perf_counter()
    start(NAME, save_path=str(out))
    rollout(pipeline, STEPS, seed=0)
    stopped = perf_counter()
    stop()
    done = compile_graph(visualize=True)
    ended = perf_counter()
    if not all(value is True for value in done.values()):
        raise SystemExit(f"{name} {exporter}: {done}")
    cpu = process_time() - cpu
    check(tool, Annotated(annotate, exporter), out / NAME)
    return {
        "export": ended - stopped,
        "session": ended - started,
        "all": imported - began + ended - started,
        "cpu": cpu,
    }


def check(tool: Any, pipeline: Any, package: Path) -> None:
    """Raise unless a package gives what the code gives, on inputs that were not recorded."""
    from annotated import NODE, OUTPUT, rollout

    manager = tool.InferenceManager(str(package / f"{package.name}.yaml"))
    for step, (sensors, target) in enumerate(rollout(pipeline, 50, seed=1)):
        got = manager.run_policy({f"{NODE}/{name}": value for name, value in sensors.items()})[f"{NODE}/{OUTPUT}"]
        error = float((got - target).abs().max())
        if error > LIMIT_ERROR:
            raise SystemExit(f"{package}: step {step} is off by {error}")


# --- comparing -------------------------------------------------------------------------------------------------------


def run_export(tool: str, exporter: str, out: Path) -> Times:
    """Export in a fresh process, into `out`."""
    out.mkdir(parents=True)
    command = [sys.executable, __file__, "--one", tool, exporter, str(out)]
    threads = {"OMP_NUM_THREADS": "1"}
    made = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise SystemExit(f"{tool} {exporter} failed:\n{made.stdout[-2000:]}{made.stderr[-4000:]}")
    return json.loads((out / "times.json").read_text())


def compare(exporter: str, runs: int, *, show: bool) -> list[dict[str, Any]]:
    """Measure both tools with an exporter."""
    taken: dict[str, list[Times]] = {tool: [] for tool in TOOLS}
    for run in range(runs):
        for tool in TOOLS if run % 2 == 0 else reversed(TOOLS):
            with tempfile.TemporaryDirectory() as scratch:
                taken[tool].append(run_export(tool, exporter, Path(scratch) / "out"))
    if show and exporter == EXPORTERS[0]:
        print(f"\nexport of the annotated pipeline, {runs} fresh processes each, taking turns; wall time in seconds")
        heads = "".join(f"{f'{tool} p50':>12}{'min-max':>12}" for tool in TOOLS)
        print(f"{'':18}{'':24}{'ratio p50':>10}{'limit':>7}{heads}")
    rows = []
    for measure, words in MEASURES.items():
        ours, theirs = ([times[measure] for times in taken[tool]] for tool in TOOLS)
        ratio = statistics.median(ours) / statistics.median(theirs)
        rows.append({"exporter": exporter, "measure": words, "ratio_p50": ratio, "ashore_s": ours, "leapp_s": theirs})
        if show:
            limit = f"{LIMIT:.2f}x" if exporter == LIMITED else ""
            print(f"{exporter:18}{words:24}{ratio:>9.2f}x{limit:>7}{spread(ours)}{spread(theirs)}", flush=True)
    return rows


def spread(seconds: list[float]) -> str:
    between = f"{min(seconds):.2f}-{max(seconds):.2f}"
    return f"{statistics.median(seconds):>12.2f}{between:>12}"


if __name__ == "__main__":
    main()
