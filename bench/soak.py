"""A million steps: does anything grow? Memory of the process, Python's allocated blocks, and bytes allocated a step.

python bench/soak.py [--steps 1000000] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
from rich.progress import track

from ashore.runtime import load
from ashore.spec import concrete
from graphs import pipeline, write_subject

ROUNDS = 20


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise SystemExit("this measurement needs /proc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        policy = load(write_subject(pipeline(), Path(scratch) / "package"))
    rng = np.random.default_rng(0)
    shapes = {name: concrete(port.shape, 1) for name, port in policy.inputs.items()}
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for _ in range(10_000):
        policy.step(inputs)
    gc.collect()
    blocks, memory = [sys.getallocatedblocks()], [resident_kib()]
    for _ in track(range(ROUNDS), "soaking", disable=options.json or not sys.stderr.isatty()):
        for _ in range(options.steps // ROUNDS):
            policy.step(inputs)
        blocks.append(sys.getallocatedblocks())
        memory.append(resident_kib())
    tracemalloc.start()
    for _ in range(100):
        policy.step(inputs)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    policy.step(inputs)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    result = {
        "steps": options.steps,
        "block_growth_second_half": blocks[-1] - blocks[ROUNDS // 2],
        "memory_growth_kib": memory[-1] - memory[0],
        "memory_growth_second_half_kib": memory[-1] - memory[ROUNDS // 2],
        "bytes_held_after_a_step": after - before,
        "peak_bytes_in_a_step": peak - before,
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"\n{options.steps:,} steps of the pipeline: in their second half memory grew by", end=" ")
        print(f"{result['memory_growth_second_half_kib']} KiB, blocks by {result['block_growth_second_half']}")
        print(f"one step allocates {result['peak_bytes_in_a_step']} bytes at most: the arrays and the dict it returns")
    # One object leaked in a thousand steps would be five times this.
    if result["block_growth_second_half"] > 100 or result["memory_growth_second_half_kib"] > 1024:
        sys.exit("something grows")


if __name__ == "__main__":
    main()
