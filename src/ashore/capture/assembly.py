"""Putting a package together: its manifest, its initial states, its golden rollout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ashore.backends import Exported
from ashore.capture.analysis import Analyses
from ashore.capture.batching import Batched
from ashore.capture.contract import PortInfo, dtype_name, is_storable
from ashore.capture.findings import Finding
from ashore.capture.layout import Layout, StageLayout
from ashore.capture.lines import Line
from ashore.capture.options import ExportOptions
from ashore.capture.program import Programs, ProgramState, all_states
from ashore.capture.replay import Rollout
from ashore.capture.session import Session
from ashore.capture.steps import Step
from ashore.capture.tape import Capture, Declared, Name
from ashore.package import Golden, Recording, collect_provenance
from ashore.spec import BATCH, Artifact, Frozen, Manifest, Port, Rate, Stage, State
from ashore.spec import Finding as Record
from ashore.spec.manifest import Dim

_TOOLS = ("ashore", "torch", "onnx", "onnxscript", "onnxruntime", "numpy")
_HUGE_BYTES = 1 << 28
_FEW = 16


@dataclass
class Assembly:
    """Everything that is known about a recording when it is exported."""

    session: Session
    analyses: Analyses
    programs: Programs
    rollout: Rollout
    layout: Layout
    findings: list[Finding]
    owned: Mapping[int, str]
    options: ExportOptions
    batched: Batched | None
    states: dict[str, ProgramState] = field(init=False)
    values: dict[Rate, dict[int, torch.Tensor]] = field(init=False)
    """Every value of the programs in their reference steps, for shapes and examples."""

    def __post_init__(self) -> None:
        self.states = all_states(self.programs)
        self.values = {rate: self._values(rate) for rate in self.programs}

    def _values(self, rate: Rate) -> dict[int, torch.Tensor]:
        step, program = self.analyses[rate].steps.reference, self.programs[rate]
        before = self.rollout.states[step.index - 1] if step.index and not step.reset else None
        inputs = {key: step.tape.inputs[key].value for key in program.inputs}
        return program.values(inputs, {key: self.start(key) for key in self.states} if before is None else before)

    def start(self, key: str) -> torch.Tensor:
        """The initial value of a state, as the recorded operations take it."""
        initial = self.states[key].start
        return initial if self.batched is None else self.batched.start(key, initial)

    @property
    def timeline(self) -> list[Step]:
        """The recording."""
        return self.analyses["policy"].steps.timeline

    # --- what exporters need -----------------------------------------------------------------------------------------

    def example(self, rate: Rate, inputs: Sequence[int]) -> tuple[torch.Tensor, ...]:
        """Inputs to trace a stage with."""
        plain = [self.values[rate][value].detach().clone().contiguous() for value in inputs]
        axes = [self.axis(rate, value) for value in inputs]
        if self.options.batch == "one":
            plain = [_row(tensor, axis, 0) for tensor, axis in zip(plain, axes, strict=True)]
        elif self.batched is not None and self.batched.length == 1:  # exporters take a single row for a constant
            plain = [
                tensor if axis is None else tensor.repeat_interleave(2, dim=axis)
                for tensor, axis in zip(plain, axes, strict=True)
            ]
        return tuple(plain)

    def axis(self, rate: Rate, value: int) -> int | None:
        """The axis of the rows of a value, where the programs work on any number of them."""
        return None if self.batched is None else self.batched.axes[rate].get(value)

    def batch_axes(self, rate: Rate, values: Sequence[int]) -> dict[int, int]:
        """Position -> batch axis, where the batch is symbolic."""
        if self.options.batch != "dynamic":
            return {}
        return {place: axis for place, value in enumerate(values) if (axis := self.axis(rate, value)) is not None}

    @staticmethod
    def files(stage: str, exported: Exported) -> dict[str, bytes]:
        """The files of a stage's artifact, by where they lie; first the one that is opened."""
        parts = {exported.suffix: exported.data, **exported.more}
        return {f"artifacts/{stage}{suffix}": data for suffix, data in parts.items()}

    # --- findings ----------------------------------------------------------------------------------------------------

    def notices(self) -> Iterator[Finding]:
        """What a person should know, and what a package cannot hold."""
        for key in (*self.layout.inputs, *self.layout.outputs):
            declared = self._declared(key)[0]
            if not is_storable(declared.value.dtype):
                message = f"{key[1]} is {declared.value.dtype}, which no port can be"
                yield Finding("unsupported_dtype", message, declared.line, key[1])
        for state in self.states.values():
            if not is_storable(state.start.dtype):
                message = f"the state {state.name} is {state.start.dtype}, which no state can be"
                yield Finding("unsupported_dtype", message, state.line, state.path)
        for capture in self._constants():
            tensor = capture.tensor
            if capture.value.nbytes > _HUGE_BYTES:
                message = f"{capture.path or capture.line.text} has {capture.value.nbytes >> 20} MiB"
                yield Finding("huge_constant", message, capture.line, capture.path)
            if tensor.requires_grad and id(tensor) not in self.owned and not isinstance(tensor, torch.nn.Parameter):
                message = f"{capture.path or capture.line.text} is taken for a constant, but requires a gradient"
                yield Finding("grad_constant", message, capture.line, capture.path)
        for key in (*self.layout.inputs, *self.layout.outputs):
            line, info = self._declared(key)[0].line, self.session.ports.get(key, PortInfo())
            if info.kind is not None and self._port(key).kind is None:
                message = f"{key[1]} is of kind {info.kind}, but does not name its elements in order"
                yield Finding("kind_without_names", message, line, key[1])
            if not self._is_finite(key):
                message = f"{key[1]} was not finite during the recording, so it is not checked"
                yield Finding("non_finite", message, line, key[1])

    def _constants(self) -> Iterator[Capture]:
        """Everything that was taken for a constant, each tensor once."""
        for analysis in self.analyses.values():
            yield from {capture.slot: capture for capture in analysis.constants.values()}.values()

    def _declared(self, key: Name) -> list[Declared]:
        """What was declared under a name, in every step that has it; the reference first."""
        steps = [one.steps.reference for one in self.analyses.values()] + self.timeline
        tapes = [step.tape for step in steps]
        group = "inputs" if key in self.layout.inputs else "outputs"
        return [found for tape in tapes if (found := getattr(tape, group).get(key)) is not None]

    def _is_finite(self, key: Name) -> bool:
        label = self.layout.inputs.get(key)
        keys = [key] if label is None else [one for one, other in self.layout.inputs.items() if other == label]
        values = [declared.value for one in keys for declared in self._declared(one)]
        return all(not is_storable(value.dtype) or bool(value.isfinite().all()) for value in values)

    def line_of(self, key: Name) -> Line:
        """Where a port was declared."""
        return self._declared(key)[0].line

    # --- the package -------------------------------------------------------------------------------------------------

    def manifest(self, name: str, exported: Mapping[str, Exported]) -> Manifest:
        """The contract, before anything is proven."""
        layout, options = self.layout, self.options
        return Manifest(
            name=name,
            description=options.description,
            licence=options.licence,
            provenance=collect_provenance(
                tools=(*_TOOLS, *self.options.tools), checkpoint=self.options.checkpoint, task=self.options.task
            ),
            timing=options.timing,
            joints=tuple(options.joints),
            inputs={label: self._port(layout.input_key(label)) for label in layout.inputs.values()},
            outputs={label: self._port(key) for key, label in layout.outputs.items()},
            stages={one.name: self._stage(one, exported[one.name]) for one in layout.stages.values()},
            wires=tuple(layout.wires),
            states={layout.states[key]: self._state(key) for key in self.states},
            findings=as_records(self.findings),
            constants=tuple(self._frozen()),
            metadata=dict(options.metadata),
        )

    def _state(self, key: str) -> State:
        state = self.states[key]
        seen = [state.start, *(states[key] for states in self.rollout.states)]
        return State(
            dtype=dtype_name(state.start.dtype),
            shape=self._shape(state.start, None if self.batched is None else self.batched.states[key]),
            role=state.role,
            reset=state.reset,
            finite=all(bool(one.isfinite().all()) for one in seen),
            description=None if state.path is None else f"{state.path} of the recorded code",
        )

    def value_of(self, key: Name) -> tuple[Rate, int]:
        """The value that a port is, and the rate of its program."""
        for rate, program in self.programs.items():
            for ports in (program.inputs, program.outputs):
                if key in ports and (ports is program.inputs) == (key in self.layout.inputs):
                    return rate, ports[key]
        raise KeyError(key)

    def _port(self, key: Name) -> Port:
        info, (rate, value) = self.session.ports.get(key, PortInfo()), self.value_of(key)
        tensor = self.values[rate][value]
        shape = self._shape(tensor, self.axis(rate, value))
        return info.port(key[1], shape, tensor.dtype, finite=self._is_finite(key))

    def _shape(self, tensor: torch.Tensor, axis: int | None) -> tuple[Dim, ...]:
        rows: Dim = 1 if self.options.batch == "one" else BATCH
        return tuple(rows if place == axis else length for place, length in enumerate(tensor.shape))

    def _stage(self, stage: StageLayout, exported: Exported) -> Stage:
        values = self.values[stage.rate]
        bare = {
            port: Port(
                dtype=dtype_name(values[value].dtype), shape=self._shape(values[value], self.axis(stage.rate, value))
            )
            for port, value in (*stage.inputs.items(), *stage.outputs.items())
        }
        path, *data = self.files(stage.name, exported)
        artifact = Artifact(
            path=path,
            data=tuple(data),
            exporter=exported.exporter,
            inputs=tuple(stage.inputs),
            outputs=tuple(stage.outputs),
            opset=exported.opset,
            ir_version=exported.ir_version,
        )
        return Stage(
            rate=stage.rate,
            inputs={port: bare[port] for port in stage.inputs},
            outputs={port: bare[port] for port in stage.outputs},
            artifacts={exported.backend: artifact},
        )

    def _frozen(self) -> Iterator[Frozen]:
        """Constants that a person should look at: those that belong to no module."""
        for capture in self._constants():
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
        return {self.layout.states[key]: to_numpy(state.start) for key, state in self.states.items()}

    def golden(self) -> Golden:
        """The recording, as it is kept in the package; of several rows only one, where it has to be."""
        recording = Recording()
        partial = any(step.rows is not None for step in self.timeline)
        row = (self.timeline[0].rows or (True,)).index(True)
        single = row if self.batched is not None and (partial or self.options.batch == "one") else None
        for step, states in zip(self.timeline, self.rollout.states, strict=True):
            if step.reset and (step.rows is None or step.rows[row]):
                recording.reset()
            inputs = {key: step.tape.inputs[key].value for key in self.programs[step.rate].inputs}
            outputs = {key: one.value for key, one in step.tape.outputs.items()}
            self.add_tick(recording, step.rate, [inputs], [outputs], [states], single=single)
        return recording.golden()

    def add_tick(
        self,
        recording: Recording,
        rate: Rate,
        inputs: Sequence[Mapping[Name, torch.Tensor]],
        outputs: Sequence[Mapping[Name, torch.Tensor]],
        states: Sequence[Mapping[str, torch.Tensor]],
        *,
        single: int | None = None,
    ) -> None:
        """Add a step or a substep to a recording.

        Args:
            recording: what to add it to.
            rate: of the step.
            inputs: (node, port) -> tensor, for each of several runs, whose rows are put together.
            outputs: likewise.
            states: state -> tensor after the step, likewise.
            single: the row to keep, if only one.
        """
        program, layout = self.programs[rate], self.layout

        def join(tensors: list[torch.Tensor], axis: int | None) -> np.ndarray:
            if axis is None:
                return to_numpy(tensors[0])
            return to_numpy(torch.cat(tensors, dim=axis) if single is None else _row(tensors[0], axis, single))

        given = {
            layout.inputs[key]: join([one[key] for one in inputs], self.axis(rate, value))
            for key, value in program.inputs.items()
        }
        made = {
            layout.outputs[key]: join([one[key] for one in outputs], self.axis(rate, value))
            for key, value in program.outputs.items()
            if key in layout.outputs
        }
        axes = {key: None if self.batched is None else self.batched.states[key] for key in self.states}
        kept = {layout.states[key]: join([one[key] for one in states], axes[key]) for key in self.states}
        (recording.step if rate == "policy" else recording.substep)(given, made, kept)


def _row(tensor: torch.Tensor, axis: int | None, row: int) -> torch.Tensor:
    return tensor if axis is None else tensor.narrow(axis, row, 1)


def as_records(findings: Iterable[Finding]) -> tuple[Record, ...]:
    """Findings as they are kept in a manifest, each once."""
    return tuple(dict.fromkeys(finding.record() for finding in findings))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy of a tensor as an array."""
    return tensor.detach().cpu().numpy().copy()
