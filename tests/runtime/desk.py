"""A robot on paper, and packages to bind to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ashore
import support
from ashore.deploy import Bound, Robot, Setup, Signal
from ashore.errors import BindError
from ashore.package import write
from ashore.spec import Artifact, Port, single_stage

NAMES = ("wrist", "elbow", "shoulder")
"""The robot's order; the arm package has shoulder before elbow."""


class Desk:
    """A robot on paper: what it reads is set by the test, what is written is kept."""

    def __init__(self, reads: dict[str, Signal] | None = None, writes: dict[str, Signal] | None = None) -> None:
        self.reads: Mapping[str, Signal] = reads or {
            "position": Signal("state/joint/position", NAMES, "rad"),
            "speed": Signal("state/joint/velocity", NAMES, "rad/s"),
        }
        self.writes: Mapping[str, Signal] = writes or {
            "effort": Signal("target/joint/effort", ("elbow", "shoulder"), "N*m")
        }
        self.values: dict[str, Any] = {
            name: np.arange(float(np.prod(one.shape))).reshape(one.shape) for name, one in self.reads.items()
        }
        self.log: list[Any] = []
        self.setup: Setup | None = None

    def configure(self, setup: Setup) -> None:
        self.setup = setup

    def reset(self) -> None:
        self.log.append("reset")

    def read(self, names: Sequence[str]) -> Mapping[str, np.ndarray]:
        self.log.append(tuple(names))
        return self.values

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        self.log.append({name: value.tolist() for name, value in values.items()})


def bound(path: Path, robot: Robot, **arguments: Any) -> Bound:
    return ashore.load(path).bind(robot, **arguments)


def refusal(path: Path, robot: Robot, **arguments: Any) -> str:
    with pytest.raises(BindError) as caught:
        bound(path, robot, **arguments)
    return str(caught.value)


def simple(out: Path, inputs: dict[str, Port], outputs: dict[str, Port]) -> Path:
    """Each output is the input of the same place."""
    ports = zip(inputs.items(), outputs.items(), strict=True)
    lines = [f"{out_name} = Identity({in_name})" for (in_name, _), (out_name, _) in ports]
    heads = [
        ", ".join(f"float[{','.join(map(str, port.shape))}] {name}" for name, port in group.items())
        for group in (inputs, outputs)
    ]
    model = support.model(f"policy ({heads[0]}) => ({heads[1]}) {{ {' '.join(lines)} }}")
    manifest = single_stage("simple", inputs=inputs, outputs=outputs, artifacts={"onnx": Artifact(path="a.onnx")})
    return write(out, manifest, files={"a.onnx": model}).path


def joints(kind: str, unit: str | None, *names: str) -> Port:
    return Port(dtype="float32", shape=(1, len(names)), kind=kind, unit=unit, element_names=(None, names))
