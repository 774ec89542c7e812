"""A whole decision of an exported environment, on the runtime and by a bare ``session.run`` of its one file.

One decision is `policy.step` and as many `policy.substep`s as the decimation says, with all their checks. The other
candidate calls ``session.run(None, feed)`` as many times, with memory fed back and ticks counted by hand, and checks
nothing. Same session options, one process, taking turns.

python bench/environment_step.py [--samples 20000] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

import ashore
from ashore.environment import export_environment_as_onnx
from ashore.package import Array, Arrays
from ashore.runtime import Options, Policy
from ashore.runtime.one_file import STEP_COUNT, memory_pairs
from ashore.runtime.onnx import open_session
from ashore.spec import Port, concrete
from ashore.verify import Latency, take_turns
from environments import SUBJECTS, Subject

LIMIT = 1.00
LIMIT_ERROR = 1e-5
OURS, BARE = "policy", "bare"


class Runtime:
    """The package, by `step` and `substep`."""

    def __init__(self, path: Path) -> None:
        self.policy: Policy = ashore.load(path)

    def decide(self, inputs: Arrays) -> Callable[[], dict[str, Array]]:
        """What takes one decision; gives the outputs of its last tick."""
        policy = self.policy
        step, substep, decimation = policy.step, policy.substep, _decimation(policy)
        first = {name: inputs[name] for name in policy.step_inputs}
        others = {name: inputs[name] for name in policy.substep_inputs}

        def run() -> dict[str, Array]:
            out: dict[str, Array] = {}
            step(first)
            for _ in range(decimation):
                out = substep(others)
            return out

        return run


class Bare:
    """The one file, as one would run it by hand."""

    def __init__(self, path: Path, decimation: int) -> None:
        session = open_session(path.read_bytes(), Options(), str(path))
        self._run, self.outputs = session.run, [port.name for port in session.get_outputs()]
        kinds = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(int64)": np.int64}
        pairs = memory_pairs([port.name for port in session.get_inputs()], self.outputs)
        self._zeros = {
            port.name: np.zeros(port.shape, kinds[port.type]) for port in session.get_inputs() if port.name in pairs
        }
        self._moves = [(port, self.outputs.index(result)) for port, result in pairs.items()]
        self._counts = [np.array(tick, np.int32) for tick in range(decimation)]
        self._feed: dict[str, Array] = {}

    def reset(self) -> None:
        """Start with zeros for memory, as a controller does."""
        self._feed.update(self._zeros)

    def decide(self, inputs: Arrays) -> Callable[[], list[Array]]:
        """What takes one decision; gives the results of its last tick."""
        run, feed, moves, counts = self._run, self._feed, self._moves, self._counts
        self._feed.update(inputs)

        def decide() -> list[Array]:
            results: list[Array] = []
            for count in counts:
                feed[STEP_COUNT] = count
                results = run(None, feed)
                for port, index in moves:
                    feed[port] = results[index]
            return results

        return decide


def measure(subject: Subject, folder: Path, samples: int) -> dict[str, Latency]:
    env, actor = subject.make()
    export_environment_as_onnx(env, actor, folder, "policy.onnx", picture=False)
    ours = Runtime(folder / "policy")
    bare = Bare(folder / "policy.onnx", _decimation(ours.policy))
    check(ours, bare)
    inputs = example(ours.policy.inputs, np.random.default_rng(1))

    def reset() -> None:
        ours.policy.reset()
        bare.reset()

    return take_turns({OURS: ours.decide(inputs), BARE: bare.decide(inputs)}, samples, reset=reset)


def check(ours: Runtime, bare: Bare) -> None:
    """Exit unless both compute the same, on changing inputs."""
    rng = np.random.default_rng(0)
    ours.policy.reset()
    bare.reset()
    for _ in range(50):
        inputs = example(ours.policy.inputs, rng)
        out, results = ours.decide(inputs)(), dict(zip(bare.outputs, bare.decide(inputs)(), strict=True))
        error = max(float(np.abs(value - results[name]).max()) for name, value in out.items())
        if not out or error > LIMIT_ERROR:
            sys.exit(f"package and file differ by {error}")


def example(ports: Mapping[str, Port], rng: np.random.Generator) -> dict[str, Array]:
    """Random numbers for every input."""
    return {name: rng.standard_normal(concrete(port.shape, 1)).astype(np.float32) for name, port in ports.items()}


def _decimation(policy: Policy) -> int:
    timing = policy.manifest.timing
    return 1 if timing is None else timing.decimation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, subject in SUBJECTS.items():
        with tempfile.TemporaryDirectory() as scratch:
            taken = measure(subject, Path(scratch), options.samples)
        ours, bare = taken[OURS], taken[BARE]
        ratio = ours.p50_us / bare.p50_us
        rows.append({"environment": name, "ratio_p50": ratio, "limit": LIMIT, OURS: asdict(ours), BARE: asdict(bare)})
        if options.json:
            continue
        if len(rows) == 1:
            print(
                "one decision: policy.step and its policy.substeps against session.run of the one file for each tick,"
            )
            print(f"{options.samples:,} decisions each, taking turns, one thread")
            print(f"{'':44}{'ratio p50':>10}{'limit':>7}{'ours p50':>10}{'p99':>8}{'bare p50':>11}{'p99':>8}  µs")
        print(
            f"{name:44}{ratio:>9.3f}x{LIMIT:>6.2f}x{ours.p50_us:>10.1f}{ours.p99_us:>8.1f}"
            f"{bare.p50_us:>11.1f}{bare.p99_us:>8.1f}",
            flush=True,
        )
    if options.json:
        print(json.dumps(rows, indent=2))
    slow = [row["environment"] for row in rows if row["ratio_p50"] > row["limit"]]
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


if __name__ == "__main__":
    main()
