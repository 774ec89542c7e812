"""The commonest package: one stage, some of whose outputs come back to it on the next run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ashore.spec.manifest import Artifact, Manifest, Port, Stage, State, Wire


class Feedback(NamedTuple):
    """A state of a one-stage package, and the two stage ports it runs between."""

    state: State
    source: str
    """The output that writes it; it may be an output of the package too."""

    target: str
    """The input that reads it."""


def single_stage(
    name: str,
    *,
    inputs: Mapping[str, Port],
    outputs: Mapping[str, Port],
    states: Mapping[str, Feedback] | None = None,
    artifacts: Mapping[str, Artifact],
    stage: str = "policy",
) -> Manifest:
    """Describe a package of one policy-rate stage.

    Args:
        name: of the package.
        inputs: package input name -> port; the stage has an input of the same name.
        outputs: package output name -> port; the stage has an output of the same name.
        states: state name -> where it runs.
        artifacts: backend -> artifact of the stage.
        stage: its name.

    Returns:
        A manifest to fill in further with `msgspec.structs.replace`, and to hand to `ashore.package.write`.
    """
    loops = states or {}
    bare = {port: Port(dtype=spec.dtype, shape=spec.shape) for port, spec in (*inputs.items(), *outputs.items())}
    for loop in loops.values():
        for port in (loop.source, loop.target):
            bare.setdefault(port, Port(dtype=loop.state.dtype, shape=loop.state.shape))
    wires = [
        *(Wire(f"inputs/{port}", f"{stage}/{port}") for port in inputs),
        *(Wire(f"states/{state}", f"{stage}/{loop.target}") for state, loop in loops.items()),
        *(Wire(f"{stage}/{loop.source}", f"states/{state}") for state, loop in loops.items()),
        *(Wire(f"{stage}/{port}", f"outputs/{port}") for port in outputs),
    ]
    return Manifest(
        name=name,
        inputs=dict(inputs),
        outputs=dict(outputs),
        stages={
            stage: Stage(
                rate="policy",
                inputs={port: bare[port] for port in (*inputs, *(loop.target for loop in loops.values()))},
                outputs={
                    port: bare[port] for port in dict.fromkeys((*outputs, *(loop.source for loop in loops.values())))
                },
                artifacts=dict(artifacts),
            )
        },
        wires=tuple(wires),
        states={state: loop.state for state, loop in loops.items()},
    )
