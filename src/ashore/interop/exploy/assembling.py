"""From stages to one graph.

One tick of the graph is, if it is time to decide, the stages of the policy rate and then those of the substep rate
(``default``); else those of the substep rate alone (``process_actions``). It is time to decide every `decimation`
ticks, and on the first tick of all: then the graph takes the initial states that it holds, whatever the memory it is
given.

Every name inside starts with a root that no port has, then says where it belongs:

    <root>constants/<stage>/…        weights and other constants of a stage, shared by both graphs
    <root>default/<stage>/…          the values of a stage in that graph, as the stage calls them
    <root>default/outputs/<output>   what the graph gives out
    <root>default/states/in/<state>  a state before the tick, and out/<state> after it
    <root>control/…                  what chooses between the graphs

so that the stages can be taken out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from ashore.interop.exploy.layout import Layout, memories, output_order
from ashore.interop.exploy.renaming import captured, renamed
from ashore.interop.exploy.stages import StageModel, element_type, ir_version_of, opsets_of, value_info
from ashore.package import Array, Arrays
from ashore.runtime.one_file import STEP_COUNT, memory_in, memory_out
from ashore.spec import BATCH, Endpoint, Manifest, Port, Rate, State, Wiring, concrete

DEFAULT, PROCESS_ACTIONS = "default", "process_actions"
_FLAG = Port(dtype="bool", shape=(1,))
_COUNT = Port(dtype="int32", shape=())


@dataclass(frozen=True)
class Assembled:
    """The whole file, and its two graphs as files of their own."""

    whole: onnx.ModelProto
    default: onnx.ModelProto
    process_actions: onnx.ModelProto


def assemble(manifest: Manifest, layout: Layout, stages: Mapping[str, StageModel], initial: Arrays) -> Assembled:
    """Build the graph of a package.

    Args:
        manifest: of the package.
        layout: what is called how.
        stages: what each stage computes.
        initial: state -> initial value; a symbolic batch axis has length 1.
    """
    return _Assembler(manifest, layout, stages, initial).assemble()


def constant_prefix(root: str, stage: str) -> str:
    """What the names of a stage's constants start with."""
    return f"{root}constants/{stage}/"


def stage_prefix(root: str, branch: str, stage: str) -> str:
    """What the names of a stage's nodes and values start with."""
    return f"{root}{branch}/{stage}/"


