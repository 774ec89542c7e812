"""A package with everything in its wiring that LEAPP can express."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import support
from ashore.package import Package, write
from ashore.spec import Artifact, Limits, Manifest, Port, Stage, State, Timing, Wire

FIRST = """
first (float[1,3] b, float[1,3] a, float[1,3] seen) => (float[1,3] z, float[1,3] g) {
    s = Sub(a, b)
    g = Add(s, seen)
    z = Mul(g, a)
}
"""
SECOND = """
second (float[1,3] z, float[1,3] x, float[1,3] h_in) => (float[1,3] h_out, float[1,3] y) {
    half = Constant<value_float = 0.5>()
    k = Mul(h_in, half)
    zx = Add(z, x)
    h_out = Add(k, zx)
    y = Sub(h_out, z)
}
"""


def graph_manifest(**changes: Any) -> Manifest:
    """Two stages that share an input, an output that is fed back twice, and names that differ throughout."""
    port = Port(dtype="float32", shape=(1, 3))
    named = Port(
        dtype="float32",
        shape=(1, 3),
        kind="state/body/angular_velocity",
        unit="rad/s",
        frame="base",
        source="sensor",
        limits=Limits(lower=-5.0, upper=(1.0, 2.0, None)),
        connection="state:robot:root_ang_vel_b",
        element_names=(None, ("x", "y", "z")),
        description="a gyroscope",
        metadata={"noise": 0.1, "filters": [{"hz": 20}]},
    )
    manifest = Manifest(
        name="graph",
        version="3",
        licence="MIT",
        timing=Timing(policy_dt_s=1 / 30, physics_dt_s=1 / 120, decimation=4),
        inputs={"ang/vel": named, "b": port},
        outputs={"target": port, "g": port},
        # `a` would run first by its name, but reads nothing that is written here; `z` must run first by its wires.
        stages={
            "a": Stage(
                rate="policy",
                inputs={"h_in": port, "x": port, "z": msgspec.structs.replace(port, kind="custom/latent")},
                outputs={"y": port, "h_out": port},
                artifacts={"onnx": Artifact(path="artifacts/a.onnx", opset=18)},
            ),
            "z": Stage(
                rate="policy",
                inputs={"a": port, "b": port, "seen": port},
                outputs={"z": port, "g": port},
                artifacts={"onnx": Artifact(path="artifacts/z.onnx")},
            ),
        },
        wires=(
            Wire("inputs/ang/vel", "a/x"),
            Wire("inputs/ang/vel", "z/a"),
            Wire("inputs/b", "z/b"),
            Wire("z/z", "a/z"),
            Wire("z/g", "outputs/g"),
            Wire("a/h_out", "states/h"),
            Wire("a/h_out", "states/copy"),
            Wire("states/h", "a/h_in"),
            Wire("states/copy", "z/seen"),
            Wire("a/y", "outputs/target"),
        ),
        states={
            "h": State(dtype="float32", shape=(1, 3), role="recurrent", description="hidden"),
            "copy": State(dtype="float32", shape=(1, 3), role="filter"),
        },
        metadata={"task": {"terrain": "flat"}},
    )
    return msgspec.structs.replace(manifest, **changes)


def write_graph(out: Path, **changes: Any) -> Package:
    files = {"artifacts/a.onnx": support.model(SECOND), "artifacts/z.onnx": support.model(FIRST)}
    initial = {"h": support.f32(1, 2, 3), "copy": support.f32(0.5, 0, -1)}
    manifest = graph_manifest(**changes)
    return write(out, manifest, files=files, initial={name: initial[name] for name in manifest.states})
