"""Compiled C against a bare ``session.run`` given a dict: same file, one run, one thread, warm and in a paced loop.

python bench/native.py [--samples 20000] [--ticks 250] [--json]

Beside each policy is what the machine itself would need: the time to read its weights once, at the bandwidth that a
plain loop reaches on as many bytes, or the time for its operations at the measured peak, whichever is more.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, shape_inference

import ashore
from ashore.backends.c.compiler import find_compiler
from ashore.verify.timing import take_turns
from graphs import SUBJECTS, Subject, write_subject

HERTZ = 50.0
LIMITS = {
    "MLP 48-256-128-64-12": 0.35,
    "MLP 235-512-256-128-12": 0.60,
    "LSTM 48-64, head 12": 0.25,
    "GRU 96-256-12": 0.55,
    "Transformer 8x128, 2 layers": 0.75,
    "Pipeline, 7 inputs": 0.20,
}
"""Policy -> the most that a warm step may take, as a part of what ``session.run`` takes."""

MACHINE = """
#include <stddef.h>
#define V 16
typedef float vec __attribute__((vector_size(64), aligned(4)));
float read_all(const float *x, size_t n, int times)
{
    vec sums[8] = {{0}};
    float total = 0;
    for (int t = 0; t < times; ++t) {
        for (size_t i = 0; i + 8 * V <= n; i += 8 * V)
            for (int j = 0; j < 8; ++j)
                sums[j] += *(const vec *)(x + i + j * V);
        __asm__ volatile("" ::: "memory");
    }
    for (int j = 0; j < 8; ++j)
        for (int k = 0; k < V; ++k)
            total += sums[j][k];
    return total;
}
float multiply(float a, size_t times)
{
    vec sums[12], factor, addend;
    float total = 0;
    for (int k = 0; k < V; ++k)
        factor[k] = a, addend[k] = a * 0.5f;
    for (int j = 0; j < 12; ++j)
        sums[j] = factor;
    for (size_t t = 0; t < times; ++t)
        for (int j = 0; j < 12; ++j)
            sums[j] = sums[j] * factor + addend;
    for (int j = 0; j < 12; ++j)
        for (int k = 0; k < V; ++k)
            total += sums[j][k];
    return total;
}
"""


class Machine:
    """What this core can do, measured."""

    def __init__(self, scratch: Path) -> None:
        source, library = scratch / "machine.c", scratch / "machine.so"
        source.write_text(MACHINE)
        compiler = find_compiler(())
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        subprocess.run([*compiler.command, *flags, str(source), "-o", str(library)], check=True)
        self._functions: Any = ctypes.CDLL(str(library))
        self._functions.multiply.argtypes = [ctypes.c_float, ctypes.c_size_t]
        times = 200_000
        self.peak = 2 * 16 * 12 * times / self._fastest(lambda: self._functions.multiply(0.25, times))
        """Operations a second; a multiplication and an addition are two."""

    def bandwidth(self, size: int) -> float:
        """Bytes a second, reading so many again and again."""
        values = np.zeros(max(size // 4, 128), np.float32)
        count, times = values.size // 128 * 128, max(1, (16 << 20) // size)
        address = values.ctypes.data_as(ctypes.c_void_p)
        return (
            count
            * 4
            * times
            / self._fastest(lambda: self._functions.read_all(address, ctypes.c_size_t(count), ctypes.c_int(times)))
        )

    def _fastest(self, call: Callable[[], object]) -> float:
        taken: list[float] = []
        for _ in range(15):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
        return min(taken)


def limit_us(model: bytes, machine: Machine) -> tuple[float, str]:
    """The least that a step can take, in microseconds, and what limits it."""
    graph = shape_inference.infer_shapes(onnx.load_from_string(model)).graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.input, *graph.output)
    }
    size = sum(array.nbytes for array in weights.values() if array.dtype == np.float32)
    operations = 0
    for node in graph.node:
        for name in node.input[1:3]:
            if node.op_type in ("Gemm", "MatMul", "LSTM", "GRU") and name in weights and weights[name].ndim >= 2:
                rows = 1 if node.op_type in ("LSTM", "GRU") else int(np.prod(shapes[node.input[0]][:-1]))
                operations += 2 * rows * weights[name].size
        if node.op_type == "MatMul" and node.input[1] not in weights:
            operations += 2 * int(np.prod(shapes[node.input[0]])) * shapes[node.input[1]][-1]
    reading, computing = size / machine.bandwidth(size) * 1e6, operations / machine.peak * 1e6
    return (reading, "weights") if reading > computing else (computing, "operations")


def bare_call(subject: Subject, model: bytes, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
    """What one would write by hand: a dict in, a list out, the states fed back."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session: Any = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_outputs()]
    back = [(names.index(source), target) for source, target, _ in subject.feedback.values()]
    feed = dict(inputs)
    for _, target in back:
        feed[target] = np.zeros(subject.graph.inputs[target], np.float32)

    def call() -> None:
        results = session.run(None, feed)
        for place, target in back:
            feed[target] = results[place]

    return call


