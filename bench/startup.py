"""Import, load and first step of a small package, against bare onnxruntime with numpy, LEAPP's runtime and torch.

Fresh processes, taking turns. LEAPP runs the same package, converted to its format; torch a network of the same size.

python bench/startup.py [--runs 31] [--json]
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import ashore
from ashore.interop.leapp import to_leapp
from graphs import ARTIFACT, mlp, write_subject

BARE = """
import sys
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
session.run(None, {"obs": np.zeros((1, 48), np.float32)})
"""
ASHORE = """
import sys
import numpy as np
import ashore

policy = ashore.load(sys.argv[1])
policy.step({"obs": np.zeros((1, 48), np.float32)})
"""
LEAPP = """
import sys
import torch
from leapp import InferenceManager

manager = InferenceManager(sys.argv[3])
manager.run_policy({"policy/obs": torch.zeros(1, 48)})
"""
TORCH = """
import torch

layers = torch.nn.Linear(48, 64), torch.nn.ELU(), torch.nn.Linear(64, 12)
with torch.no_grad():
    torch.nn.Sequential(*layers)(torch.zeros(1, 48))
"""
HELP = """
import sys
sys.argv = ["ashore", "--help"]
from ashore.cli import main
try:
    main()
except SystemExit:
    pass
"""
# The peak that wait4 reports would be that of the parent before it started the child.
PEAK = """
print([line for line in open("/proc/self/status") if line.startswith("VmHWM:")][0])
"""
LIMIT = 1.3
CANDIDATES = {"bare onnxruntime": BARE, "ashore": ASHORE, "leapp": LEAPP, "torch eager": TORCH, "ashore --help": HELP}


def cost(code: str, *arguments: str) -> tuple[float, float]:
    """CPU time in milliseconds and peak memory in MiB of a fresh process."""
    command = [sys.executable, "-c", code + PEAK, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        peak_kib = int(process.stdout.read().split()[-2])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    if status != 0:
        raise SystemExit(f"a process failed with status {status}")
    return (usage.ru_utime + usage.ru_stime) * 1e3, peak_kib / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # As pip does for what it installs; else this would measure the compiler.
    compileall.compile_dir(str(Path(ashore.__file__).parent), quiet=1)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CANDIDATES}
    with tempfile.TemporaryDirectory() as scratch:
        subject = write_subject(mlp(48, 64, 12), Path(scratch) / "small")
        package, leapp = subject.path, Path(scratch) / "leapp"
        to_leapp(subject, leapp)
        (described,) = leapp.glob("*.yaml")
        for run in range(options.runs + 1):
            for name, code in CANDIDATES.items():
                measured = cost(code, str(package), str(package / ARTIFACT), str(described))
                if run:  # the first round only warms the disk cache
                    taken[name].append(measured)
    medians = {
        name: {"cpu_ms": statistics.median(t for t, _ in runs), "memory_mib": statistics.median(m for _, m in runs)}
        for name, runs in taken.items()
    }
    ours, bare = medians["ashore"], medians["bare onnxruntime"]
    ratios = {key: ours[key] / bare[key] for key in ours}
    if options.json:
        print(json.dumps({"runs": options.runs, "p50": medians, "ratios": ratios, "limit": LIMIT}, indent=2))
    else:
        show(options.runs, medians, ratios)
    if max(ratios.values()) > LIMIT:
        sys.exit("over the limit")


def show(runs: int, medians: dict[str, dict[str, float]], ratios: dict[str, float]) -> None:
    print(f"\nimport + load + first step of a small package, {runs} fresh processes each, taking turns")
    print(f"{'':30}{'CPU p50':>12}{'memory p50':>14}")
    for name, median in medians.items():
        print(f"{name:30}{median['cpu_ms']:>9.0f} ms{median['memory_mib']:>10.1f} MiB")
    print(f"{f'ratio (limit {LIMIT:.2f}x)':30}{ratios['cpu_ms']:>11.3f}x{ratios['memory_mib']:>13.3f}x")


if __name__ == "__main__":
    main()
