"""From a manifest and opened sessions to functions that only have to be called.

Decides where every value lives. A stage output that feeds a state lives in a bank, where the next run reads it; one
that is only an output of the package lives there too, so that one check covers both; one that only goes to another
stage has a place of its own. Each stage is then bound once for each set of buffers that the parities give it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ashore.package import Array
from ashore.processors import Transform
from ashore.runtime.backend import Session
from ashore.runtime.memory import NO_CHECK, Bank, Layout, Memory, Slot, aligned_zeros, slot_of
from ashore.runtime.single_pass import Contract, Run, Side, single_pass
from ashore.spec import Endpoint, Manifest, Rate, Wiring

RATES: tuple[Rate, ...] = ("policy", "substep")
VERBS: Mapping[Rate, str] = {"policy": "step", "substep": "substep"}

_BITS: Mapping[frozenset[Rate], int] = {
    frozenset[Rate](("policy",)): 1,
    frozenset[Rate](("substep",)): 2,
    frozenset[Rate](("policy", "substep")): 4,
}
"""Who writes -> the bit of the bank. What both rates write flips with either."""

_PARITIES = range(8)


class Transforms(NamedTuple):
    """Processors by the package port they work on."""

    before: Mapping[str, tuple[Transform, ...]]
    after: Mapping[str, tuple[Transform, ...]]


class Plan:
    """Where everything lives, and the functions that use it."""

    def __init__(
        self,
        manifest: Manifest,
        sessions: Mapping[str, Session],
        *,
        transforms: Transforms,
        batch: int,
        check_finite: bool,
    ) -> None:
        self._manifest = manifest
        self._graph = Wiring(manifest)
        self._sessions = sessions
        self._transforms = transforms
        self._batch = batch
        self._check_finite = check_finite
        self._bound: dict[tuple[str, tuple[int, ...]], Callable[[], object]] = {}
        self._homes: dict[Endpoint, tuple[int, Endpoint]] = {}
        """Stage output -> its bank and its key there."""

        self._scratch: dict[Endpoint, Array] = {}
        """Stage output -> its place, for those that only go to other stages."""

        self._places: dict[Rate, Mapping[Endpoint, Array]] = {}
        """Rate -> where its inputs are."""

        self._find_homes()
        self.memory = self._make_memory()
        """The states, and what is written with them."""

        self.runs = {rate: self._make_run(rate) for rate in RATES if self._stages(rate)}
        """Rate -> the function that runs it; rates without stages are left out."""

    def _stages(self, rate: Rate) -> list[str]:
        return [name for name in self._graph.order() if self._manifest.stages[name].rate == rate]

    def _bank(self, state: Endpoint) -> int:
        writers: list[Rate] = [self._manifest.stages[source.group].rate for source in self._graph.into(state)]
        return _BITS[frozenset(writers)]

    def _written_banks(self, rate: Rate) -> set[int]:
        """The banks that a run of a rate writes, all of them each time."""
        banks = {self._bank(Endpoint("states", name)) for name in self._manifest.states}
        return {bit for rates, bit in _BITS.items() if rate in rates and bit in banks} | {_BITS[frozenset((rate,))]}

    def _find_homes(self) -> None:
        for stage_name, stage in self._manifest.stages.items():
            for port_name, port in stage.outputs.items():
                output = Endpoint(stage_name, port_name)
                targets = self._graph.out_of(output)
                states = [target for target in targets if target.group == "states"]
                packaged = [target for target in targets if target.group == "outputs"]
                if states:
                    self._homes[output] = self._bank(states[0]), states[0]
                elif packaged:
                    self._homes[output] = _BITS[frozenset((stage.rate,))], packaged[0]
                else:
                    slot = slot_of(port, self._batch)
                    self._scratch[output] = aligned_zeros(slot.dtype, slot.shape)

    def _make_memory(self) -> Memory:
        manifest, batch = self._manifest, self._batch
        banks = {name: self._bank(Endpoint("states", name)) for name in manifest.states}
        contents: dict[int, dict[Endpoint, Slot]] = {bit: {} for bit in _BITS.values()}
        for name, bit in banks.items():
            contents[bit][Endpoint("states", name)] = slot_of(manifest.states[name], batch)
        for bit, key in self._homes.values():
            if key.group == "outputs":
                contents[bit][key] = slot_of(manifest.outputs[key.name], batch)
        made: dict[int, Bank] = {}
        for rates, bit in _BITS.items():
            inputs: dict[Endpoint, Slot] = {}
            if len(rates) == 1:
                (rate,) = rates
                inputs = {
                    Endpoint("inputs", n): slot_of(manifest.inputs[n], batch) for n in self._graph.inputs_of(rate)
                }
            # Without a state in it nothing reads a bank after the run, so one side is enough.
            parts = [contents[bit], inputs, contents[bit] if bit in banks.values() else {}]
            layout = Layout(parts, check_finite=self._check_finite)
            left, middle, right = layout.views
            sides = (left, right) if bit in banks.values() else (left, left)
            checks = layout.checks(0, 1), layout.checks(1, 2) if bit in banks.values() else layout.checks(0, 1)
            made[bit] = Bank(sides, checks)
            for rate in rates if len(rates) == 1 else ():
                self._places[rate] = middle
        return Memory(made, banks)

    def _make_run(self, rate: Rate) -> Run:
        manifest, graph = self._manifest, self._graph
        inputs = {name: manifest.inputs[name] for name in graph.inputs_of(rate)}
        outputs = {name: manifest.outputs[name] for name in graph.outputs_of(rate)}
        before, after = self._transforms
        contract = Contract(
            VERBS[rate],
            inputs,
            outputs,
            {name: slot_of(port, self._batch) for name, port in inputs.items()},
            {name: chain for name, chain in before.items() if name in inputs},
            {name: chain for name, chain in after.items() if name in outputs},
        )
        places = {name: self._places[rate][Endpoint("inputs", name)] for name in inputs}
        sides = tuple(self._make_side(rate, tuple(outputs), parity) for parity in _PARITIES)
        errors = dict.fromkeys(kind for name in self._stages(rate) for kind in self._sessions[name].errors)
        return single_pass(contract, places, sides, self.memory, sum(self._written_banks(rate)), tuple(errors))

    def _make_side(self, rate: Rate, outputs: tuple[str, ...], parity: int) -> Side:
        calls: list[Callable[[], object]] = []
        copies: list[tuple[Array, Array]] = []
        for stage in self._stages(rate):
            calls.append(self._bind(stage, rate, parity))
            for port in self._manifest.stages[stage].outputs:
                output = Endpoint(stage, port)
                value = self._at(output, rate, parity)
                others = [end for end in self._graph.out_of(output) if end.group == "states"][1:]
                copies += [(self.memory.write_to(self._bank(state), state, parity), value) for state in others]
        sources = {name: self._graph.into(Endpoint("outputs", name))[0] for name in outputs}
        named = tuple((name, self._at(source, rate, parity).copy) for name, source in sources.items())
        checks = self.memory.checks(self._written_banks(rate), parity)
        return Side(_in_order(calls), tuple(copies), checks or (NO_CHECK,), named)

    def _bind(self, stage: str, rate: Rate, parity: int) -> Callable[[], object]:
        spec, graph = self._manifest.stages[stage], self._graph
        inputs = {port: self._at(graph.into(Endpoint(stage, port))[0], rate, parity) for port in spec.inputs}
        outputs = {port: self._at(Endpoint(stage, port), rate, parity) for port in spec.outputs}
        key = stage, tuple(array.ctypes.data for array in (*inputs.values(), *outputs.values()))
        if key not in self._bound:
            self._bound[key] = self._sessions[stage].bind(inputs, outputs)
        return self._bound[key]

    def _at(self, source: Endpoint, rate: Rate, parity: int) -> Array:
        """Where the value at the start of a wire is, while a run of a rate goes on."""
        if source.group == "inputs":
            return self._places[rate][source]
        if source.group == "states":
            return self.memory.read_from(source.name, parity)
        if source in self._scratch:
            return self._scratch[source]
        return self.memory.write_to(*self._homes[source], parity)


def _in_order(calls: list[Callable[[], object]]) -> Callable[[], object]:
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run
