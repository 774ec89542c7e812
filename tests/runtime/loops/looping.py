"""Packages with a loop: an encoder that sums what it sees, and a body that a runner runs on that sum as its context."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import support
from ashore.package import Golden, Package, write
from ashore.runtime.loops import Body, open_loop
from ashore.spec import Artifact, Manifest, Port, Runner, Stage, State, Wire

ROWS, WIDTH = 4, 3
SAMPLE = Port(dtype="float32", shape=(1, ROWS, WIDTH))
COUNT = Port(dtype="int64", shape=(1,))
OBSERVATION = Port(dtype="float32", shape=(1, 1, WIDTH))
ENCODER = f"""
encode (float[1,1,{WIDTH}] seen, float[1,1,{WIDTH}] h_in) => (float[1,1,{WIDTH}] context, float[1,1,{WIDTH}] h_out) {{
    h_out = Add(h_in, seen)
    context = Identity(h_out)
}}
"""
INITIAL = np.array([[[0.1, -0.2, 0.3]]], np.float32)


def port(dtype: str, *shape: int | str) -> Port:
    return Port(dtype=dtype, shape=shape)  # type: ignore[arg-type]


def package(out: Path, stage: Stage, bodies: Mapping[str, tuple[Stage, str]], golden: Golden | None = None) -> Package:
    """Write a package with an encoder, the stage `sample` with a runner, and what it runs.

    Every input of the stage but `context` is an input of the package.
    """
    inputs = {name: one for name, one in stage.inputs.items() if name != "context"}
    (result,) = stage.outputs
    encoder = Stage(
        rate="policy",
        inputs={"seen": OBSERVATION, "h_in": OBSERVATION},
        outputs={"context": OBSERVATION, "h_out": OBSERVATION},
        artifacts={"onnx": Artifact(path="encode.onnx")},
    )
    manifest = Manifest(
        name="loop",
        inputs={"seen": OBSERVATION, **inputs},
        outputs={"actions": stage.outputs[result]},
        stages={"encode": encoder, "sample": stage, **{name: body for name, (body, _) in bodies.items()}},
        wires=(
            Wire("inputs/seen", "encode/seen"),
            Wire("states/h", "encode/h_in"),
            Wire("encode/h_out", "states/h"),
            Wire("encode/context", "sample/context"),
            *(Wire(f"inputs/{name}", f"sample/{name}") for name in inputs),
            Wire(f"sample/{result}", "outputs/actions"),
        ),
        states={"h": State(dtype="float32", shape=OBSERVATION.shape, role="memory")},
    )
    files = {f"{name}.onnx": support.model(text) for name, (_, text) in bodies.items()}
    return write(
        out, manifest, files={"encode.onnx": support.model(ENCODER), **files}, initial={"h": INITIAL}, golden=golden
    )


def loop_stage(kind: str, params: dict[str, Any], inputs: Mapping[str, Port], result: Port = SAMPLE) -> Stage:
    runner = Runner(type=kind, params=params, stages=("denoise",))
    return Stage(rate="policy", inputs=dict(inputs), outputs={"last": result}, runner=runner)


def body_stage(inputs: Mapping[str, Port], outputs: Mapping[str, Port]) -> Stage:
    return Stage(
        rate="loop", inputs=dict(inputs), outputs=dict(outputs), artifacts={"onnx": Artifact(path="denoise.onnx")}
    )


class Spy:
    """A session that is a function, and remembers what it was bound to and called with."""

    errors: tuple[type[Exception], ...] = (RuntimeError,)

    def __init__(self, function: Callable[..., np.ndarray]) -> None:
        self.function = function
        self.bound: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []
        self.seen: list[dict[str, np.ndarray]] = []

    def bind(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        self.bound.append((dict(inputs), dict(outputs)))
        (target,) = outputs.values()

        def call() -> None:
            self.seen.append({name: value.copy() for name, value in inputs.items()})
            target[...] = self.function(**inputs)

        return call


class Loop:
    """A stage with a runner, opened over a function, with buffers of its own."""

    def __init__(self, stage: Stage, body: Stage, function: Callable[..., np.ndarray], batch: int = 1) -> None:
        self.spy = Spy(function)
        self.session: Any = open_loop("here", stage, [Body("denoise", body, self.spy)])
        self.inputs = {name: zeros(one, batch) for name, one in stage.inputs.items()}
        self.outputs = {name: zeros(one, batch) for name, one in stage.outputs.items()}
        self.call = self.session.bind(self.inputs, self.outputs)

    def __call__(self, **values: np.ndarray) -> np.ndarray:
        for name, value in values.items():
            self.inputs[name][...] = value
        self.spy.seen.clear()
        self.call()
        (result,) = self.outputs.values()
        return result.copy()


class Still:
    """A session that leaves everything as it is, and allocates nothing."""

    errors: tuple[type[Exception], ...] = ()

    def bind(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        return int


def check_allocations(stage: Stage, body: Stage, **values: np.ndarray | int) -> None:
    """Nothing of the size of a sample, nor of a row of it, is allocated while a loop runs, and nothing stays."""
    inputs = {name: zeros(one, 1) for name, one in stage.inputs.items()}
    outputs = {name: zeros(one, 1) for name, one in stage.outputs.items()}
    for name, value in values.items():
        inputs[name][...] = value
    session = open_loop("here", stage, [Body("denoise", body, Still())])
    call = session.bind(inputs, outputs)
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            call()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    row = outputs["last"].nbytes // outputs["last"].shape[1]
    assert peak - before < row
    assert after - before < 1000  # of the interpreter's own


def zeros(one: Port, batch: int) -> np.ndarray:
    return np.zeros([batch if dim == "batch" else dim for dim in one.shape], one.dtype)


class Sum:
    """What the encoder remembers."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.h = INITIAL.copy()

    def step(self, seen: np.ndarray) -> np.ndarray:
        self.h = self.h + seen
        return self.h


_SEEDS = itertools.count(100)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(next(_SEEDS)).standard_normal(shape).astype(np.float32)
