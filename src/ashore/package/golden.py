"""Golden rollouts: what really went into and came out of the environment, kept in the package.

A rollout is a sequence of ticks. A tick is one run of the policy-rate stages (a step) or of the substep-rate stages
(a substep), perhaps with a reset before it. Inputs and outputs are those of the package, states are the values after
the tick; together with the initial state that is enough to check each tick by itself and the rollout as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
import numpy as np

from ashore.errors import PackageError
from ashore.package.contract import UNKNOWN, Contract, dump_contract, load_contract
from ashore.package.tensors import Array, Arrays, check_array, load_arrays, load_notes, save_arrays
from ashore.spec import BATCH, GOLDEN, RATES, Manifest, Port, Rate, State, Wiring, concrete

_CONTRACT = "contract"


class Tick(msgspec.Struct, frozen=True):
    """One run of one rate, as it was recorded."""

    index: int
    rate: Rate
    reset: bool
    """Whether the policy was reset just before this tick."""

    inputs: Arrays
    outputs: Arrays
    states: Arrays
    """Every state of the package, after the tick."""


class Golden(msgspec.Struct, frozen=True):
    """A recorded rollout."""

    ticks: tuple[Tick, ...]
    contract: Contract = None
    """The contract that it was recorded with; see `ashore.package.contract`. None takes that of the manifest with which
    it is written first."""

    def count(self, rate: Rate) -> int:
        """How many ticks of a rate there are."""
        return sum(tick.rate == rate for tick in self.ticks)

    @property
    def resets(self) -> int:
        """How many ticks start with a reset; the first always does."""
        return sum(tick.reset for tick in self.ticks)


class Recording:
    """Collects a rollout tick by tick. Arrays are copied, so the caller may reuse its own."""

    def __init__(self) -> None:
        self._ticks: list[Tick] = []
        self._reset = True

    def reset(self) -> None:
        """Say that the policy is reset before the next tick. A recording starts with a reset by itself."""
        self._reset = True

    def step(self, inputs: Arrays, outputs: Arrays, states: Arrays | None = None) -> None:
        """Add a decision: the inputs and outputs of the policy rate, and every state after it."""
        self._add("policy", inputs, outputs, states)

    def substep(self, inputs: Arrays, outputs: Arrays, states: Arrays | None = None) -> None:
        """Add a substep: the inputs and outputs of the substep rate, and every state after it."""
        self._add("substep", inputs, outputs, states)

    def golden(self) -> Golden:
        """The rollout so far."""
        return Golden(tuple(self._ticks))

    def _add(self, rate: Rate, inputs: Arrays, outputs: Arrays, states: Arrays | None) -> None:
        groups = (inputs, outputs, states or {})
        if not all(isinstance(group, Mapping) for group in groups):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PackageError("recording: expected mappings from name to array")
        copies = [{name: np.array(value) for name, value in group.items()} for group in groups]
        self._ticks.append(Tick(len(self._ticks), rate, self._reset, *copies))
        self._reset = False


def batch_of(golden: Golden, manifest: Manifest) -> int:
    """The length of the symbolic batch axis while `golden` was recorded; 1 where no port has such an axis."""
    for tick in golden.ticks:
        groups: tuple[tuple[Arrays, Mapping[str, Port | State]], ...] = (
            (tick.inputs, manifest.inputs),
            (tick.outputs, manifest.outputs),
            (tick.states, manifest.states),
        )
        for arrays, declared in groups:
            for name, array in arrays.items():
                if name in declared and BATCH in declared[name].shape and array.ndim == len(declared[name].shape):
                    return int(array.shape[declared[name].shape.index(BATCH)])
    return 1


def dump_golden(golden: Golden, manifest: Manifest) -> bytes:
    """Write a rollout as a safetensors file, after checking that it is one of this package.

    A rollout that was read before keeps the contract that it was recorded with, whatever has become of the manifest.
    """
    check_golden(golden, manifest)
    arrays: dict[str, Array] = {
        "ticks": np.array([RATES.index(tick.rate) for tick in golden.ticks], np.uint8),  # 0 is a step, 1 a substep
        "resets": np.array([tick.reset for tick in golden.ticks], np.bool_),
    }
    for key in _keys(manifest, {tick.rate for tick in golden.ticks}):
        head, _, name = key.partition("/")
        if head == "states":
            arrays[key] = np.stack([tick.states[name] for tick in golden.ticks])
        else:
            group, _, name = name.partition("/")
            ticks = [tick for tick in golden.ticks if tick.rate == head]
            arrays[key] = np.stack([(tick.inputs if group == "inputs" else tick.outputs)[name] for tick in ticks])
    recorded = manifest if golden.contract is None else golden.contract
    return save_arrays(arrays, None if isinstance(recorded, str) else {_CONTRACT: dump_contract(recorded)})


def _keys(manifest: Manifest, rates: set[Rate]) -> Iterator[str]:
    """The arrays of a stored rollout that has ticks of these rates."""
    graph = Wiring(manifest)
    for rate in sorted(rates):
        yield from (f"{rate}/inputs/{name}" for name in graph.inputs_of(rate))
        yield from (f"{rate}/outputs/{name}" for name in graph.outputs_of(rate))
    yield from (f"states/{name}" for name in manifest.states)


def load_golden(data: bytes, manifest: Manifest, where: str = GOLDEN) -> Golden:
    """Read the rollout of a package from the bytes of ``golden.safetensors``."""
    arrays = load_arrays(data, where)
    codes, resets = arrays.pop("ticks", None), arrays.pop("resets", None)
    if codes is None or resets is None:
        raise PackageError(f"{where}: 'ticks' or 'resets' is missing")
    check_array(f"{where}: ticks", codes, "uint8", (codes.size,), finite=False)
    check_array(f"{where}: resets", resets, "bool", (codes.size,), finite=False)
    if codes.size and int(codes.max()) >= len(RATES):
        raise PackageError(f"{where}: ticks: expected 0 (step) or 1 (substep), got {codes.max()}")
    rates: list[Rate] = [RATES[code] for code in cast("list[int]", codes.tolist())]
    expected = set(_keys(manifest, set(rates)))
    if arrays.keys() != expected:
        missing, extra = sorted(expected - arrays.keys()), sorted(arrays.keys() - expected)
        raise PackageError(f"{where}: {f'{missing[0]} is missing' if missing else f'{extra[0]} belongs to no port'}")
    for key, array in arrays.items():
        rows = len(rates) if key.startswith("states/") else rates.count(cast("Rate", key.partition("/")[0]))
        if array.ndim == 0 or array.shape[0] != rows:
            raise PackageError(f"{where}: {key}: expected {rows} rows, got shape {list(array.shape)}")
    seen: dict[Rate, int] = dict.fromkeys(RATES, 0)
    ticks: list[Tick] = []
    for index, rate in enumerate(rates):
        row, seen[rate] = seen[rate], seen[rate] + 1
        inputs = dict(_rows(arrays, f"{rate}/inputs/", row))
        outputs = dict(_rows(arrays, f"{rate}/outputs/", row))
        ticks.append(Tick(index, rate, bool(resets[index]), inputs, outputs, dict(_rows(arrays, "states/", index))))
    text = load_notes(data).get(_CONTRACT)
    golden = Golden(tuple(ticks), UNKNOWN if text is None else load_contract(text, where))
    check_golden(golden, manifest, where)
    return golden


def _rows(arrays: Arrays, prefix: str, row: int) -> Iterator[tuple[str, Array]]:
    for key, array in arrays.items():
        if key.startswith(prefix):
            yield key.removeprefix(prefix), np.asarray(array[row])


def check_golden(golden: Golden, manifest: Manifest, where: str = GOLDEN) -> None:
    """Raise `PackageError` unless every tick holds exactly the arrays this package has at its rate."""
    graph = Wiring(manifest)
    batch = batch_of(golden, manifest)
    if batch < 1:
        raise PackageError(f"{where}: a batch of {batch} rows")
    first = golden.ticks[0] if golden.ticks else None
    if first is None or not first.reset:
        raise PackageError(f"{where}: a rollout starts with a reset")
    decided = False
    for tick in golden.ticks:
        decided = tick.rate == "policy" or (decided and not tick.reset)
        if not decided:
            raise PackageError(f"{where}: tick {tick.index} is a substep before the first step after a reset")
        ports = {name: manifest.inputs[name] for name in graph.inputs_of(tick.rate)}
        _check_group(f"{where}: tick {tick.index}: inputs", tick.inputs, ports, batch)
        ports = {name: manifest.outputs[name] for name in graph.outputs_of(tick.rate)}
        _check_group(f"{where}: tick {tick.index}: outputs", tick.outputs, ports, batch)
        _check_group(f"{where}: tick {tick.index}: states", tick.states, manifest.states, batch)


def _check_group(where: str, arrays: Arrays, declared: Mapping[str, Port | State], batch: int) -> None:
    if arrays.keys() != declared.keys():
        raise PackageError(f"{where}: expected {sorted(declared)}, got {sorted(arrays)}")
    for name, array in arrays.items():
        spec = declared[name]
        check_array(f"{where}/{name}", array, spec.dtype, concrete(spec.shape, batch), spec.finite)
