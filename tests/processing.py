"""Stages that are processors, to test with: how they are made, run through episodes, and put into a package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ashore.package import Package, load_arrays, save_arrays, write
from ashore.processors import Apply, build
from ashore.spec import Manifest, Port, Processor, Stage, State, Wire

Shape = tuple[Any, ...]
Arrays = dict[str, np.ndarray]

LEROBOT = load_arrays((Path(__file__).parent / "data" / "lerobot.safetensors").read_bytes(), "lerobot")
"""What LeRobot computes; see tests/data/build_references.py."""


def port(*shape: Any, dtype: Any = "float32", **rest: Any) -> Port:
    return Port(dtype=dtype, shape=shape, **rest)


def count(*shape: Any) -> Port:
    return port(*shape, dtype="int64")


def text(width: int, rows: Any = "batch") -> Port:
    return port(rows, width, dtype="uint8", kind="command/language")


def stage(
    kind: str,
    inputs: Mapping[str, Port],
    outputs: Mapping[str, Port],
    assets: tuple[str, ...] = (),
    **params: Any,
) -> Stage:
    processor = Processor(type=kind, params=params, assets=assets)
    return Stage(rate="policy", inputs=dict(inputs), outputs=dict(outputs), processor=processor)


def make(made: Stage, asset: bytes | Arrays = b"") -> Apply:
    data = asset if isinstance(asset, bytes) else save_arrays(asset)
    return build("here", made, lambda _: data)


def run(
    apply: Apply, states: Arrays, inputs: Iterable[Arrays], resets: Mapping[int, Any] | None = None
) -> list[Arrays]:
    """What a stage gives tick by tick, its outputs ``x_next`` fed back into its inputs ``x``.

    Args:
        states: initial values.
        resets: tick -> which rows are reset before it; True is all of them.
    """
    resets = resets or {}
    current, seen = {name: value.copy() for name, value in states.items()}, list[Arrays]()
    for tick, given in enumerate(inputs):
        for name, value in states.items():
            if tick in resets:
                current[name][resets[tick]] = value[resets[tick]]
        before = {name: value.copy() for name, value in (given | current).items()}
        result = dict(apply(given | current))
        for name, value in before.items():
            np.testing.assert_array_equal((given | current)[name], value, f"{name} was written to")
        seen.append({name: value.copy() for name, value in result.items()})
        current = {name: result[f"{name}_next"].copy() for name in states}
    return seen


def write_stage(out: Path, made: Stage, roles: Mapping[str, Any], assets: Mapping[str, bytes] | None = None) -> Package:
    """A package of one stage; its inputs that `roles` names are states."""
    inputs = {name: value for name, value in made.inputs.items() if name not in roles}
    outputs = dict(made.outputs)
    states = {
        name: State(dtype=made.inputs[name].dtype, shape=made.inputs[name].shape, role=role)
        for name, role in roles.items()
    }
    wires = [Wire(f"{'states' if name in states else 'inputs'}/{name}", f"stage/{name}") for name in made.inputs]
    wires += [Wire(f"stage/{name}", f"outputs/{name}") for name in outputs]
    wires += [Wire(f"stage/{name}_next", f"states/{name}") for name in states]
    manifest = Manifest(
        name="one", inputs=inputs, outputs=outputs, stages={"stage": made}, wires=tuple(wires), states=states
    )
    one = {name: tuple(1 if dim == "batch" else dim for dim in state.shape) for name, state in states.items()}
    initial = {name: np.zeros(shape, states[name].dtype) for name, shape in one.items()}
    return write(out, manifest, files=dict(assets or {}), initial=initial)
