"""Putting a package together: its manifest, its initial states, its golden rollout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from ashore.backends import Exported
from ashore.capture.analysis import Analysis
from ashore.capture.batching import Batched
from ashore.capture.contract import PortInfo, dtype_name, is_storable
from ashore.capture.findings import Finding
from ashore.capture.layout import Layout, StageLayout
from ashore.capture.options import ExportOptions
from ashore.capture.program import Program
from ashore.capture.replay import Rollout
from ashore.capture.session import Session
from ashore.capture.tape import Name, Tape
from ashore.package import Golden, Recording, collect_provenance
from ashore.spec import BATCH, Artifact, Frozen, Manifest, Port, Stage, State
from ashore.spec import Finding as Record
from ashore.spec.manifest import Dim

_TOOLS = ("ashore", "torch", "onnx", "onnxscript", "onnxruntime", "numpy")
_HUGE_BYTES = 1 << 28
_FEW = 16


@dataclass
class Assembly:
    """Everything that is known about a recording when it is exported."""

    session: Session
    analysis: Analysis
    program: Program
    rollout: Rollout
    layout: Layout
    findings: list[Finding]
    owned: Mapping[int, str]
    options: ExportOptions
    batched: Batched | None
    values: dict[int, torch.Tensor] = field(init=False)
    """Every value of the program in the reference step, for shapes and examples."""

    def __post_init__(self) -> None:
        step = self.analysis.steps.reference
        before = self.rollout.states[step.index - 1] if step.index and not step.reset else None
        inputs = {key: step.tape.inputs[key].value for key in self.program.inputs}
        states = {key: self.start(key) for key in self.program.states} if before is None else before
        self.values = self.program.values(inputs, states)

    def start(self, key: str) -> torch.Tensor:
        """The initial value of a state, as the recorded operations take it."""
        initial = self.program.states[key].start
        return initial if self.batched is None else self.batched.start(key, initial)

    # --- what exporters need -----------------------------------------------------------------------------------------

    def example(self, inputs: Sequence[int]) -> tuple[torch.Tensor, ...]:
        """Inputs to trace a stage with."""
        plain = [self.values[value].detach().clone().contiguous() for value in inputs]
        if self.batched is None:
            return tuple(plain)
        return tuple(self.batched.repeat(value, tensor) for value, tensor in zip(inputs, plain, strict=True))

    def batch_axes(self, values: Sequence[int]) -> dict[int, int]:
        """Position -> batch axis, where the batch is symbolic."""
        if self.batched is None:
            return {}
        return {place: axis for place, value in enumerate(values) if (axis := self.batched.axes.get(value)) is not None}

    @staticmethod
    def path(stage: str, exported: Exported) -> str:
        """Where the artifact of a stage lies."""
        return f"artifacts/{stage}{exported.suffix}"

    # --- findings ----------------------------------------------------------------------------------------------------

    def notices(self) -> Iterator[Finding]:
        """What a person should know, and what a package cannot hold."""
        for key, declared in (*self._reference.inputs.items(), *self._reference.outputs.items()):
            if not is_storable(declared.value.dtype):
                message = f"{key[1]} is {declared.value.dtype}, which no port can be"
                yield Finding("unsupported_dtype", message, declared.line, key[1])
        for state in self.program.states.values():
            if not is_storable(state.start.dtype):
                message = f"the state {state.name} is {state.start.dtype}, which no state can be"
                yield Finding("unsupported_dtype", message, state.line, state.path)
        for capture in {capture.slot: capture for capture in self.analysis.constants.values()}.values():
            tensor = capture.tensor
            if capture.value.nbytes > _HUGE_BYTES:
                message = f"{capture.path or capture.line.text} has {capture.value.nbytes >> 20} MiB"
                yield Finding("huge_constant", message, capture.line, capture.path)
            if tensor.requires_grad and id(tensor) not in self.owned and not isinstance(tensor, torch.nn.Parameter):
                message = f"{capture.path or capture.line.text} is taken for a constant, but requires a gradient"
                yield Finding("grad_constant", message, capture.line, capture.path)
        for group in ("inputs", "outputs"):
            for key in getattr(self.layout, group):
                line, info = getattr(self._reference, group)[key].line, self.session.ports.get(key, PortInfo())
                if info.kind is not None and self._port(group, key).kind is None:
                    message = f"{key[1]} is of kind {info.kind}, but does not name its elements in order"
                    yield Finding("kind_without_names", message, line, key[1])
                if not self._is_finite(group, key):
                    message = f"{key[1]} was not finite during the recording, so it is not checked"
                    yield Finding("non_finite", message, line, key[1])

    @property
    def _reference(self) -> Tape:
        return self.analysis.steps.reference.tape

    def _is_finite(self, group: str, key: Name) -> bool:
        values = [getattr(step.tape, group)[key].value for step in self.analysis.steps.all]
        return all(not is_storable(value.dtype) or bool(value.isfinite().all()) for value in values)

    # --- the package -------------------------------------------------------------------------------------------------

    def manifest(self, name: str, exported: Mapping[str, Exported]) -> Manifest:
        """The contract, before anything is proven."""
        layout, program, options = self.layout, self.program, self.options
        return Manifest(
            name=name,
            description=options.description,
            licence=options.licence,
            provenance=collect_provenance(tools=_TOOLS),
            timing=options.timing,
            joints=tuple(options.joints),
            inputs={label: self._port("inputs", key) for key, label in layout.inputs.items()},
            outputs={label: self._port("outputs", key) for key, label in layout.outputs.items()},
            stages={one.name: self._stage(one, exported[one.name]) for one in layout.stages.values()},
            wires=tuple(layout.wires),
            states={layout.states[key]: self._state(key) for key in program.states},
            findings=as_records(self.findings),
            constants=tuple(self._frozen()),
            metadata=dict(options.metadata),
        )

    def _state(self, key: str) -> State:
        state = self.program.states[key]
        value = next((value for value, source in self.program.sources.items() if source.is_state(key)), None)
        seen = [state.start, *(states[key] for states in self.rollout.states)]
        return State(
            dtype=dtype_name(state.start.dtype),
            shape=self._shape(state.next if value is None else value, state.start),
            role=state.role,
            reset=state.reset,
            finite=all(bool(one.isfinite().all()) for one in seen),
            description=None if state.path is None else f"{state.path} of the recorded code",
        )

    def _port(self, group: Literal["inputs", "outputs"], key: Name) -> Port:
        info, value = self.session.ports.get(key, PortInfo()), getattr(self.program, group)[key]
        tensor = self.values[value]
        return info.port(key[1], self._shape(value, tensor), tensor.dtype, finite=self._is_finite(group, key))

    def _shape(self, value: int, tensor: torch.Tensor) -> tuple[Dim, ...]:
        axis = self.batched.axes.get(value) if self.batched else None
        return tuple(BATCH if place == axis else length for place, length in enumerate(tensor.shape))

    def _stage(self, stage: StageLayout, exported: Exported) -> Stage:
        bare = {
            port: Port(dtype=dtype_name(self.values[value].dtype), shape=self._shape(value, self.values[value]))
            for port, value in (*stage.inputs.items(), *stage.outputs.items())
        }
        artifact = Artifact(
            path=self.path(stage.name, exported),
            exporter=exported.exporter,
            inputs=tuple(stage.inputs),
            outputs=tuple(stage.outputs),
            opset=exported.opset,
            ir_version=exported.ir_version,
        )
        return Stage(
            rate="policy",
            inputs={port: bare[port] for port in stage.inputs},
            outputs={port: bare[port] for port in stage.outputs},
            artifacts={exported.backend: artifact},
        )

    def _frozen(self) -> Iterator[Frozen]:
        """Constants that a person should look at: those that belong to no module."""
        for capture in {capture.slot: capture for capture in self.analysis.constants.values()}.values():
            if id(capture.tensor) in self.owned or isinstance(capture.tensor, torch.nn.Parameter):
                continue
            name, value = capture.path or capture.line.text or f"a tensor in {capture.line}", capture.value
            numbers = (value.abs() if value.is_complex() else value).flatten().to(torch.float64)
            yield Frozen(
                name=name,
                where=str(capture.line),
                dtype=str(value.dtype).removeprefix("torch."),
                shape=tuple(value.shape),
                values=tuple(numbers.tolist()) if value.numel() <= _FEW else None,
                lowest=float(numbers.min()) if value.numel() else None,
                highest=float(numbers.max()) if value.numel() else None,
            )

    def initial(self) -> dict[str, np.ndarray]:
        """The initial states."""
        return {self.layout.states[key]: to_numpy(state.start) for key, state in self.program.states.items()}

    def golden(self) -> Golden:
        """The recording, as it is kept in the package."""
        recording = Recording()
        for step, states in zip(self.analysis.steps.all, self.rollout.states, strict=True):
            if step.reset:
                recording.reset()
            inputs = {label: to_numpy(step.tape.inputs[key].value) for key, label in self.layout.inputs.items()}
            outputs = {label: to_numpy(step.tape.outputs[key].value) for key, label in self.layout.outputs.items()}
            recording.step(inputs, outputs, self.name_states(states))
        return recording.golden()

    def name_states(self, states: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
        """States of the program, by their names in the package."""
        return {self.layout.states[key]: to_numpy(value) for key, value in states.items()}


def as_records(findings: Iterable[Finding]) -> tuple[Record, ...]:
    """Findings as they are kept in a manifest, each once."""
    return tuple(dict.fromkeys(finding.record() for finding in findings))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy of a tensor as an array."""
    return tensor.detach().cpu().numpy().copy()