class _Assembler:
    def __init__(self, manifest: Manifest, layout: Layout, stages: Mapping[str, StageModel], initial: Arrays) -> None:
        self._manifest, self._layout, self._stages, self._initial = manifest, layout, stages, initial
        self._wiring = Wiring(manifest)
        self._memories = memories(manifest, layout)
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: dict[str, Port | State] = {
            STEP_COUNT: _COUNT,
            **manifest.inputs,
            **{memory_in(name): spec for name, spec in self._memories.items()},
            memory_in(layout.decided): _FLAG,
        }
        self._outputs: dict[str, Port | State] = {
            **{name: manifest.outputs[name] for name in output_order(manifest)},
            **{memory_out(name): spec for name, spec in self._memories.items()},
        }
        self._first = self._inner("control", "first")

    def assemble(self) -> Assembled:
        """The whole file, and the two graphs."""
        self._take_constants()
        control = self._control()
        default, process_actions = self._default(), self._process_actions()
        choose = onnx.helper.make_node(
            "If",
            [self._inner("control", "decide")],
            list(self._outputs),
            self._inner("control", "nodes", "if"),
            then_branch=default,
            else_branch=process_actions,
        )
        decided = memory_out(self._layout.decided)
        true = self._constant(self._inner("control", "true"), np.array([True]))
        graph = self._graph(
            "ticks",
            [*control, choose, self._node("Identity", [true], decided)],
            self._inputs,
            {**self._outputs, decided: _FLAG},
            self._constants.values(),
        )
        return Assembled(self._model(graph), self._alone(default, control), self._alone(process_actions, control))

    def _take_constants(self) -> None:
        for name, stage in self._stages.items():
            for constant in stage.constants:
                copy = onnx.TensorProto()
                copy.CopyFrom(constant)
                copy.name = constant_prefix(self._layout.root, name) + constant.name
                self._constants[copy.name] = copy

    def _control(self) -> list[onnx.NodeProto]:
        """What chooses between the two graphs."""
        phase, due, decide = (self._inner("control", word) for word in ("phase", "due", "decide"))
        decimation = self._constant(self._inner("control", "decimation"), np.array(self._layout.decimation, np.int32))
        zero = self._constant(self._inner("control", "zero"), np.array(0, np.int32))
        return [
            self._node("Mod", [STEP_COUNT, decimation], phase),
            self._node("Equal", [phase, zero], due),
            self._node("Not", [memory_in(self._layout.decided)], self._first),
            self._node("Or", [due, self._first], decide),
        ]

    # --- the two graphs ----------------------------------------------------------------------------------------------

    def _default(self) -> onnx.GraphProto:
        values = {Endpoint("inputs", name): name for name in self._manifest.inputs}
        nodes = self._start(values)
        self._run("policy", DEFAULT, nodes, values)
        self._run("substep", DEFAULT, nodes, values)
        for name, memory in self._layout.held.items():
            values[Endpoint("states", memory)] = values[Endpoint("outputs", name)]
        return self._branch(DEFAULT, nodes, values)

    def _process_actions(self) -> onnx.GraphProto:
        nodes: list[onnx.NodeProto] = []
        values = {Endpoint("inputs", name): name for name in self._manifest.inputs}
        values |= {Endpoint("states", name): memory_in(name) for name in self._memories}
        self._run("substep", PROCESS_ACTIONS, nodes, values)
        for name in self._wiring.outputs_of("policy"):
            held = self._layout.held.get(name)
            values[Endpoint("outputs", name)] = self._zeros(name, nodes) if held is None else memory_in(held)
        return self._branch(PROCESS_ACTIONS, nodes, values)

    def _start(self, values: dict[Endpoint, str]) -> list[onnx.NodeProto]:
        """Give the states that a decision starts from: on the first tick those of the package, else the memory.

        `If` and not `Where`, which ONNX Runtime does not have for every dtype.
        """
        states = self._manifest.states
        if not states:
            return []
        chosen = {name: self._inner(DEFAULT, "states", "in", name) for name in states}
        values |= {Endpoint("states", name): value for name, value in chosen.items()}
        first: list[onnx.NodeProto] = []
        for name, state in states.items():
            initial = self._constant(self._inner("control", "initial", name), self._initial[name])
            start, shape = self._inner("control", "start", name), self._inner("control", "shape", name)
            if BATCH in state.shape:
                first.append(self._node("Shape", [memory_in(name)], shape))
                first.append(self._node("Expand", [initial, shape], start))
            else:
                first.append(self._node("Identity", [initial], start))
        later = [self._node("Identity", [memory_in(name)], self._inner("control", "later", name)) for name in states]
        branches: dict[str, Any] = {
            side: self._graph(word, nodes, {}, {self._inner("control", word, name): states[name] for name in states})
            for side, word, nodes in (("then_branch", "start", first), ("else_branch", "later", later))
        }
        label = self._inner("control", "nodes", "start")
        return [onnx.helper.make_node("If", [self._first], list(chosen.values()), label, **branches)]

    def _run(self, rate: Rate, branch: str, nodes: list[onnx.NodeProto], values: dict[Endpoint, str]) -> None:
        """Add the stages of a rate. They see the states as they were, and the states change together at the end."""
        written: dict[Endpoint, str] = {}
        for name in self._wiring.order():
            spec, model = self._manifest.stages[name], self._stages[name]
            if spec.rate != rate:
                continue
            prefix = stage_prefix(self._layout.root, branch, name)
            constants = constant_prefix(self._layout.root, name)
            others = {constant.name: constants + constant.name for constant in model.constants}
            for port in spec.inputs:
                source = values[self._wiring.into(Endpoint(name, port))[0]]
                nodes.append(self._node("Identity", [source], prefix + port))
            nodes += renamed(model.nodes, prefix, others)
            for port in spec.outputs:
                value = values[Endpoint(name, port)] = others.get(port, prefix + port)
                targets = self._wiring.out_of(Endpoint(name, port))
                written |= {target: value for target in targets if target.group in ("states", "outputs")}
        values |= written

    def _branch(self, branch: str, nodes: list[onnx.NodeProto], values: Mapping[Endpoint, str]) -> onnx.GraphProto:
        ends = {
            **{Endpoint("outputs", name): (branch, "outputs", name) for name in output_order(self._manifest)},
            **{Endpoint("states", name): (branch, "states", "out", name) for name in self._memories},
        }
        names = {self._inner(*parts): values[end] for end, parts in ends.items()}
        nodes += [self._node("Identity", [value], name) for name, value in names.items()]
        return self._graph(branch, nodes, {}, dict(zip(names, self._outputs.values(), strict=True)))

    def _zeros(self, name: str, nodes: list[onnx.NodeProto]) -> str:
        """An output that nothing computed."""
        port, made = self._manifest.outputs[name], self._inner("control", "zeros", name)
        if BATCH not in port.shape:
            return self._constant(made, np.zeros(concrete(port.shape, 1), port.dtype))
        rows, axis = next((name, spec.shape.index(BATCH)) for name, spec in self._inputs.items() if BATCH in spec.shape)
        shape, length, whole = (self._inner("control", word, name) for word in ("rows", "length", "zeros_shape"))
        index = self._constant(self._inner("control", "axis"), np.array([axis], np.int64))
        nodes.append(self._node("Shape", [rows], shape))
        nodes.append(self._node("Gather", [shape, index], length))
        lengths = [length if dim == BATCH else self._length(dim) for dim in port.shape]
        nodes.append(self._node("Concat", lengths, whole, axis=0))
        zero = onnx.helper.make_tensor("zero", element_type(port.dtype), [1], [0])
        nodes.append(self._node("ConstantOfShape", [whole], made, value=zero))
        return made

    def _length(self, length: int) -> str:
        return self._constant(self._inner("control", "lengths", str(length)), np.array([length], np.int64))

    # --- parts -------------------------------------------------------------------------------------------------------

    def _inner(self, *parts: str) -> str:
        """A name inside. Only the last part may be the name of a port or a state, since those may hold slashes."""
        return self._layout.root + "/".join(parts)

    def _constant(self, name: str, value: Array) -> str:
        self._constants[name] = onnx.numpy_helper.from_array(value, name)
        return name

    def _node(self, kind: str, inputs: Iterable[str], output: str, **attributes: Any) -> onnx.NodeProto:
        label = self._inner("control", "nodes", "of", output)
        return onnx.helper.make_node(kind, list(inputs), [output], label, **attributes)

    def _graph(
        self,
        name: str,
        nodes: list[onnx.NodeProto],
        inputs: Mapping[str, Port | State],
        outputs: Mapping[str, Port | State],
        constants: Iterable[onnx.TensorProto] = (),
    ) -> onnx.GraphProto:
        ins, outs = ([value_info(name, spec) for name, spec in ports.items()] for ports in (inputs, outputs))
        return onnx.helper.make_graph(nodes, name, ins, outs, list(constants))

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        return onnx.helper.make_model(
            graph,
            opset_imports=opsets_of(self._stages),
            ir_version=ir_version_of(self._stages),
            producer_name="ashore",
        )

    def _alone(self, branch: onnx.GraphProto, control: list[onnx.NodeProto]) -> onnx.ModelProto:
        """One of the two graphs as a file that can be run, with the ports that it uses."""
        before = [node for node in control if node.output[0] == self._first and self._first in captured(branch)]
        pairs = zip(branch.output, self._outputs, strict=True)
        nodes = [*before, *branch.node, *(self._node("Identity", [inner.name], outer) for inner, outer in pairs)]
        needed = captured(self._graph(branch.name, nodes, {}, self._outputs))
        inputs = {name: spec for name, spec in self._inputs.items() if name in needed}
        constants = [constant for name, constant in self._constants.items() if name in needed]
        return self._model(self._graph(branch.name, nodes, inputs, self._outputs, constants))
