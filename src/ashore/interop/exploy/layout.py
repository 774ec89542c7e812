"""What goes into and comes out of the one file of a package: ports, memory, and how many ticks make a decision.

Outputs of the policy rate are computed once a decision. In the ticks between they are zero, with two exceptions, since
a zero may be a command: outputs that a controller takes for commands, and all outputs of a package in which nothing
runs between decisions, keep their value. What keeps its value is a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ashore.runtime.one_file import STEP_COUNT, memory_read_by, memory_written_by
from ashore.spec import BATCH, Manifest, Port, State, Wiring

FIRST_OUTPUTS = ("actions", "obs")
"""What a controller expects before other outputs."""

COMMANDS = "output."
"""What the names of commands start with."""

CONTROLLER_DTYPES = ("float32", "int32", "bool")
_ROOT = "ashore:"


@dataclass(frozen=True)
class Layout:
    """The outside of the file."""

    decimation: int
    decided: str
    """The memory that is false until something was decided."""

    held: dict[str, str]
    """Output of the policy rate that keeps its value between decisions -> the memory that keeps it."""

    root: str
    """What every name inside starts with, and no name outside."""


def plan(manifest: Manifest) -> Layout:
    """Choose the names of what the manifest has no names for."""
    graph = Wiring(manifest)
    decimation = 1 if manifest.timing is None else manifest.timing.decimation
    acts = any(stage.rate == "substep" for stage in manifest.stages.values())
    keeps = [name for name in graph.outputs_of("policy") if decimation > 1 and (not acts or name.startswith(COMMANDS))]
    taken = set(manifest.states)
    held: dict[str, str] = {}
    for name in keeps:
        held[name] = unused(f"held.{name}", taken)
        taken.add(held[name])
    decided = unused("decided", taken)
    root = _ROOT
    while any(name.startswith(root) for name in (*manifest.inputs, *manifest.outputs)):
        root += ":"
    return Layout(decimation, decided, held, root)


def unused(name: str, taken: Iterable[str]) -> str:
    """A name, with as many underscores after it as it takes to be free."""
    known = set(taken)
    while name in known:
        name += "_"
    return name


def output_order(manifest: Manifest) -> list[str]:
    """The outputs of the package, in the order of the file."""
    first = [name for name in FIRST_OUTPUTS if name in manifest.outputs]
    return [*first, *(name for name in manifest.outputs if name not in first)]


def memories(manifest: Manifest, layout: Layout) -> dict[str, Port | State]:
    """Every memory that the two graphs write, in the order of the file."""
    return {**manifest.states, **{memory: manifest.outputs[name] for name, memory in layout.held.items()}}


def name_problems(manifest: Manifest) -> Iterator[str]:
    """What about the names of a package cannot be said in one ONNX file."""
    for what, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        for name in ports:
            if name == STEP_COUNT:
                yield f"{what} {name!r}: a controller counts its ticks under this name"
            elif memory_read_by(name) is not None or memory_written_by(name) is not None:
                yield f"{what} {name!r}: a controller would take it for memory"
    for name in manifest.inputs.keys() & manifest.outputs.keys():
        yield f"{name!r} is an input and an output; an ONNX file has one value of a name"


def batch_problems(manifest: Manifest, layout: Layout) -> Iterator[str]:
    """Zeros for any number of rows need something to count the rows of."""
    graph = Wiring(manifest)
    if any(BATCH in array.shape for array in (*manifest.inputs.values(), *manifest.states.values())):
        return
    for name in graph.outputs_of("policy"):
        if name not in layout.held and BATCH in manifest.outputs[name].shape:
            yield f"output {name!r} has a symbolic batch, and no input or state has one"


def warnings(manifest: Manifest) -> Iterator[str]:
    """What is worth saying about a package that can be written."""
    for name, state in manifest.states.items():
        if state.reset == "keep":
            yield (
                f"state {name!r} is kept on a reset of the package; a controller forgets everything on a reset, so it "
                "starts from its initial value again"
            )
    groups = (("input", manifest.inputs), ("output", manifest.outputs), ("state", manifest.states))
    for what, arrays in groups:
        for name, array in arrays.items():
            if array.dtype not in CONTROLLER_DTYPES:
                yield f"{what} {name!r} is {array.dtype}; Exploy's controller takes {', '.join(CONTROLLER_DTYPES)} only"
