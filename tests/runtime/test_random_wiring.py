"""Random packages against a few lines of numpy that say what wires, states and rates mean.

Each package has several stages at two rates, states written by one rate or by both, values that feed several states,
stages and outputs at once, and a random order of everything in the file.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
from ashore.package import Package, Recording, write
from ashore.runtime import load
from ashore.spec import Artifact, Endpoint, Manifest, Port, Stage, State, Timing, Wire, Wiring
from ashore.verify import replay

WIDTH = 2
PORT = Port(dtype="float32", shape=(1, WIDTH))
RATES = ("policy", "substep")


class World:
    """A random manifest, its ONNX files, and an interpreter of the manifest."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.weights: dict[Endpoint, list[tuple[str, float]]] = {}
        self.states = {f"s{number}": self._writers() for number in range(rng.randint(1, 4))}
        stages: dict[str, Stage] = {}
        wires: list[Wire] = []
        written: dict[str, list[str]] = {rate: [] for rate in RATES}
        for number in range(rng.randint(2, 5)):
            rate = RATES[number] if number < 2 else rng.choice(RATES)
            name = f"{rng.choice('abcxyz')}{number}"
            sources = [*written[rate], *(f"states/{state}" for state in self.states), "inputs/both", f"inputs/{rate}"]
            chosen = [rng.choice(sources) for _ in range(rng.randint(1, 4))]
            wires += [Wire(source, f"{name}/i{index}") for index, source in enumerate(chosen)]
            outputs = [f"o{index}" for index in range(rng.randint(1, 3))]
            stages[name] = self._stage(name, rate, [f"i{index}" for index in range(len(chosen))], outputs)
            written[rate] += [f"{name}/{output}" for output in outputs]
        outputs: list[str] = []
        for rate in RATES:  # every state has a writer at each of its rates, everything goes somewhere
            for state, writers in self.states.items():
                if rate in writers:
                    wires.append(Wire(rng.choice(written[rate]), f"states/{state}"))
            used = {wire.source for wire in wires}
            loose = [source for source in written[rate] if source not in used]
            for source in {*loose, rng.choice(written[rate])}:
                outputs.append(f"out{len(outputs)}")
                wires.append(Wire(source, f"outputs/{outputs[-1]}"))
        self._use_everything(stages, wires)
        rng.shuffle(wires)
        self.manifest = Manifest(
            name="random",
            timing=Timing(policy_dt_s=0.02, physics_dt_s=0.01, decimation=2),
            inputs={name: PORT for name in ("both", *RATES) if any(w.source == f"inputs/{name}" for w in wires)},
            outputs=dict.fromkeys(outputs, PORT),
            stages=dict(rng.sample(list(stages.items()), len(stages))),
            wires=tuple(wires),
            states={
                state: State(dtype="float32", shape=(1, WIDTH), role="memory", reset=rng.choice(("initial", "keep")))
                for state in self.states
            },
        )
        self.graph = Wiring(self.manifest)
        self.initial = {state: self.values() for state in self.states}
        self.now = dict(self.initial)

    def values(self) -> np.ndarray:
        return support.f32(*(self.rng.uniform(-1, 1) for _ in range(WIDTH)))

    def _writers(self) -> tuple[str, ...]:
        return self.rng.choice((("policy",), ("substep",), RATES))

    def _stage(self, name: str, rate: Any, inputs: list[str], outputs: list[str]) -> Stage:
        for output in outputs:
            self.weights[Endpoint(name, output)] = [(i, round(self.rng.uniform(-0.4, 0.4), 3)) for i in inputs]
        return Stage(
            rate=rate,
            inputs=dict.fromkeys(inputs, PORT),
            outputs=dict.fromkeys(outputs, PORT),
            artifacts={"onnx": Artifact(path=f"{name}.onnx")},
        )

    def _use_everything(self, stages: dict[str, Stage], wires: list[Wire]) -> None:
        """States that nobody reads would be refused: let the last stage read them."""
        name = list(stages)[-1]
        unread = [state for state in self.states if all(wire.source != f"states/{state}" for wire in wires)]
        inputs = [*stages[name].inputs, *(f"u{index}" for index in range(len(unread)))]
        wires += [Wire(f"states/{state}", f"{name}/u{index}") for index, state in enumerate(unread)]
        stages[name] = self._stage(name, stages[name].rate, inputs, list(stages[name].outputs))

    def files(self) -> dict[str, bytes]:
        return {f"{name}.onnx": self._model(name, stage) for name, stage in self.manifest.stages.items()}

    def _model(self, name: str, stage: Stage) -> bytes:
        shape = f"float[1,{WIDTH}]"
        text = f"g ({', '.join(f'{shape} {port}' for port in stage.inputs)})"
        text += f" => ({', '.join(f'{shape} {port}' for port in stage.outputs)}) {{\n"
        for output in stage.outputs:
            terms = []
            for number, (port, weight) in enumerate(self.weights[Endpoint(name, output)]):
                text += f"w{output}{number} = Constant<value_float = {weight}>()\n"
                text += f"t{output}{number} = Mul({port}, w{output}{number})\n"
                terms.append(f"t{output}{number}")
            text += f"b{output} = Constant<value_float = 0.25>()\n"
            for number, term in enumerate(terms):
                text += f"a{output}{number} = Add({f'a{output}{number - 1}' if number else f'b{output}'}, {term})\n"
            text += f"{output} = Identity(a{output}{len(terms) - 1})\n"
        return support.model(text + "}")

    def run(self, rate: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What a run of a rate means: stages see the states as they were, and states change together at its end."""
        values = {Endpoint("inputs", name): value for name, value in inputs.items()}
        values |= {Endpoint("states", name): value for name, value in self.now.items()}
        for name in self.graph.order():
            stage = self.manifest.stages[name]
            if stage.rate == rate:
                for output in stage.outputs:
                    total = np.full((1, WIDTH), 0.25, np.float32)
                    for port, weight in self.weights[Endpoint(name, output)]:
                        total = total + values[self.graph.into(Endpoint(name, port))[0]] * np.float32(weight)
                    values[Endpoint(name, output)] = total
        for source, target in self.graph.wires.values():
            if target.group == "states" and self.manifest.stages[source.group].rate == rate:
                self.now[target.name] = values[source]
        return {name: values[self.graph.into(Endpoint("outputs", name))[0]] for name in self.graph.outputs_of(rate)}

    def reset(self) -> None:
        rules = {name: state.reset for name, state in self.manifest.states.items()}
        self.now = {name: self.initial[name] if rules[name] == "initial" else now for name, now in self.now.items()}


@pytest.mark.parametrize("seed", range(60))
def test_a_random_package_runs_as_its_wires_say(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    package: Package = write(tmp_path / "p", world.manifest, files=world.files(), initial=world.initial)
    policy, recording, decided = load(package), Recording(), False
    for _ in range(40):
        if world.rng.random() < 0.1:
            policy.reset()
            world.reset()
            recording.reset()
            decided = False
        rate = "substep" if decided and world.rng.random() < 0.6 else "policy"
        decided = True
        names = policy.step_inputs if rate == "policy" else policy.substep_inputs
        inputs = {name: world.values() for name in names}
        expected = world.run(rate, inputs)
        got = policy.step(inputs) if rate == "policy" else policy.substep(inputs)
        assert got.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value, err_msg=f"{rate}: {name}")
        for name, value in policy.state().items():
            np.testing.assert_array_equal(value, world.now[name], err_msg=f"{rate}: {name}")
        record = recording.step if rate == "policy" else recording.substep
        record(inputs, expected, world.now)
        if world.rng.random() < 0.1:
            policy.restore(policy.state())
    contents = {"files": world.files(), "initial": world.initial, "golden": recording.golden()}
    report = replay(write(tmp_path / "p", world.manifest, **contents), atol=0.0, rtol=0.0)
    assert report.passed, report.mismatches
