"""Compiled policies through ctypes, for machines without the headers of Python.

It does what ``extension.c`` does, in Python: same functions, same answers, a few microseconds more a call. It needs
nothing that is not there anyway. (A call through cffi would take a tenth of a microsecond less than through ctypes, and
cffi would have to be installed.)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ashore.package import Array, Arrays
from ashore.runtime.memory import aligned_zeros

ABI_VERSION = 1
MAX_RANK = 8
ALIGNMENT = 64
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
"""By ashore_dtype."""

_TEXT, _POINTER, _SIZE = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t

# Functions that keep Python's lock, by what they take.
_ONE = ctypes.PYFUNCTYPE(ctypes.c_int, _POINTER)
_TWO = ctypes.PYFUNCTYPE(None, _POINTER, _POINTER)
_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, _POINTER)
_SET = ctypes.PYFUNCTYPE(None, _POINTER, _POINTER, ctypes.c_int)
_FLAG = ctypes.PYFUNCTYPE(None, _POINTER, ctypes.c_int)


class _Port(ctypes.Structure):
    """ashore_port."""

    _fields_ = (
        *((name, _TEXT) for name in ("name", "kind", "unit", "frame", "source", "connection", "description", "role")),
        *((name, ctypes.c_int) for name in ("dtype", "finite", "keep", "rank")),
        ("shape", _SIZE * MAX_RANK),
        *((name, _SIZE) for name in ("count", "bytes", "offset")),
        *((name, _POINTER) for name in ("names", "units", "lower", "upper")),
    )


_TABLES = ("step_input", "step_output", "substep_input", "substep_output", "state")
_SIZES = ("policy_size", "policy_alignment", "step_in_size", "step_out_size", "substep_in_size", "substep_out_size")
_CALLS = ("reset", "step", "substep", "get_states", "set_states", "decided", "set_unchecked", "fault")


class _Contract(ctypes.Structure):
    """ashore_contract."""

    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        *((name, _TEXT) for name in ("name", "version", "digest")),
        ("batch", _SIZE),
        *((name, ctypes.c_double) for name in ("policy_dt_s", "physics_dt_s")),
        ("decimation", ctypes.c_int),
        *(field for table in _TABLES for field in ((f"{table}s", ctypes.POINTER(_Port)), (f"{table}_count", _SIZE))),
        ("joints", _POINTER),
        ("joint_count", _SIZE),
        *((name, _SIZE) for name in (*_SIZES, "states_size")),
        *((name, _POINTER) for name in _CALLS),
    )


class _Struct(NamedTuple):
    """A struct of the library, in memory of our own."""

    data: Array
    """Its bytes."""

    at: ctypes.c_void_p
    """Where they are."""

    views: Mapping[str, Array]
    """Port -> its array in there."""


def _struct(size: int, views: Callable[[Array], Mapping[str, Array]] = lambda _: {}) -> _Struct:
    data = aligned_zeros("uint8", (size,))
    return _Struct(data, ctypes.c_void_p(data.ctypes.data), views(data))


class Foreign:
    """A compiled policy, opened; what ``ashore_native.Native`` is, with the same arguments and methods."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        symbol: str,
        admit_step: Callable[[Any], Arrays],
        admit_substep: Callable[[Any], Arrays],
        fail: Callable[[Any, int, int], object],
        release: bool,  # noqa: ARG002 - the extension lets other threads run meanwhile; here they always wait
    ) -> None:
        self._library = ctypes.CDLL(os.fspath(path))
        try:
            self._contract = contract = _Contract.in_dll(self._library, symbol)
        except ValueError:
            raise ValueError(f"it has no symbol {symbol}") from None
        if contract.abi_version != ABI_VERSION:
            raise ValueError(f"its interface has the version {contract.abi_version}, and this is {ABI_VERSION}")
        if contract.policy_alignment > ALIGNMENT:
            raise ValueError(f"it has to lie at a multiple of {contract.policy_alignment} bytes, over {ALIGNMENT}")
        self._fail = fail
        self._policy = _struct(contract.policy_size)
        self._states, self._saved = self._table("state", contract.states_size), _struct(contract.states_size)
        self._inputs = (
            self._table("step_input", contract.step_in_size),
            self._table("substep_input", contract.substep_in_size),
        )
        self._outputs = (
            self._table("step_output", contract.step_out_size),
            self._table("substep_output", contract.substep_out_size),
        )
        self._calls = tuple(_CALL(address or 0) for address in (contract.step, contract.substep))
        self._get, self._set, self._fault = _TWO(contract.get_states), _SET(contract.set_states), _CALL(contract.fault)
        self._is_decided, self._uncheck = _ONE(contract.decided), _FLAG(contract.set_unchecked)
        _ONE(contract.reset)(self._policy.at)
        self.step, self.substep = self._run(0, admit_step), self._run(1, admit_substep)

    def _table(self, name: str, size: int) -> _Struct:
        ports = [
            getattr(self._contract, f"{name}s")[index] for index in range(getattr(self._contract, f"{name}_count"))
        ]

        def views(data: Array) -> dict[str, Array]:
            return {
                port.name.decode(): data[port.offset : port.offset + port.bytes]
                .view(DTYPES[port.dtype])
                .reshape(port.shape[: port.rank])
                for port in ports
            }

        return _struct(size, views)

    def _run(self, rate: int, admit: Callable[[Any], Arrays]) -> Callable[[Any], dict[str, Array]]:
        ndarray, places, outputs = np.ndarray, self._inputs[rate].views, tuple(self._outputs[rate].views.items())
        fast = tuple((name, view.dtype, view.shape, view) for name, view in places.items())
        count = len(fast)
        call, policy, given, made = self._calls[rate], self._policy.at, self._inputs[rate].at, self._outputs[rate].at
        get_states, set_states, is_decided, saved = self._get, self._set, self._is_decided, self._saved.at

        def run(inputs: Any) -> dict[str, Array]:
            regular = inputs.__class__ is dict and len(inputs) == count
            try:
                for name, dtype, shape, place in fast if regular else ():
                    value = inputs[name]
                    if value.shape != shape or value.dtype is not dtype or type(value) is not ndarray:
                        regular = False
                        break
                    place[...] = value
            except (KeyError, AttributeError):
                regular = False
            if not regular:
                for name, value in admit(inputs).items():
                    places[name][...] = value
            get_states(policy, saved)
            decided = is_decided(policy)
            try:
                status = call(policy, given, made)
                if status == 0:
                    return {name: view.copy() for name, view in outputs}
            except BaseException:  # an interrupt must not leave a decision that nobody got
                set_states(policy, saved, decided)
                raise
            self._fail(self, rate, status)
            raise SystemError(f"a call ended with the status {status}, and nobody minded")

        return run

    @property
    def decided(self) -> bool:
        """Whether something has been decided since the last reset."""
        return bool(self._is_decided(self._policy.at))

    def current(self) -> dict[str, Array]:
        """A copy of every state, by name."""
        self._get(self._policy.at, self._states.at)
        return _copies(self._states)

    def replace(self, values: Arrays, *, decided: bool) -> None:
        """Give every state a value."""
        for name, view in self._states.views.items():
            view[...] = values[name]
        self._set(self._policy.at, self._states.at, decided)

    def unchecked(self) -> None:
        """Do not look for NaN and infinities from now on."""
        self._uncheck(self._policy.at, 1)

    def fault(self) -> tuple[int, int]:
        """(port, element) of what was not finite."""
        port, element = ctypes.c_int(), _SIZE()
        self._fault(self._policy.at, ctypes.addressof(port), ctypes.addressof(element))
        return port.value, element.value

    def again(self, rate: int) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """(inputs, outputs, states) of the last call of a rate, made once more on a copy, without looking for NaN."""
        other = _struct(len(self._policy.data))
        other.data[...] = self._policy.data
        self._uncheck(other.at, 1)
        self._calls[rate](other.at, self._inputs[rate].at, self._outputs[rate].at)
        self._get(other.at, self._states.at)
        return _copies(self._inputs[rate]), _copies(self._outputs[rate]), _copies(self._states)

    def describe(self) -> tuple[Any, ...]:
        """(digest, batch, tables of ports and states)."""
        tables = (self._inputs[0], self._outputs[0], self._inputs[1], self._outputs[1], self._states)
        described = ([(name, view.dtype, view.shape) for name, view in table.views.items()] for table in tables)
        return (self._contract.digest.decode(), self._contract.batch, *described)


def policy_size(library: Path, symbol: str) -> int:
    """Bytes of the struct that the caller of a compiled policy owns."""
    return _Contract.in_dll(ctypes.CDLL(str(library)), symbol).policy_size


def _copies(struct: _Struct) -> dict[str, Array]:
    return {name: view.copy() for name, view in struct.views.items()}
