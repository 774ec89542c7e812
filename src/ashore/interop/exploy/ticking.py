"""What a file that Exploy wrote looks like from outside: ports, memory, the two graphs, ticks per decision.

Only what Exploy writes is understood, and everything else is refused: a policy that is read wrongly moves a robot
wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from ashore.errors import PackageError
from ashore.interop.exploy.renaming import captured, reads
from ashore.package import Array
from ashore.runtime.one_file import STEP_COUNT, memory_in, memory_out, memory_read_by, memory_written_by
from ashore.spec import DTYPE_BYTES, Dim, Port, concrete

_PASSING = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten")
"""Nodes that leave one number what it is."""


@dataclass(frozen=True)
class Memory:
    """What the file remembers under one name."""

    port: Port
    initial: Array
    stored: bool
    """Whether the file holds the initial value; else it is taken to be zero."""


@dataclass(frozen=True)
class Ticking:
    """The file, understood."""

    decimation: int
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    memory: dict[str, Memory]
    default: onnx.GraphProto
    process_actions: onnx.GraphProto
    results: tuple[str, ...]
    """The ports that the outputs of both graphs are, in order."""

    before: tuple[onnx.NodeProto, ...]
    """Nodes outside of the two graphs that they use."""

    constants: tuple[onnx.TensorProto, ...]
    """Constants outside of the two graphs."""


def understand(model: onnx.ModelProto, where: str) -> Ticking:
    """Look at a file from outside.

    Args:
        model: the file, without functions of its own.
        where: what to call it in an error.
    """
    return _Reader(model.graph, where).read()


class _Reader:
    def __init__(self, graph: onnx.GraphProto, where: str) -> None:
        self._graph, self._where = graph, where
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._constants = {constant.name: constant for constant in graph.initializer}
        if graph.sparse_initializer:
            raise self._refused("it has sparse constants")

    def read(self) -> Ticking:
        names = [port.name for port in self._graph.input]
        if STEP_COUNT not in names:
            raise self._refused(f"it has no input {STEP_COUNT!r}")
        choose = self._choice()
        decimation = self._decimation(choose.input[0])
        branches = {entry.name: entry.g for entry in choose.attribute}
        inputs = {p.name: self._port(p) for p in self._graph.input if p.name != STEP_COUNT}
        outputs = {p.name: self._port(p) for p in self._graph.output}
        for name in outputs:
            if name not in choose.output:
                raise self._refused(f"its output {name!r} is not chosen between the two graphs")
        inputs, outputs = self._one_batch(inputs, outputs)
        memory = self._memory(inputs, outputs)
        for name in self._constants.keys() & inputs.keys():
            if memory_read_by(name) is None:
                raise self._refused(f"its input {name!r} has a value of its own, so nobody could tell if it was given")
        before = self._before(branches.values())
        return Ticking(
            decimation=decimation,
            inputs={name: port for name, port in inputs.items() if memory_read_by(name) is None},
            outputs={name: port for name, port in outputs.items() if memory_written_by(name) is None},
            memory=memory,
            default=branches["then_branch"],
            process_actions=branches["else_branch"],
            results=tuple(choose.output),
            before=before,
            constants=tuple(constant for name, constant in self._constants.items() if name not in inputs),
        )

    def _refused(self, why: str) -> PackageError:
        return PackageError(f"{self._where}: is not a policy as Exploy writes it: {why}")

    # --- the choice --------------------------------------------------------------------------------------------------

    def _choice(self) -> onnx.NodeProto:
        found = [node for node in self._graph.node if node.op_type == "If"]
        if len(found) != 1:
            raise self._refused(f"expected one If node that chooses between two graphs, got {len(found)}")
        graphs = {entry.name for entry in found[0].attribute}
        if graphs != {"then_branch", "else_branch"} or len(found[0].input) != 1:
            raise self._refused(f"its If node has {sorted(graphs)}")
        for entry in found[0].attribute:
            if len(entry.g.output) != len(found[0].output):
                raise self._refused(f"its {entry.name} gives {len(entry.g.output)} outputs for {len(found[0].output)}")
            if entry.g.sparse_initializer or entry.g.input:
                raise self._refused(f"its {entry.name} has inputs of its own, or sparse constants")
        return found[0]

    def _decimation(self, condition: str) -> int:
        """The ticks per decision, from ``count mod decimation == 0``."""
        equal = self._made_by(condition, "Equal")
        sides = [(left, right) for left, right in (equal.input, reversed(equal.input)) if self._number(right) == 0]
        if not sides:
            raise self._refused("its If node does not ask whether something is 0")
        mod = self._made_by(sides[0][0], "Mod")
        if self._passed(mod.input[0]) != STEP_COUNT:
            raise self._refused(f"its If node does not ask for {STEP_COUNT!r}")
        decimation = self._number(mod.input[1])
        if decimation is None or decimation < 1:
            raise self._refused(f"it decides every {decimation} ticks; expected a constant from 1")
        return decimation

    def _made_by(self, value: str, kind: str) -> onnx.NodeProto:
        node = self._makers.get(self._passed(value))
        if node is None or node.op_type != kind or len(node.input) != 2:
            found = "nothing" if node is None else node.op_type
            raise self._refused(f"expected {kind} to decide which graph runs, got {found}")
        return node

    def _passed(self, value: str) -> str:
        """Where a number comes from that is only handed on."""
        for _ in self._graph.node:
            node = self._makers.get(value)
            if node is None or node.op_type not in _PASSING:
                break
            value = node.input[0]
        return value

    def _number(self, value: str) -> int | None:
        """The whole number that a value always is."""
        value = self._passed(value)
        node = self._makers.get(value)
        if value in self._constants:
            array = tensor_value(self._constants[value])
        elif node is not None and node.op_type == "Constant" and len(node.attribute) == 1:
            array = constant_value(node)
        else:
            return None
        return int(array.item()) if array is not None and array.size == 1 and array.dtype.kind in "iu" else None

    # --- ports -------------------------------------------------------------------------------------------------------

    def _port(self, declared: onnx.ValueInfoProto) -> Port:
        tensor, name = declared.type.tensor_type, declared.name
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        except (KeyError, ValueError, TypeError):
            dtype = f"type {tensor.elem_type}"
        if declared.type.WhichOneof("value") != "tensor_type" or dtype not in DTYPE_BYTES:
            raise self._refused(f"{name!r} is {dtype}, which a package cannot hold")
        if not tensor.HasField("shape"):
            raise self._refused(f"{name!r} has no shape")
        shape: list[Dim] = []
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.dim_param:
                shape.append(dim.dim_param)  # type: ignore[arg-type] # becomes the batch, if it is the only one
            elif dim.dim_value > 0:
                shape.append(dim.dim_value)
            else:
                raise self._refused(f"{name!r} has no length for axis {axis}")
        return Port(dtype=dtype, shape=tuple(shape))  # type: ignore[arg-type] # checked above

    def _one_batch(self, *groups: dict[str, Port]) -> Iterator[dict[str, Port]]:
        """Ports whose one symbolic length, whatever it is called, is the batch."""
        names = {dim for ports in groups for port in ports.values() for dim in port.shape if isinstance(dim, str)}
        if len(names) > 1:
            raise self._refused(f"it has the symbolic lengths {sorted(names)}; a package has one, the batch")
        for ports in groups:
            yield {name: _with_batch(port) for name, port in ports.items()}

    def _memory(self, inputs: Mapping[str, Port], outputs: Mapping[str, Port]) -> dict[str, Memory]:
        read = {name: port for port in inputs if (name := memory_read_by(port)) is not None}
        written = {name: port for port in outputs if (name := memory_written_by(port)) is not None}
        for name in sorted(read.keys() ^ written.keys()):
            missing = memory_out(name) if name in read else memory_in(name)
            raise self._refused(f"the memory {name!r} has no {missing!r}, so it is not fed back")
        found: dict[str, Memory] = {}
        for name, source in read.items():
            port, result = inputs[source], outputs[written[name]]
            if (port.dtype, port.shape) != (result.dtype, result.shape):
                raise self._refused(f"the memory {name!r} is read and written with different types or shapes")
            stored = self._constants.get(source)
            zeros = np.zeros(concrete(port.shape, 1), port.dtype)
            initial = zeros if stored is None else tensor_value(stored)
            if initial is None or initial.dtype != zeros.dtype or initial.shape != zeros.shape:
                raise self._refused(f"the initial value of the memory {name!r} does not fit it")
            found[name] = Memory(port, initial, stored is not None)
        return found

    # --- what lies outside of the two graphs -------------------------------------------------------------------------

    def _before(self, graphs: Iterable[onnx.GraphProto]) -> tuple[onnx.NodeProto, ...]:
        wanted = {name for graph in graphs for name in captured(graph)}
        needed: list[onnx.NodeProto] = []
        for node in reversed(self._graph.node):
            if wanted & set(node.output):
                if node.op_type == "If":
                    raise self._refused("its two graphs use what they themselves compute")
                needed.append(node)
                wanted |= reads(node)
        if STEP_COUNT in wanted:
            raise self._refused(f"its graphs use {STEP_COUNT!r} for more than to decide which of them runs")
        known = {*self._constants, *(port.name for port in self._graph.input), *self._makers}
        for name in sorted(wanted - known):
            raise self._refused(f"its graphs use {name!r}, which is nowhere")
        return tuple(reversed(needed))


def constant_value(node: onnx.NodeProto) -> Array | None:
    """What a Constant node gives, or None if that is no plain array."""
    entry = node.attribute[0]
    match entry.name:
        case "value":
            return tensor_value(entry.t)
        case "value_int" | "value_ints":
            return np.array(onnx.helper.get_attribute_value(entry), np.int64)
        case "value_float" | "value_floats":
            return np.array(onnx.helper.get_attribute_value(entry), np.float32)
        case _:
            return None


def tensor_value(tensor: onnx.TensorProto) -> Array | None:
    """What a constant holds, or None if it contradicts itself."""
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, LookupError, NotImplementedError):
        return None


def _with_batch(port: Port) -> Port:
    shape: tuple[Dim, ...] = tuple("batch" if isinstance(dim, str) else dim for dim in port.shape)
    return Port(dtype=port.dtype, shape=shape)
