"""From a manifest and opened sessions to functions that only have to be called.

Decides where every value lives. A stage output that feeds a state lives in a bank, where the next run reads it; one
that is only an output of the package lives there too, so that one check covers both; one that only goes to another
stage has a place of its own. Each stage is then bound once for each set of buffers that the parities give it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ashore.package import Array
from ashore.runtime.backend import Session
from ashore.runtime.memory import NO_CHECK, Bank, Layout, Memory, Slot, aligned_zeros, slot_of
from ashore.runtime.single_pass import Contract, Run, Side, single_pass
from ashore.spec import CALLS, RATES, Endpoint, Manifest, Port, Rate, State, Wiring

_RATE_BIT: Mapping[Rate, int] = {"policy": 1, "substep": 2}
"""Rate -> the bit of the bank that only this rate writes."""

_SHARED_BIT = 4
"""The bit of the bank that both rates write, and that flips with either."""

_PARITIES = range(16)
"""One bit per bank, and the one that says whether something was decided, which changes no buffer."""


class Plan:
    """Where everything lives, and the functions that use it."""

    def __init__(self, manifest: Manifest, sessions: Mapping[str, Session], *, batch: int, check_finite: bool) -> None:
        self._manifest = manifest
        self._graph = Wiring(manifest)
        self._sessions = sessions
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

        self.runs: Mapping[Rate, Run] = {
            rate: self._make_run(rate, self._stages(rate)) for rate in RATES if self._stages(rate)
        }
        """Rate -> the function that runs it; rates without stages are left out."""

    def remember(self) -> tuple[Run | None, tuple[str, ...]]:
        """The function that only does what the states need at the policy rate, and the inputs that it takes.

        It gives no outputs. Without states there is none.
        """
        feeding = self._graph.feeding([Endpoint("states", name) for name in self._manifest.states])
        stages = [name for name in self._stages("policy") if name in feeding]
        return (self._make_run("policy", stages, outputs=False) if stages else None), self._inputs_of("policy", stages)

    def _stages(self, rate: Rate) -> list[str]:
        return [name for name in self._graph.order() if self._manifest.stages[name].rate == rate]

    def _bank(self, state: Endpoint) -> int:
        writers: list[Rate] = [self._manifest.stages[source.group].rate for source in self._graph.into(state)]
        return _RATE_BIT[writers[0]] if len(writers) == 1 else _SHARED_BIT

    def _written_banks(self, rate: Rate) -> set[int]:
        """The banks that a run of a rate writes, all of them each time."""
        return {_RATE_BIT[rate]} | ({_SHARED_BIT} & {bit for bit, _ in self._homes.values()})

    def _find_homes(self) -> None:
        for stage_name, stage in self._manifest.stages.items():
            for port_name, port in stage.outputs.items() if stage.rate != "loop" else ():
                output = Endpoint(stage_name, port_name)
                states, packaged = self._kept(output)
                if states:
                    self._homes[output] = self._bank(states[0]), states[0]
                elif packaged:
                    self._homes[output] = _RATE_BIT[stage.rate], packaged[0]
                else:
                    slot = slot_of(port, self._batch)
                    self._scratch[output] = aligned_zeros(slot.dtype, slot.shape)

    def _kept(self, output: Endpoint) -> tuple[list[Endpoint], list[Endpoint]]:
        """The states and the package outputs that a stage output feeds."""
        targets = self._graph.out_of(output)
        return [end for end in targets if end.group == "states"], [end for end in targets if end.group == "outputs"]

    def _make_memory(self) -> Memory:
        contents = self._bank_contents()
        banks: dict[int, Bank] = {}
        for rate, bit in _RATE_BIT.items():
            inputs = {Endpoint("inputs", name): self._manifest.inputs[name] for name in self._graph.inputs_of(rate)}
            slots = {key: slot_of(port, self._batch) for key, port in inputs.items()}
            banks[bit], self._places[rate] = self._make_bank(contents[bit], slots)
        banks[_SHARED_BIT], _ = self._make_bank(contents[_SHARED_BIT], {})
        places = {name: self._bank(Endpoint("states", name)) for name in self._manifest.states}
        return Memory(banks, places)

    def _bank_contents(self) -> dict[int, dict[Endpoint, Slot]]:
        """Bank -> what lies in it. An array must be finite if anything that it feeds must be."""
        feeds: dict[tuple[int, Endpoint], list[Port | State]] = {}
        for output, home in self._homes.items():
            states, packaged = self._kept(output)
            feeds.setdefault(home, []).extend(self._graph.array(end) for end in (*states, *packaged))
        for name, state in self._manifest.states.items():
            end = Endpoint("states", name)
            feeds.setdefault((self._bank(end), end), []).append(state)
        contents: dict[int, dict[Endpoint, Slot]] = {bit: {} for bit in (*_RATE_BIT.values(), _SHARED_BIT)}
        for (bit, key), arrays in feeds.items():
            finite = any(array.finite for array in arrays)
            contents[bit][key] = slot_of(arrays[0], self._batch)._replace(finite=finite)
        return contents

    def _make_bank(
        self, contents: Mapping[Endpoint, Slot], inputs: Mapping[Endpoint, Slot]
    ) -> tuple[Bank, Mapping[Endpoint, Array]]:
        if any(key.group == "states" for key in contents):
            layout = Layout([contents, inputs, contents], check_finite=self._check_finite)
            left, middle, right = layout.views
            return Bank((left, right), (layout.checks(0, 1), layout.checks(1, 2))), middle
        # Without a state in it nothing reads the bank after the run, so one side is enough.
        layout = Layout([contents, inputs], check_finite=self._check_finite)
        checks = layout.checks(0, 1)
        return Bank((layout.views[0], layout.views[0]), (checks, checks)), layout.views[1]

    def _inputs_of(self, rate: Rate, stages: Sequence[str]) -> tuple[str, ...]:
        """The package inputs that stages of a rate read."""
        graph = self._graph
        return tuple(
            name
            for name in graph.inputs_of(rate)
            if any(target.group in stages for target in graph.out_of(Endpoint("inputs", name)))
        )

    def _make_run(self, rate: Rate, stages: Sequence[str], *, outputs: bool = True) -> Run:
        manifest, graph = self._manifest, self._graph
        inputs = {name: manifest.inputs[name] for name in self._inputs_of(rate, stages)}
        given = {name: manifest.outputs[name] for name in graph.outputs_of(rate) if outputs}
        slots = {name: slot_of(port, self._batch) for name, port in inputs.items()}
        places = {name: self._places[rate][Endpoint("inputs", name)] for name in inputs}
        sides = tuple(self._make_side(rate, stages, tuple(given), parity) for parity in _PARITIES)
        errors = dict.fromkeys(kind for name in stages for kind in self._sessions[name].errors)
        contract = Contract(CALLS[rate], inputs, given, slots, graph.aliases_of(rate))
        flip, mark = sum(self._written_banks(rate)), Memory.DECIDED if rate == "policy" else 0
        return single_pass(contract, places, sides, self.memory, flip, mark, tuple(errors))

    def _make_side(self, rate: Rate, stages: Sequence[str], outputs: tuple[str, ...], parity: int) -> Side:
        calls: list[Callable[[], object]] = []
        copies: list[tuple[Array, Array]] = []
        for stage in stages:
            calls.append(self._bind(stage, rate, parity))
            for port in self._manifest.stages[stage].outputs:
                output = Endpoint(stage, port)
                states, _ = self._kept(output)
                value = self._at(output, rate, parity)
                copies += [(self.memory.write_to(self._bank(state), state, parity), value) for state in states[1:]]
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