def paced(candidates: dict[str, Callable[[], object]], ticks: int) -> dict[str, np.ndarray]:
    """Microseconds of each call in a loop of 50 Hz; the candidates take turns, tick by tick."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    following = time.perf_counter()
    for tick in range(ticks * len(candidates)):
        following += 1 / HERTZ
        time.sleep(max(following - time.perf_counter(), 0))
        name = list(candidates)[tick % len(candidates)]
        began = time.perf_counter_ns()
        candidates[name]()
        taken[name].append((time.perf_counter_ns() - began) / 1e3)
    return {name: np.array(values) for name, values in taken.items()}


def measure(name: str, scratch: Path, machine: Machine, samples: int, ticks: int) -> dict[str, Any]:
    """Everything about one policy."""
    subject = SUBJECTS[name]()
    package, model = write_subject(subject, scratch / "package"), subject.graph.model()
    policy = ashore.load(package, backend="c")
    rng = np.random.default_rng(2)
    inputs = {
        port: rng.standard_normal(spec.shape).astype(np.float32)  # type: ignore[arg-type]
        for port, spec in policy.inputs.items()
    }
    candidates: dict[str, Callable[[], object]] = {
        "c": lambda: policy.step(inputs),
        "session.run": bare_call(subject, model, inputs),
    }
    warm = take_turns(candidates, samples, reset=policy.reset)
    slow = paced(candidates, ticks)
    floor, by = limit_us(model, machine)
    row: dict[str, Any] = {"policy": name, "limit": LIMITS[name], "floor_us": floor, "floor_by": by}
    row["ratio_p50"] = warm["c"].p50_us / warm["session.run"].p50_us
    for key, latency in warm.items():
        row[f"{key}_p50_us"], row[f"{key}_p99_us"] = latency.p50_us, latency.p99_us
        row[f"{key}_paced_p50_us"], row[f"{key}_paced_p99_us"] = map(float, np.percentile(slow[key], (50, 99)))
    row["times_floor"] = row["c_p50_us"] / floor
    return row


def show(row: dict[str, Any]) -> None:
    print(
        f"{row['policy']:28}{row['ratio_p50']:>7.3f}x{row['limit']:>6.2f}x{row['c_p50_us']:>8.1f}{row['c_p99_us']:>8.1f}"
        f"{row['session.run_p50_us']:>9.1f}{row['session.run_p99_us']:>8.1f}{row['c_paced_p50_us']:>10.1f}"
        f"{row['c_paced_p99_us']:>8.1f}{row['session.run_paced_p50_us']:>9.1f}{row['session.run_paced_p99_us']:>8.1f}"
        f"{row['floor_us']:>9.2f}{row['times_floor']:>7.1f}x  {row['floor_by']}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--ticks", type=int, default=250, help="calls of each candidate in the paced loop")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        if not options.json:
            print(
                f"Compiled C against session.run with a dict, {options.samples:,} calls each, taking turns, one thread;"
            )
            print(
                f"paced: {HERTZ:.0f} Hz, {options.ticks} calls each. All times in µs. "
                f"Peak {machine.peak / 1e9:.0f} Gflop/s."
            )
            print(
                f"{'':28}{'':22}{'warm':^17}{'session.run':>9}{'':>5}{'paced: c':>11}{'':>7}{'session.run':>12}{'':>5}"
            )
            head = ("ratio p50", "limit", "c p50", "p99", "run p50", "p99")
            heads = (*head, *head[2:], "floor", "c/floor")
            widths = (36, 7, 8, 8, 9, 8, 10, 8, 9, 8, 9, 8)
            print("".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
        for name in SUBJECTS:
            rows.append(measure(name, Path(folder), machine, options.samples, options.ticks))
            if not options.json:
                show(rows[-1])
    if options.json:
        print(json.dumps(rows, indent=2))
    slow = [row["policy"] for row in rows if row["ratio_p50"] > row["limit"]]
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


if __name__ == "__main__":
    main()
