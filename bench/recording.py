"""What recording costs: a step of the user's code while it is recorded, against the same step when it is not.

In CPU time: a recorded step is long enough for other processes to get in between, and one that is not is too short.

python bench/recording.py [--samples 1000] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable
from time import thread_time_ns

import numpy as np
import torch

from annotated import OUTPUT, Pipeline, Tensors, draw
from ashore.capture.record import Recorder
from ashore.capture.session import Session

ROUND = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, recurrent in (("pipeline with an MLP", False), ("pipeline with an LSTM", True)):
        eager, recorded, operations = measure(Pipeline(recurrent=recurrent), options.samples)
        (eager_p50, eager_p99), (p50, p99) = (np.percentile(times, (50, 99)) / 1e3 for times in (eager, recorded))
        row = {
            "pipeline": name,
            "samples": len(eager),
            "operations": operations,
            "ratio_p50": p50 / eager_p50,
            "us_per_operation": (p50 - eager_p50) / operations,
            "eager_p50_us": eager_p50,
            "eager_p99_us": eager_p99,
            "recorded_p50_us": p50,
            "recorded_p99_us": p99,
        }
        rows.append(row)
        if not options.json:
            if len(rows) == 1:
                print(
                    f"\na step that is recorded against one that is not, {len(eager):,} of each, taking turns; CPU time"
                )
                print(
                    f"{'':26}{'ratio p50':>10}{'operations':>12}{'µs each':>9}"
                    f"{'recorded p50':>14}{'p99':>8}{'eager p50':>11}{'p99':>8}  µs"
                )
            print(
                f"{name:26}{row['ratio_p50']:>9.1f}x{operations:>12}{row['us_per_operation']:>9.1f}"
                f"{p50:>14.0f}{p99:>8.0f}{eager_p50:>11.0f}{eager_p99:>8.0f}",
                flush=True,
            )
    if options.json:
        print(json.dumps(rows, indent=2))


def measure(pipeline: Pipeline, samples: int) -> tuple[list[int], list[int], int]:
    """Nanoseconds of steps that were not recorded, of such that were, and how many operations one has."""
    sensors = draw(torch.Generator().manual_seed(0))
    eager: list[int] = []
    recorded: list[int] = []
    operations = 0
    gc.collect()
    gc.disable()  # as the other measurements do
    try:
        for index in range(samples // ROUND + 1):
            plain = [clocked(lambda: pipeline.step(sensors)) for _ in range(ROUND)]
            session = Session()
            recorder = Recorder(session)
            session.start()
            try:
                heard = [clocked(lambda recorder=recorder: step(recorder, pipeline, sensors)) for _ in range(ROUND)]
            finally:
                session.stop()
            operations = len(session.steps[-1].tape.ops)
            if index:  # the first round only warms up
                eager += plain
                recorded += heard
    finally:
        gc.enable()
    return eager, recorded, operations


def step(recorder: Recorder, pipeline: Pipeline, sensors: Tensors) -> None:
    """One recorded step: its inputs declared, the user's code, its output declared."""
    with recorder.step():
        given = {name: recorder.input(name, value) for name, value in sensors.items()}
        recorder.output(OUTPUT, pipeline.step(given))


def clocked(call: Callable[[], object]) -> int:
    began = thread_time_ns()
    call()
    return thread_time_ns() - began


if __name__ == "__main__":
    main()
