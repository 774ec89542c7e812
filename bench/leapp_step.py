"""A step of the annotated pipeline: Ashore's runtime, compiled C, `session.run`, LEAPP's runtime, torch eager.

Both packages are exported from the same code, each tool runs its own, and the bare call runs Ashore's file with its
states fed back by hand and nothing checked. All in one process, taking turns, with one thread each, and with a
real-time priority where that is allowed, so that p99 is theirs and not that of other programs.

python bench/leapp_step.py [--samples 20000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import leapp
import onnxruntime
import torch

import ashore
from annotated import NAME, NODE, OUTPUT, Pipeline, rollout
from ashore.package import read
from ashore.verify import Bare, Latency, take_turns
from export import LIMIT_ERROR, run_export

LIMIT = 0.5
OURS, OURS_TORCH, THEIRS = "ashore.load(…).step", "ashore.InferenceManager", "leapp.InferenceManager"
AS_C, BARE, EAGER = 'ashore.load(…, backend="c").step', "bare session.run", "torch eager"


class OneThread(onnxruntime.SessionOptions):
    """What LEAPP gets for session options, since it has no setting for the number of threads."""

    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = self.inter_op_num_threads = 1


def open_leapp(package: Path, inputs: dict[str, torch.Tensor]) -> Any:
    """LEAPP's runtime. It opens its session in its first step, so it makes one here."""
    with mock.patch.object(onnxruntime, "SessionOptions", OneThread):
        manager = leapp.InferenceManager(str(package / f"{NAME}.yaml"))
        manager.run_policy(inputs)
    manager.reset()  # which writes zeros into the inputs it was given
    return manager


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folders = {tool: Path(scratch) / tool for tool in ("ashore", "leapp")}
        for tool, folder in folders.items():
            run_export(tool, "onnx-dynamo", folder)
        steps = rollout(Pipeline(), 50, seed=1)
        named = [({f"{NODE}/{name}": value for name, value in sensors.items()}, target) for sensors, target in steps]
        package = read(folders["ashore"] / NAME)
        policy, compiled = ashore.load(package), ashore.load(package, backend="c")
        manager = ashore.InferenceManager(folders["ashore"] / NAME)
        bare = Bare(package, "policy", {name: value.numpy() for name, value in steps[0][0].items()})
        theirs = open_leapp(folders["leapp"] / NAME, {name: value.clone() for name, value in named[0][0].items()})
    arrays = [{name: value.numpy() for name, value in sensors.items()} for sensors, _ in steps]
    for name, one_of in ((OURS, policy), (AS_C, compiled)):
        check(name, [torch.from_numpy(one_of.step(one)[OUTPUT]) for one in arrays], steps)
    for name, run in ((OURS_TORCH, manager.run_policy), (THEIRS, theirs.run_policy)):
        check(name, [run(inputs)[f"{NODE}/{OUTPUT}"].clone() for inputs, _ in named], steps)
    candidates: dict[str, Callable[[], object]] = {
        OURS: partial(policy.step, arrays[0]),
        AS_C: partial(compiled.step, arrays[0]),
        BARE: bare.call,
        OURS_TORCH: partial(manager.run_policy, named[0][0]),
        THEIRS: partial(theirs.run_policy, named[0][0]),
        EAGER: partial(Pipeline().step, steps[0][0]),
    }
    realtime = has_priority()
    taken = take_turns(candidates, options.samples)
    ratios = {name: latency.p50_us / taken[THEIRS].p50_us for name, latency in taken.items()}
    if options.json:
        rows = {name: {"ratio_p50": ratios[name], **asdict(latency)} for name, latency in taken.items()}
        print(json.dumps({"limit": LIMIT, "realtime": realtime, "rows": rows}, indent=2))
    else:
        show(options.samples, taken, ratios)
    if ratios[OURS] > LIMIT:
        sys.exit("over the limit")


def has_priority() -> bool:
    """Ask for a real-time priority; whether it was given."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, PermissionError):  # not on this system, or not for this user
        return False
    return True


def check(name: str, got: list[torch.Tensor], steps: list[tuple[Any, torch.Tensor]]) -> None:
    """Exit unless a runtime gives what the code gives."""
    error = max(float((one - target).abs().max()) for one, (_, target) in zip(got, steps, strict=True))
    if error > LIMIT_ERROR:
        sys.exit(f"{name} is off by {error}")


def show(samples: int, taken: dict[str, Latency], ratios: dict[str, float]) -> None:
    print(f"\na step of the annotated pipeline, {samples:,} calls each, taking turns, one thread")
    print(f"{'':34}{'ratio p50':>10}{'limit':>7}{'p50':>10}{'p99':>8}  µs")
    for name, latency in taken.items():
        limit = f"{LIMIT:.2f}x" if name == OURS else ""
        print(f"{name:34}{ratios[name]:>9.3f}x{limit:>7}{latency.p50_us:>10.1f}{latency.p99_us:>8.1f}")


if __name__ == "__main__":
    main()
