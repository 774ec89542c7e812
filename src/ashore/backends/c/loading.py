"""A package as a compiled library, opened: what `ashore.load` gets with ``backend="c"``.

Generating and compiling take a second or so, and happen once: afterwards the library is in the cache. It is found there
by what decides its content: the manifest, which has the digests of all files, the generator, the compiler with its
flags, and the machine. So the second time neither the graphs of the package nor its weights are looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ashore import __version__
from ashore.backends.c.calling import caller
from ashore.backends.c.compiler import Compiler, find_compiler
from ashore.backends.c.linking import LIBRARY_FLAGS, NATIVE_FLAGS, link_library, write_sources
from ashore.backends.cache import LIBRARIES, Entry, digest_of_sources
from ashore.errors import BackendError, OrderError
from ashore.package import Arrays, Package
from ashore.runtime.inputs import admit
from ashore.runtime.memory import Bad, Slot, slot_of
from ashore.runtime.single_pass import Contract, Run, not_finite
from ashore.runtime.whole import States, contract_of
from ashore.spec import RATES, SINGLE_PASS, Endpoint, Manifest, Rate

LIBRARY = "policy.so"
SYMBOL = "contract"
"""The note that says what the contract is called in a library."""

HERE = Path(__file__).parent
_BUSY, _BAD_INPUT, _BAD_RESULT, _NOT_DECIDED, _BAD_INDEX = -1, 1, 2, 3, 4
_LONG_BYTES = 1 << 20
"""With a library as large as this, a call takes so long that other threads of Python may run meanwhile."""


class Opened(NamedTuple):
    """A compiled package in place of a `Plan`."""

    memory: States
    runs: Mapping[Rate, Run]


def open_package(package: Package, *, batch: int, check_finite: bool) -> Opened:
    """Compile a package, unless that was done before, and open it.

    Args:
        package: all of it is compiled.
        batch: the length of the symbolic batch axis.
        check_finite: refuse NaN and infinities.
    """
    manifest = package.manifest
    if manifest.runner.type != SINGLE_PASS:
        raise BackendError(
            f"{package.path}: the runner {manifest.runner.type!r} decides only when the last chunk is used up; "
            f"compiled, it would decide in every call, so the backend 'c' refuses it; use another backend"
        )
    entry = compiled(package, batch=batch)
    contracts: dict[Rate, Contract] = {rate: contract_of(manifest, rate, batch) for rate in RATES}
    admits = [_admission(contract) for contract in contracts.values()]
    fail = _failure(tuple(contracts.values()))
    try:
        native = caller()(entry.file, entry.notes[SYMBOL], *admits, fail, entry.size >= _LONG_BYTES)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"{entry.file}: cannot be opened: {error}; if its folder is mounted noexec, set ASHORE_CACHE to another"
        ) from error
    _check_tables(entry.file, native.describe(), manifest, contracts, batch)
    if not check_finite:
        native.unchecked()
    calls: Mapping[Rate, Run] = {"policy": native.step, "substep": native.substep}
    used = {stage.rate for stage in manifest.stages.values()}
    return Opened(native, {rate: call for rate, call in calls.items() if rate in used})


def compiled(package: Package, *, batch: int) -> Entry:
    """The library of a package, from the cache if it is there."""
    compiler = find_compiler(LIBRARY_FLAGS, NATIVE_FLAGS)

    def make(folder: Path) -> Mapping[str, str]:
        from ashore.backends.c import generate  # a library from the cache does not need it

        source = generate(package, batch=batch, target="host")
        write_sources(source.files, folder)
        link_library(compiler, folder, LIBRARY, str(package.path))
        return {SYMBOL: f"ashore_{source.name}_contract"}

    name = re.sub(r"\W", "_", package.manifest.name, flags=re.ASCII)
    return LIBRARIES.find_or_make(name, _key(package.manifest, batch, compiler), LIBRARY, make)


def _key(manifest: Manifest, batch: int, compiler: Compiler) -> str:
    digest = hashlib.sha256(msgspec.json.encode(manifest))
    for told in (__version__, str(batch), digest_of_sources(HERE), compiler.identity):
        digest.update(hashlib.sha256(told.encode()).digest())
    return digest.hexdigest()


def _check_tables(
    library: Path, described: tuple[Any, ...], manifest: Manifest, contracts: Mapping[Rate, Contract], batch: int
) -> None:
    """Refuse a library whose tables are not those of the manifest."""
    _, rows, *tables = described
    expected: list[dict[str, Slot]] = []
    for contract in contracts.values():
        expected += [dict(contract.slots), {name: slot_of(port, batch) for name, port in contract.outputs.items()}]
    expected.append({name: slot_of(state, batch) for name, state in manifest.states.items()})
    for table, slots in zip(tables, expected, strict=True):
        found = {name: (dtype, shape) for name, dtype, shape in table}
        wanted = {name: (np.dtype(slot.dtype), slot.shape) for name, slot in slots.items()}
        if rows != batch or found != wanted:
            raise BackendError(f"{library}: expected a policy with {wanted} for {batch} rows, got {found} for {rows}")


def _admission(contract: Contract) -> Any:
    def let_in(inputs: Any) -> Arrays:
        return admit(f"{contract.verb}: input", inputs, contract.slots, contract.aliases)

    return let_in


def _failure(contracts: tuple[Contract, ...]) -> Any:
    """What says why a call failed, in the words of every other backend."""

    def fail(native: Any, rate: int, status: int) -> None:
        contract = contracts[rate]
        if status == _NOT_DECIDED:
            raise OrderError(f"{contract.verb}: nothing has been decided since the last reset; call step first")
        if status == _BUSY:
            raise OrderError(
                f"{contract.verb}: another thread is in the middle of a call of this policy; load one for each thread"
            )
        if status == _BAD_INDEX:
            raise BackendError(f"{contract.verb}: an index is outside of what it looks up; the state is unchanged")
        if status not in (_BAD_INPUT, _BAD_RESULT):
            raise BackendError(f"{contract.verb}: the library failed with the status {status}; the state is unchanged")
        port, element = native.fault()
        inputs, outputs, states = native.again(rate)
        named = [(Endpoint("inputs", name), value) for name, value in inputs.items()]
        if status == _BAD_RESULT:
            named = [(Endpoint("outputs", name), value) for name, value in outputs.items()]
            named += [(Endpoint("states", name), value) for name, value in states.items()]
        where, values = named[port]
        index = tuple(int(part) for part in np.unravel_index(element, values.shape))
        raise not_finite(contract, Bad(where, index, float(values[index])))

    return fail
