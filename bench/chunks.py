"""LeRobot's policies, chunk by chunk: the package against its own graphs called bare on the same runtime, and eagerly.

Needs LeRobot's environment: make bench-lerobot, or python bench/chunks.py [--samples 400] [--json]

The policies are those of the tests: small, with random weights, two cameras of 48x64. "bare" is what one would write by
hand on that runtime: the same graphs one after the other, nothing checked. "eager" is LeRobot's own pipeline, from what
a camera gives to what a motor is told, one thread.
"""

# pyright: reportMissingImports=false
# They are with the tests that need LeRobot.

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "with_lerobot"))

import numpy as np
import openvino
import torch
from eager import Eager
from policies import POLICIES
from statistics_of_data import TASK, observations

from ashore import load
from ashore.integrations.lerobot import export_lerobot
from ashore.package import Package, read
from ashore.runtime import Options, Policy
from ashore.runtime.onnx import open_session
from ashore.spec import NOISE
from ashore.verify import Bare, take_turns

MOST_OVER_BARE, MOST_OVER_EAGER, MOST_QUEUED_US = 1.05, 0.5, 2.0
EAGER = ("act",)
"""What is limited against eager torch; the others are shown beside it."""

QUEUED = 6_000


class BareOpenvino:
    """A graph in OpenVINO, with the methods of an ONNX Runtime session that a bare call needs."""

    def __init__(self, model: bytes, options: Options, _: str) -> None:
        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}
        settings |= {"INFERENCE_NUM_THREADS": str(options.threads), "ENABLE_CPU_PINNING": "NO"}
        network = core.read_model(model, b"")
        if any(op.get_type_name() == "Mish" for op in network.get_ordered_ops()):
            settings["SNIPPETS_MODE"] = "DISABLE"  # else OpenVINO fuses it, and then refuses
        self._compiled = core.compile_model(network, "CPU", settings)
        self._there = {name for port in self._compiled.inputs for name in port.get_names()}
        self._request = self._compiled.create_infer_request()

    def run(self, _: None, feed: dict[str, Any]) -> list[Any]:
        results = self._request.infer({name: feed[name] for name in feed if name in self._there})
        return [results[port] for port in self._compiled.outputs]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name=port.get_any_name()) for port in self._compiled.outputs]


BARE: dict[str, Callable[[bytes, Options, str], Any]] = {"onnx": open_session, "openvino": BareOpenvino}


def measured(name: str, folder: Path, samples: int) -> Iterator[dict[str, Any]]:
    """A row for each runtime."""
    with redirect_stdout(sys.stderr):  # LeRobot prints while it loads
        POLICIES[name](folder / name)
        package = export_lerobot(folder / name, folder / f"{name}_package", picture=False)
        eager = Eager(folder / name)
    inputs = first_inputs(package)
    (seen,) = observations(eager.config, 1)

    def decide_eagerly() -> None:
        eager.reset()
        eager.act(seen, TASK)

    for backend, opened in BARE.items():
        policy = load(package, backend=backend)
        bare = Bare(package, "policy", inputs, opened=opened)
        decide = chunk_of(policy, inputs)
        decide_eagerly()  # the first one is slower
        taken = take_turns({"package": decide, "bare": bare.call, "eager": decide_eagerly}, samples)
        p50 = {which: latency.p50_us for which, latency in taken.items()}
        yield {
            "policy": name,
            "backend": backend,
            "samples": samples,
            "over_bare": p50["package"] / p50["bare"],
            "over_eager": p50["package"] / p50["eager"],
            **{f"{which}_p50_ms": value / 1e3 for which, value in p50.items()},
            **{f"{which}_p99_ms": latency.p99_us / 1e3 for which, latency in taken.items()},
        }


def first_inputs(package: Package) -> dict[str, Any]:
    golden = package.golden()
    assert golden is not None
    return dict(golden.ticks[0].inputs)


def chunk_of(policy: Policy, inputs: dict[str, Any]) -> Callable[[], object]:
    """A decision, whatever is left in a queue."""
    if policy.manifest.runner.type != "action_queue":
        return lambda: policy.step(inputs)
    noise = {name: inputs[name] for name in inputs if policy.inputs[name].kind == NOISE}
    seen = {name: inputs[name] for name in inputs if name not in noise}
    return lambda: policy.predict_action_chunk(seen, noise=noise or None)


def queued_action(package: Package) -> dict[str, float]:
    """How long it takes to hand out an action of a chunk that was decided already."""
    policy, taken = load(package), np.zeros(QUEUED, np.int64)
    seen, waiting = first_inputs(package), 9  # of the ten actions that are executed
    for index in range(QUEUED):
        if index % waiting == 0:
            policy.reset()
            policy.select_action(seen)
        began = perf_counter_ns()
        policy.select_action(seen)
        taken[index] = perf_counter_ns() - began
    return {"samples": QUEUED, "p50_us": float(np.median(taken)) / 1e3, "p99_us": float(np.percentile(taken, 99)) / 1e3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if not options.json:
            print(f"a chunk, {options.samples} each, taking turns, one thread; milliseconds at p50 (p99)")
            print(f"{'':16}{'runtime':10}{'/ bare':>8}{'/ eager':>9}{'package':>16}{'bare':>16}{'eager':>18}")
        for name in POLICIES:
            for row in measured(name, folder, options.samples):
                rows.append(row)
                if not options.json:
                    shown = "".join(
                        f"{row[f'{one}_p50_ms']:>9.2f} ({row[f'{one}_p99_ms']:.2f})"
                        for one in ("package", "bare", "eager")
                    )
                    ratios = f"{row['over_bare']:>7.3f}x{row['over_eager']:>8.3f}x"
                    print(f"{name:16}{row['backend']:10}{ratios}{shown}", flush=True)
        queued = queued_action(read(folder / "act_package"))
    if options.json:
        print(json.dumps({"chunks": rows, "queued": queued}, indent=2))
    else:
        print(f"an action that is queued: {queued['p50_us']:.2f} µs at p50, {queued['p99_us']:.2f} at p99 ({QUEUED:,})")
    wrong = [f"{row['policy']} on {row['backend']}" for row in rows if row["over_bare"] > MOST_OVER_BARE]
    wrong += [
        f"{row['policy']}, eager" for row in rows if row["policy"] in EAGER and row["over_eager"] > MOST_OVER_EAGER
    ]
    wrong += ["the queue"] if queued["p50_us"] > MOST_QUEUED_US else []
    if wrong:
        sys.exit(f"over the limit: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
