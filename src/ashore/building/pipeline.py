"""A package in the making: features flow through processors and stages, each of which gives some of them a new value.

Whoever describes a policy thinks of features ("the state is normalised, then padded"). A manifest has stages, ports and
wires. Here a feature is the place where its newest value comes out, so that the wires follow by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ashore.errors import ExportError, suggestion
from ashore.package import Array
from ashore.spec import Endpoint, Manifest, Port, Processor, Runner, Stage, State, Wire

_UNSAFE = str.maketrans(dict.fromkeys("/ :", "_"))


class Kept(NamedTuple):
    """A state of a processor: the output that writes it, and what it is at first."""

    writer: str
    state: State
    initial: Array


class Pipeline:
    """Collects stages and wires; made for one export."""

    def __init__(self) -> None:
        self.inputs: dict[str, Port] = {}
        self.outputs: dict[str, Port] = {}
        self.stages: dict[str, Stage] = {}
        self.states: dict[str, State] = {}
        self.initial: dict[str, Array] = {}
        self.files: dict[str, bytes] = {}
        self._wires: list[Wire] = []
        self._values: dict[str, tuple[Endpoint, Port]] = {}
        self._used: set[Endpoint] = set()

    @property
    def features(self) -> Iterable[str]:
        """Everything that has a value."""
        return self._values.keys()

    @property
    def assets(self) -> set[str]:
        """The files that processors read."""
        return {path for stage in self.stages.values() if stage.processor for path in stage.processor.assets}

    def port(self, feature: str) -> Port:
        """What the newest value of a feature is."""
        return self._value(feature)[1]

    def add_input(self, name: str, port: Port) -> None:
        """An input of the package, which is a feature from here on."""
        self.inputs[name] = port
        self._values[name] = Endpoint("inputs", name), port

    def add_stage(
        self, name: str, stage: Stage, inputs: Mapping[str, str], outputs: Mapping[str, str], kept: Mapping[str, Kept]
    ) -> str:
        """A stage.

        Args:
            name: what to call it; a number is added if there is such a stage.
            stage: what it is.
            inputs: port -> the feature that it takes.
            outputs: port -> the feature whose value it gives from here on.
            kept: port -> the state that it reads.

        Returns:
            The name of the stage.
        """
        name = self._free(name.translate(_UNSAFE), self.stages)
        for port, feature in inputs.items():
            self._wires.append(Wire(str(self._take(feature)), f"{name}/{port}"))
        for port, (writer, state, initial) in kept.items():
            called = self._free(f"{name}.{port}", self.states)
            self.states[called], self.initial[called] = state, initial
            self._wires += (Wire(f"states/{called}", f"{name}/{port}"), Wire(f"{name}/{writer}", f"states/{called}"))
        for port, feature in outputs.items():
            self._values[feature] = Endpoint(name, port), stage.outputs[port]
        self.stages[name] = stage
        return name

    def process(
        self,
        kind: str,
        inputs: Mapping[str, str],
        outputs: Mapping[str, tuple[str, Port]],
        *,
        params: Mapping[str, Any] | None = None,
        assets: Sequence[str] = (),
        kept: Mapping[str, Kept] | None = None,
    ) -> str:
        """A processor, called after itself and the first feature that it changes.

        Args:
            kind: its type.
            inputs: port -> the feature that it takes.
            outputs: port -> the feature that it changes, and what that becomes.
            params: its parameters.
            assets: the files that it reads.
            kept: input port -> the state that it reads there.
        """
        kept = kept or {}
        states = {port: one.state for port, one in kept.items()}
        stage = Stage(
            rate="policy",
            inputs={port: _bare(self.port(feature)) for port, feature in inputs.items()}
            | {port: Port(dtype=state.dtype, shape=state.shape) for port, state in states.items()},
            outputs={port: _bare(made) for port, (_, made) in outputs.items()}
            | {one.writer: Port(dtype=one.state.dtype, shape=one.state.shape) for one in kept.values()},
            processor=Processor(type=kind, params=dict(params or {}), assets=tuple(assets)),
        )
        feature = next(iter(outputs.values()))[0]
        return self.add_stage(
            f"{kind}.{feature}", stage, inputs, {port: named for port, (named, _) in outputs.items()}, kept
        )

    def rename(self, before: str, after: str) -> None:
        """Call a feature something else from here on."""
        value = self._value(before)
        del self._values[before]
        self._values[after] = value

    def keep(self, feature: str, name: str) -> None:
        """Know the value that a feature has now by another name too, whatever becomes of the feature."""
        self._values[name] = self._value(feature)

    def add_output(self, name: str, feature: str) -> None:
        """An output of the package."""
        self.outputs[name] = self.port(feature)
        self._wires.append(Wire(str(self._take(feature)), f"outputs/{name}"))

    def manifest(self, name: str, runner: Runner, **about: Any) -> Manifest:
        """The manifest of all this."""
        unused = [str(source) for source, _ in self._values.values() if source not in self._used]
        if unused:
            raise ExportError(f"nothing takes {', '.join(unused)}; leave it out, or say what takes it")
        return Manifest(
            name=name,
            inputs=self.inputs,
            outputs=self.outputs,
            stages=self.stages,
            states=self.states,
            wires=tuple(self._wires),
            runner=runner,
            **about,
        )

    def _value(self, feature: str) -> tuple[Endpoint, Port]:
        if feature not in self._values:
            known = sorted(self._values)
            raise ExportError(f"there is no feature {feature!r}{suggestion(feature, known, f'; there are {known}')}")
        return self._values[feature]

    def _take(self, feature: str) -> Endpoint:
        source, _ = self._value(feature)
        self._used.add(source)
        return source

    @staticmethod
    def _free(name: str, taken: Iterable[str]) -> str:
        known, number, found = set(taken), 2, name
        while found in known:
            found, number = f"{name}_{number}", number + 1
        return found


def zeros(state: State) -> Array:
    """The initial value of a state that begins with zeros."""
    return np.zeros([1 if dim == "batch" else dim for dim in state.shape], state.dtype)


def _bare(port: Port) -> Port:
    """A port of a stage: what it means is said at the border of the package."""
    return Port(dtype=port.dtype, shape=port.shape, finite=port.finite)
