"""The real LEAPP, in a process of its own.

A tracing session of LEAPP patches torch globally, and LEAPP writes to standard output; here neither can touch a test.
Run as a script it answers one JSON line per job; `Leapp` is the other end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy


class Leapp:
    """A process that imports LEAPP once and then does what it is told."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def make(self, case: str, backend: str, out: Path) -> Path:
        """Export one of the cases below with `leapp.compile_graph`; the directory it wrote."""
        self._ask(job="make", case=case, backend=backend, out=str(out))
        return out / case

    def run(
        self, yaml: Path, inputs: dict[str, np.ndarray], resets: tuple[int, ...], scratch: Path
    ) -> dict[str, np.ndarray]:
        """Run `leapp.InferenceManager`; inputs and outputs have a first axis of steps."""
        (scratch / "in").write_bytes(safetensors.numpy.save(inputs))
        self._ask(job="run", yaml=str(yaml), scratch=str(scratch), resets=resets)
        return safetensors.numpy.load((scratch / "out").read_bytes())

    def _ask(self, **job: Any) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["error"]:
            raise RuntimeError(answer["error"])


# --- the process -----------------------------------------------------------------------------------------------------


def run(yaml: str, scratch: str, resets: list[int]) -> None:
    import torch
    from leapp import InferenceManager

    inputs = {
        name: torch.from_numpy(array)
        for name, array in safetensors.numpy.load((Path(scratch) / "in").read_bytes()).items()
    }
    manager = InferenceManager(yaml)
    assert sorted(manager.inputs) == sorted(inputs), (manager.inputs, sorted(inputs))
    steps: list[dict[str, np.ndarray]] = []
    with torch.no_grad():
        for step in range(len(next(iter(inputs.values())))):
            if step in resets:
                manager.reset()
            # Its reset writes zeros into what it was given, so each step gets arrays of its own.
            given = {name: array[step].clone() for name, array in inputs.items()}
            steps.append({name: tensor.numpy().copy() for name, tensor in manager(given).items()})
    outputs = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
    (Path(scratch) / "out").write_bytes(safetensors.numpy.save(outputs))


def make(case: str, backend: str, out: str) -> None:
    import leapp

    torch = __import__("torch")
    torch.manual_seed(0)
    leapp.start(case, save_path=out)
    try:
        CASES[case](backend)
    finally:
        leapp.stop()
    done = leapp.compile_graph(
        visualize=False, graph_configs=leapp.GraphConfigs(frequency=50.0, extra={"robot": "go1"})
    )
    assert done
    assert all(done.values()), done


def one_node(backend: str) -> None:
    import torch
    from leapp import TemporalAxis, TensorSemantics, annotate

    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ELU(), torch.nn.Linear(8, 2)).eval()
    shared = ["left", "right"]  # one list in two places, which PyYAML writes as an alias
    for _ in range(3):
        joints = {"element_names": ["a", "b"]}
        extra = {"isaaclab_connection": "state:robot:joint_pos", "sides": shared, "unit": "rad"}
        q, v, plan = annotate.input_tensors(
            "policy",
            [
                TensorSemantics("q", torch.randn(1, 2), kind="state/joint/position", extra=extra, **joints),
                TensorSemantics(
                    "v", torch.randn(1, 2), kind="speeds", element_names=[None, ["a", "b"]], extra={"sides": shared}
                ),
                TensorSemantics("plan", torch.randn(1, 3, 2), element_names=[None, TemporalAxis(20.0), ["x", "y"]]),
            ],
        )
        y = net(torch.cat([q, v + plan.sum(1)], -1))
        annotate.output_tensors("policy", TensorSemantics("y", y, kind="target/joint/position"), export_with=backend)


def two_nodes(backend: str) -> None:
    import torch
    from leapp import annotate

    net = torch.nn.Linear(4, 2).eval()
    for _ in range(3):
        seen = torch.randn(1, 4)
        x = annotate.input_tensors("encoder", {"x": seen})
        z = annotate.output_tensors("encoder", {"z": torch.tanh(x * 2)}, export_with=backend)
        z, x = annotate.input_tensors("head", {"z": z, "x": seen})
        annotate.output_tensors("head", {"y": net(z) * x[:, :2]}, export_with=backend)


def states(backend: str) -> None:
    import torch
    from leapp import annotate

    h, history = torch.full((1, 2), 0.5), torch.ones(1, 3, 2)
    for _ in range(3):
        x = annotate.input_tensors("policy", {"x": torch.randn(1, 2)})
        h_in, past = annotate.state_tensors("policy", {"h": h, "history": history})
        h_new, recent = h_in * 0.5 + x, torch.cat([past[:, 1:], x[:, None]], 1)
        annotate.update_state("policy", {"h": h_new, "history": recent})
        annotate.output_tensors("policy", {"y": h_new * 2 + recent.sum(1)}, export_with=backend)
        h, history = torch.randn(1, 2), torch.randn(1, 3, 2)


def last_action(backend: str) -> None:
    import torch
    from leapp import TensorSemantics, annotate

    action = torch.full((1, 2), 0.25)
    for _ in range(3):
        x, last = annotate.input_tensors("policy", {"x": torch.randn(1, 2), "last": action})
        action = annotate.output_tensors(
            "policy", TensorSemantics("action", x + 0.5 * last, kind="action"), export_with=backend
        )
        raw = annotate.input_tensors("scale", {"raw": action})
        annotate.output_tensors("scale", {"target": raw * 3 + 1}, export_with=backend)


CASES = {function.__name__: function for function in (one_node, two_nodes, states, last_action)}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        error = None
        try:
            {"run": run, "make": make}[job.pop("job")](**job)
        except Exception:
            error = traceback.format_exc()
        answers.write(json.dumps({"error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
