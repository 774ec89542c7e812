"""A file that Exploy wrote, as a package.

Its Default graph decides and acts once, its ProcessActions graph acts. A package decides in one call and acts in
another, so the stage that decides runs the Default graph and keeps everything that it gives in states, with a flag that
says so. The stage that acts hands out what was kept, if the flag is up, and takes it down; else it runs the
ProcessActions graph. A step and `decimation` substeps then give exactly what as many ticks of the file give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from ashore.interop.contents import Contents
from ashore.interop.exploy.layout import FIRST_OUTPUTS, unused
from ashore.interop.exploy.renaming import captured, defined, reads, renamed
from ashore.interop.exploy.said import Said, understand_metadata
from ashore.interop.exploy.stages import ONNX_DOMAINS, StageModel, stage_file, value_info
from ashore.interop.exploy.ticking import Ticking, constant_value, tensor_value, understand
from ashore.package import Array
from ashore.runtime.one_file import memory_in, memory_out
from ashore.spec import (
    Artifact,
    Finding,
    Manifest,
    Port,
    Rate,
    Role,
    Stage,
    State,
    Timing,
    Wire,
)

_FLAG = Port(dtype="bool", shape=(1,))
_DECIDE, _ACT = "default", "process_actions"
_ZERO_PASSING = ("Identity", "Cast", "Expand", "Reshape")
"""Nodes that give zeros for zeros."""


def convert_foreign(model: onnx.ModelProto, stem: str, where: str) -> Contents:
    """The package that computes what the file does.

    Args:
        model: the file.
        stem: its name, which becomes the name of the package.
        where: what to call it in an error.
    """
    ticking = understand(model, where)
    said = understand_metadata(model, ticking, where)
    return _Converter(model, ticking, said, _identifier(stem)).convert()


class _Converter:
    def __init__(self, model: onnx.ModelProto, ticking: Ticking, said: Said, name: str) -> None:
        self._ticking, self._said, self._name = ticking, said, name
        self._opsets = {"" if o.domain in ONNX_DOMAINS else o.domain: o.version for o in model.opset_import}
        self._ir_version = model.ir_version
        ports = {*ticking.inputs, *ticking.outputs, *map(memory_in, ticking.memory), *map(memory_out, ticking.memory)}
        self._root = "exploy:"
        while any(port.startswith(self._root) for port in ports):
            self._root += ":"
        self._acts = ticking.decimation > 1
        """Whether the ProcessActions graph is ever run."""

        self._decided = [name for name in ticking.outputs if not self._acts or self._is_zero_between(name)]
        """Outputs that only a decision computes."""

        self._kept: dict[str, str] = {}
        """Any other output -> the state that keeps it for the first substep."""

        taken = set(ticking.memory)
        for name in ticking.outputs if self._acts else ():
            if name not in self._decided:
                self._kept[name] = unused(f"kept.{name}", taken)
                taken.add(self._kept[name])
        self._fresh = unused("fresh", taken)

    def convert(self) -> Contents:
        """The package, and what its states start from."""
        memory, ticking = self._ticking.memory, self._ticking
        states = {
            name: State(dtype=one.port.dtype, shape=one.port.shape, role=_role(name)) for name, one in memory.items()
        }
        initial: dict[str, Array] = {name: one.initial for name, one in memory.items()}
        for output, name in self._kept.items():
            port = ticking.outputs[output]
            states[name] = State(dtype=port.dtype, shape=port.shape, role="memory", description=_KEPT)
            initial[name] = np.zeros([1 if isinstance(dim, str) else dim for dim in port.shape], port.dtype)
        if self._acts:
            states[self._fresh] = State(dtype="bool", shape=(1,), role="memory", description=_FRESH)
            initial[self._fresh] = np.array([False])
        models = {_DECIDE: self._decide(), **({_ACT: self._act()} if self._acts else {})}
        manifest = self._manifest(states, models)
        files = {f"artifacts/{name}.onnx": stage_file(manifest, name, model) for name, model in models.items()}
        return Contents(manifest, files, initial)

    def _manifest(self, states: dict[str, State], models: Iterable[str]) -> Manifest:
        ticking, said = self._ticking, self._said
        ports = {_DECIDE: self._decide_ports(), _ACT: self._act_ports()}
        rates: dict[str, Rate] = {_DECIDE: "policy", _ACT: "substep"}
        stages = {
            name: Stage(
                rate=rates[name],
                inputs=ports[name][0],
                outputs=ports[name][1],
                artifacts={
                    "onnx": Artifact(
                        path=f"artifacts/{name}.onnx", opset=self._opsets.get(""), ir_version=self._ir_version
                    )
                },
            )
            for name in models
        }
        return Manifest(
            name=self._name,
            provenance=said.provenance,
            timing=_timing(ticking.decimation, said.physics_dt_s),
            inputs={name: _described(port, said.ports.get(name)) for name, port in ticking.inputs.items()},
            outputs={name: _described(port, said.ports.get(name)) for name, port in ticking.outputs.items()},
            stages=stages,
            wires=tuple(self._wires(stages)),
            states=states,
            findings=tuple(self._findings()),
            metadata=said.metadata,
        )

    def _wires(self, stages: Mapping[str, Stage]) -> Iterable[Wire]:
        ticking = self._ticking
        fed = {memory_in(name): f"states/{name}" for name in ticking.memory}
        fed |= {self._kept_port(name): f"states/{state}" for name, state in self._kept.items()}
        fed[self._fresh_port("in")] = f"states/{self._fresh}"
        goes = {memory_out(name): f"states/{name}" for name in ticking.memory}
        goes[self._fresh_port("out")] = f"states/{self._fresh}"
        for name, stage in stages.items():
            yield from (Wire(fed.get(port, f"inputs/{port}"), f"{name}/{port}") for port in stage.inputs)
            for port in stage.outputs:
                kept = f"states/{self._kept[port]}" if name == _DECIDE and port in self._kept else f"outputs/{port}"
                yield Wire(f"{name}/{port}", goes.get(port, kept))

    def _findings(self) -> Iterable[Finding]:
        assumed = [name for name, one in self._ticking.memory.items() if not one.stored]
        if assumed:
            yield Finding(
                name="initial_memory_assumed",
                severity="warning",
                message=f"the file does not say what {assumed} start from; zeros were taken, as its controller does",
                remedy="export the policy by Ashore, which keeps initial values",
            )

    # --- ports -------------------------------------------------------------------------------------------------------

    def _kept_port(self, output: str) -> str:
        return f"{self._root}kept/{output}"

    def _fresh_port(self, side: str) -> str:
        return f"{self._root}fresh/{side}"

    def _decide_ports(self) -> tuple[dict[str, Port], dict[str, Port]]:
        ticking = self._ticking
        inputs = {**ticking.inputs, **{memory_in(name): one.port for name, one in ticking.memory.items()}}
        outputs = {**ticking.outputs, **{memory_out(name): one.port for name, one in ticking.memory.items()}}
        return inputs, {**outputs, **({self._fresh_port("out"): _FLAG} if self._acts else {})}

    def _act_ports(self) -> tuple[dict[str, Port], dict[str, Port]]:
        ticking = self._ticking
        used = captured(self._with_before(ticking.process_actions))
        inputs = {name: port for name, port in ticking.inputs.items() if name in used}
        inputs |= {memory_in(name): one.port for name, one in ticking.memory.items()}
        inputs |= {self._kept_port(name): ticking.outputs[name] for name in self._kept}
        outputs = {name: ticking.outputs[name] for name in self._kept}
        outputs |= {memory_out(name): one.port for name, one in ticking.memory.items()}
        return {**inputs, self._fresh_port("in"): _FLAG}, {**outputs, self._fresh_port("out"): _FLAG}

    # --- graphs ------------------------------------------------------------------------------------------------------

    def _decide(self) -> StageModel:
        nodes, constants, results = self._inside(self._ticking.default, _DECIDE)
        _, outputs = self._decide_ports()
        for port in outputs:
            if port in results:
                nodes.append(onnx.helper.make_node("Identity", [results[port]], [port]))
        if self._acts:
            constants.append(self._set_flag(nodes, value=True))
        return StageModel(tuple(nodes), tuple(constants), self._opsets, self._ir_version)

    def _act(self) -> StageModel:
        nodes, constants, results = self._inside(self._ticking.process_actions, _ACT)
        _, outputs = self._act_ports()
        del outputs[self._fresh_port("out")]
        handed = {name: self._kept_port(name) for name in self._kept}
        handed |= {memory_out(name): memory_in(name) for name in self._ticking.memory}
        made: list[onnx.NodeProto] = []
        if outputs:
            graphs: dict[str, Any] = {
                "then_branch": self._branch("handed", [], handed, outputs),
                "else_branch": self._branch("acted", nodes, results, outputs),
            }
            made.append(onnx.helper.make_node("If", [self._fresh_port("in")], list(outputs), **graphs))
        constants.append(self._set_flag(made, value=False))
        return StageModel(tuple(made), tuple(constants), self._opsets, self._ir_version)

    def _branch(
        self, word: str, nodes: list[onnx.NodeProto], values: Mapping[str, str], outputs: Mapping[str, Port]
    ) -> onnx.GraphProto:
        names = {port: f"{self._root}{word}/{port}" for port in outputs}
        ends = [onnx.helper.make_node("Identity", [values[port]], [name]) for port, name in names.items()]
        declared = [value_info(names[port], spec) for port, spec in outputs.items()]
        return onnx.helper.make_graph([*nodes, *ends], word, [], declared)

    def _set_flag(self, nodes: list[onnx.NodeProto], *, value: bool) -> onnx.TensorProto:
        name = f"{self._root}flag"
        nodes.append(onnx.helper.make_node("Identity", [name], [self._fresh_port("out")]))
        return onnx.numpy_helper.from_array(np.array([value]), name)

    def _inside(
        self, graph: onnx.GraphProto, word: str
    ) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], dict[str, str]]:
        """The nodes and constants of one of the two graphs, renamed, and port -> the value that it is."""
        whole = self._with_before(graph)
        others = {name: name for name in captured(whole)}
        own = defined(graph)
        inner, outer = f"{self._root}{word}/", f"{self._root}before/"
        before_names = {name: outer + name for name in defined(whole) - own}
        constants = [_named(constant, inner + constant.name) for constant in graph.initializer]
        constants += [
            _named(constant, outer + constant.name)
            for constant in self._ticking.constants
            if constant.name in before_names
        ]
        before = self._before_of(graph)
        nodes = renamed(before, outer, {name: name for name in others})
        nodes += renamed(graph.node, inner, {**others, **{n: v for n, v in before_names.items() if n not in own}})
        ends = {
            port: inner + value.name if value.name in own else before_names.get(value.name, value.name)
            for port, value in zip(self._ticking.results, graph.output, strict=True)
        }
        return nodes, constants, ends

    def _before_of(self, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
        """The nodes outside that one of the two graphs uses."""
        wanted, found = captured(graph), list[onnx.NodeProto]()
        for node in reversed(self._ticking.before):
            if wanted & set(node.output):
                found.append(node)
                wanted |= reads(node)
        return found[::-1]

    def _with_before(self, graph: onnx.GraphProto) -> onnx.GraphProto:
        """One of the two graphs, with what it uses from outside but inputs."""
        before = self._before_of(graph)
        used = captured(graph) | {name for node in before for name in reads(node)}
        whole = onnx.GraphProto()
        whole.CopyFrom(graph)
        own = defined(graph)
        whole.initializer.extend(c for c in self._ticking.constants if c.name in used and c.name not in own)
        whole.node.extend(before)
        return whole

    def _is_zero_between(self, output: str) -> bool:
        """Whether the ProcessActions graph gives nothing but zeros for what only the Default graph computes."""
        if output not in FIRST_OUTPUTS:
            return False
        graph = self._ticking.process_actions
        value = graph.output[self._ticking.results.index(output)].name
        makers = {name: node for node in graph.node for name in node.output}
        for _ in (*graph.node, None):
            node = makers.get(value)
            if node is None:
                stored = [tensor_value(constant) for constant in graph.initializer if constant.name == value]
                return len(stored) == 1 and _is_zero(stored[0])
            if node.op_type == "Constant" and len(node.attribute) == 1:
                return _is_zero(constant_value(node))
            if node.op_type == "ConstantOfShape":
                return all(_is_zero(tensor_value(entry.t)) for entry in node.attribute)
            if node.op_type not in _ZERO_PASSING:
                return False
            value = node.input[0]
        return False


_KEPT = "what the decision gave, until the first substep hands it out"
_FRESH = "whether the decision still has to be handed out"


def _is_zero(array: Array | None) -> bool:
    return array is not None and not array.any()


def _named(constant: onnx.TensorProto, name: str) -> onnx.TensorProto:
    copy = onnx.TensorProto()
    copy.CopyFrom(constant)
    copy.name = name
    return copy


def _described(port: Port, metadata: dict[str, object] | None) -> Port:
    return Port(dtype=port.dtype, shape=port.shape, metadata=metadata or {})


def _role(memory: str) -> Role:
    if memory == "actions":
        return "last_action"
    return "recurrent" if memory.startswith("actor_hidden_state") else "memory"


def _timing(decimation: int, physics_dt_s: float | None) -> Timing:
    if physics_dt_s is None:
        return Timing(decimation=decimation)
    return Timing(decimation=decimation, physics_dt_s=physics_dt_s, policy_dt_s=physics_dt_s * decimation)


def _identifier(text: str) -> str:
    """A name for a package, made from the name of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:128].lstrip(".-") or "policy"
