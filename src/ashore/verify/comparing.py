"""What changed between two packages: what they say, what their weights are, and what comes out of them.

A new checkpoint changes weights and outputs and nothing else; a new exporter should change neither. Whatever else shows
up here was not meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from ashore.errors import AshoreError
from ashore.package import Array, Arrays, Golden, Package, batch_of, load_arrays
from ashore.runtime import Policy, load
from ashore.spec import CALLS, Stage
from ashore.verify.changes import Change, changed_files, changes
from ashore.verify.hints import hint
from ashore.verify.onnx_file import OnnxFile, read_onnx
from ashore.verify.references import run_tick
from ashore.verify.replay import difference_of, names_of, writer_of

_ABOUT = ("version", "description", "licence", "provenance", "findings", "constants", "verification", "metadata")


@dataclass(frozen=True)
class ArrayChange:
    """One array that is different: a weight, or the initial value of a state."""

    where: str
    """``stages/policy/actor.0.weight`` or ``states/h``."""

    what: Literal["added", "removed", "changed"]
    before: str
    """Dtype and shape; empty where it was added."""

    after: str
    max_abs_difference: float | None
    """None where the shapes are different."""

    detail: str = ""
    """What it comes to, such as ``"transposed"``."""

    @property
    def message(self) -> str:
        """One line."""
        if self.what != "changed":
            return f"{self.where}: {self.what} ({self.before or self.after})"
        if self.max_abs_difference is None:
            return f"{self.where}: was {self.before}, is {self.after}" + (f": {self.detail}" if self.detail else "")
        said = f" ({self.detail})" if self.detail else ""
        return f"{self.where}: {self.before}, largest difference {self.max_abs_difference:.4g}{said}"


@dataclass(frozen=True)
class OutputChange:
    """One output of both packages, on the recorded inputs of one of them, free-running."""

    recorded_by: Literal["A", "B", "both"]
    port: str
    max_abs_difference: float
    first: str
    """Where it is larger than the tolerance first: call, element and both values; empty if it never is."""


@dataclass
class Difference:
    """What changed from one package to another."""

    before: str
    after: str
    atol: float
    contract: list[Change] = field(default_factory=list[Change])
    weights: list[ArrayChange] = field(default_factory=list[ArrayChange])
    graphs: list[str] = field(default_factory=list[str])
    """Other operations, opsets and wires within stages."""

    states: list[ArrayChange] = field(default_factory=list[ArrayChange])
    files: list[Change] = field(default_factory=list[Change])
    """Files of stages that only their bytes can be compared of."""

    outputs: list[OutputChange] = field(default_factory=list[OutputChange])
    """Every output that both have, also where it is the same."""

    about: list[Change] = field(default_factory=list[Change])
    """What is only said: origin, findings, verification. It makes no difference."""

    not_compared: list[str] = field(default_factory=list[str])

    @property
    def same(self) -> bool:
        """Whether both are the same policy: contract, weights, graphs, states and outputs."""
        found = (self.contract, self.weights, self.graphs, self.states, self.files)
        return not any(found) and not any(one.first for one in self.outputs)


def compare(before: Package, after: Package, *, atol: float = 0.0) -> Difference:
    """Say what changed from one package to another.

    Args:
        before: the one that differences are told from.
        after: the other.
        atol: how far weights, initial states and outputs may be apart and still count as the same.
    """
    old, new = before.manifest, after.manifest
    found = Difference(str(before.path), str(after.path), atol, contract=changes(old, new))
    found.about = list(_about(before, after))
    found.states = list(_arrays("states", before.initial_state(), after.initial_state(), atol))
    for name in old.stages.keys() & new.stages.keys():
        _stages(found, before, after, name, atol)
    found.weights.sort(key=lambda change: change.where)
    found.files = [
        change
        for change in changed_files(old, new)
        if not change.where.endswith(("/onnx", ".safetensors"))  # those were read
    ]
    _outputs(found, before, after)
    return found


def _about(before: Package, after: Package) -> Iterator[Change]:
    documents = [msgspec.to_builtins(package.manifest) for package in (before, after)]
    for name in _ABOUT:
        old, new = (document.get(name) for document in documents)
        if old != new:
            yield Change(name, "changed", old, new)


# --- weights ---------------------------------------------------------------------------------------------------------


def _stages(found: Difference, before: Package, after: Package, name: str, atol: float) -> None:
    stages = before.manifest.stages[name], after.manifest.stages[name]
    files = [_onnx(package, stage) for package, stage in zip((before, after), stages, strict=True)]
    if files[0] is not None and files[1] is not None:
        found.weights += _arrays(f"stages/{name}", *_renamed(files[0].weights, files[1].weights), atol)
        found.graphs += _graphs(f"stages/{name}", files[0], files[1])
        unread = sorted({*files[0].unread, *files[1].unread})
        if unread:
            found.not_compared.append(f"stages/{name}: weights of types that numpy does not have: {', '.join(unread)}")
    assets = [set(stage.processor.assets if stage.processor else ()) for stage in stages]
    for path in sorted(assets[0] & assets[1]):
        if path.endswith(".safetensors"):
            arrays = [load_arrays(package.read(path), f"{package.path}: {path}") for package in (before, after)]
            found.weights += _arrays(f"stages/{name}", arrays[0], arrays[1], atol)


def _onnx(package: Package, stage: Stage) -> OnnxFile | None:
    artifact = stage.artifacts.get("onnx")
    return None if artifact is None else read_onnx(package.read(artifact.path), f"{package.path}: {artifact.path}")


def _renamed(old: Mapping[str, Array], new: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """The same without weights that only have another name: exporters number what has none."""
    left = {name: value for name, value in new.items() if name not in old}
    kept = dict(old)
    for name, value in old.items():
        if name in new:
            continue
        twin = next((other for other, one in left.items() if _equal(value, one)), None)
        if twin is not None:
            del kept[name], left[twin]
    return kept, {name: value for name, value in new.items() if name in old or name in left}


def _equal(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _arrays(where: str, old: Arrays, new: Arrays, atol: float) -> Iterator[ArrayChange]:
    for name in sorted({*old, *new}):
        path = f"{where}/{name}"
        if name not in new:
            yield ArrayChange(path, "removed", _kind(old[name]), "", None)
        elif name not in old:
            yield ArrayChange(path, "added", "", _kind(new[name]), None)
        else:
            yield from _array(path, old[name], new[name], atol)


def _array(path: str, old: Array, new: Array, atol: float) -> Iterator[ArrayChange]:
    kinds = _kind(old), _kind(new)
    if old.shape != new.shape:
        detail = "transposed" if old.ndim == 2 and _equal(old.T, new) else ""
        yield ArrayChange(path, "changed", *kinds, None, detail)
        return
    difference = float(difference_of(old, new).max(initial=0.0))
    if kinds[0] != kinds[1]:
        yield ArrayChange(path, "changed", *kinds, None, f"largest difference {difference:.4g}")
    elif difference > atol:
        yield ArrayChange(path, "changed", *kinds, difference, _detail(old, new))


def _detail(old: Array, new: Array) -> str:
    if old.ndim == 2 and _equal(np.ascontiguousarray(old.T), new):
        return "transposed"
    with np.errstate(over="ignore"):
        if old.dtype == np.float32 and _equal(old.astype(np.float16).astype(np.float32), new):
            return "rounded to float16"
    return hint(old, new, np.zeros(old.shape), None, "what they were")


def _kind(value: Array) -> str:
    return f"{value.dtype} {list(value.shape)}"


def _graphs(where: str, old: OnnxFile, new: OnnxFile) -> Iterator[str]:
    if old.opset != new.opset:
        yield f"{where}: was written in opset {old.opset}, is written in {new.opset}"
    if old.operations != new.operations:
        gone, come = old.operations - new.operations, new.operations - old.operations
        parts = [f"{sign}{count} {name}" for sign, some in (("-", gone), ("+", come)) for name, count in some.items()]
        yield f"{where}: other operations: {', '.join(parts)}"
        return
    if _only_names(old, new):
        return
    for one, two in zip(old.nodes, new.nodes, strict=True):
        if one.operation != two.operation:
            yield f"{where}: the operations come in another order: {one.operation} and {two.operation}"
            return
        if one.attributes != two.attributes:
            yield f"{where}: {one.operation} that gives {one.outputs[0]!r} has other attributes"
        elif (one.inputs, one.outputs) != (two.inputs, two.outputs):
            ends = (f"{', '.join(node.inputs)} -> {', '.join(node.outputs)}" for node in (one, two))
            yield f"{where}: {one.operation} is wired in another way: {' became '.join(ends)}"


def _only_names(old: OnnxFile, new: OnnxFile) -> bool:
    """Whether two graphs are the same but for what their values are called."""
    names: dict[str, str] = {}
    for one, two in zip(old.nodes, new.nodes, strict=True):
        ends = [(*node.inputs, *node.outputs) for node in (one, two)]
        if one.operation != two.operation or one.attributes != two.attributes or len(ends[0]) != len(ends[1]):
            return False
        for a, b in zip(*ends, strict=True):
            if (a in old.weights) != (b in new.weights) or names.setdefault(a, b) != b:
                return False
            if a in old.weights and not _equal(old.weights[a], new.weights[b]) and a != b:
                return False
    return len(set(names.values())) == len(names)


# --- outputs ---------------------------------------------------------------------------------------------------------


def _outputs(found: Difference, before: Package, after: Package) -> None:
    rollouts = before.golden(), after.golden()
    entries = [package.manifest.files.get("golden.safetensors") for package in (before, after)]
    recorded: dict[Literal["A", "B", "both"], tuple[Package, Golden | None]]
    if entries[0] is not None and entries[0] == entries[1]:
        recorded = {"both": (before, rollouts[0])}
    else:
        recorded = {"A": (before, rollouts[0]), "B": (after, rollouts[1])}
    for label, (package, golden) in recorded.items():
        if golden is None:
            found.not_compared.append(f"outputs on the inputs of {label}: it holds no golden rollout")
            continue
        batch = batch_of(golden, package.manifest)
        try:
            policies = [load(one, batch=batch) for one in (before, after)]
            found.outputs += _run_both(label, policies[0], policies[1], golden, found.atol)
        except (AshoreError, ModuleNotFoundError) as error:
            found.not_compared.append(f"outputs on the inputs of {label}: {error}")


def _run_both(
    label: Literal["A", "B", "both"], before: Policy, after: Policy, golden: Golden, atol: float
) -> list[OutputChange]:
    worst: dict[str, float] = {}
    first: dict[str, str] = {}
    counts = {"step": 0, "substep": 0}
    for tick in golden.ticks:
        results: list[Arrays] = []
        for policy in (before, after):
            if tick.reset:
                policy.reset()
            results.append(run_tick(policy, tick.rate, tick.inputs))
        call = CALLS[tick.rate]
        for name in results[0].keys() & results[1].keys():
            old, new = results[0][name], results[1][name]
            port = f"outputs/{name}"
            if old.shape != new.shape:
                worst[port] = np.inf
                first.setdefault(port, f"its shape was {list(old.shape)}, is {list(new.shape)}")
                continue
            difference = difference_of(old, new)
            worst[port] = max(worst.get(port, 0.0), float(difference.max(initial=0.0)))
            if port not in first and (difference > atol).any():
                first[port] = f"{call} {counts[call]}: {_place(before, port, old, new, difference > atol)}"
        counts[call] += 1
    return [OutputChange(label, port, value, first.get(port, "")) for port, value in sorted(worst.items())]


def _place(policy: Policy, port: str, old: Array, new: Array, wrong: Array) -> str:
    at = tuple(int(index) for index in np.argwhere(wrong)[0])
    names = names_of(policy.manifest, port)
    element = f"{list(at)}" + (f" ({names[at[-1]]})" if names and at else "")
    said = hint(old, new, np.zeros(old.shape), names, "what they were")
    return f"{element} of stage {writer_of(policy.manifest, port)!r} was {old[at].item()!r}, is {new[at].item()!r}" + (
        f" ({said})" if said else ""
    )
