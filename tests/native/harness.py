"""Compiling a package with the compiler of this machine, and calling it by its contract through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ashore.backends.c import Source, generate
from ashore.package import Package

Arrays = Mapping[str, np.ndarray]
STRICT = ("-Wall", "-Wextra", "-Werror")
FAST = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
)  # fmt: skip


class Port(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("name", "kind", "unit", "frame")),
        *((name, ctypes.c_char_p) for name in ("source", "connection", "description", "role")),
        *((name, ctypes.c_int) for name in ("dtype", "finite", "keep", "rank")),
        ("shape", ctypes.c_size_t * 8),
        *((name, ctypes.c_size_t) for name in ("count", "bytes", "offset")),
        *((name, ctypes.POINTER(ctypes.c_char_p)) for name in ("names", "units")),
        *((name, ctypes.POINTER(ctypes.c_double)) for name in ("lower", "upper")),
    )


class Joint(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        *((name, ctypes.c_double) for name in ("default_position", "kp", "kd")),
        *((name, ctypes.c_double) for name in ("effort_limit", "velocity_limit", "lower", "upper")),
    )


class Contract(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        *((name, ctypes.c_char_p) for name in ("name", "version", "digest")),
        ("batch", ctypes.c_size_t),
        ("policy_dt_s", ctypes.c_double),
        ("physics_dt_s", ctypes.c_double),
        ("decimation", ctypes.c_int),
        *(
            field
            for name in ("step_input", "step_output", "substep_input", "substep_output", "state")
            for field in ((f"{name}s", ctypes.POINTER(Port)), (f"{name}_count", ctypes.c_size_t))
        ),
        ("joints", ctypes.POINTER(Joint)),
        ("joint_count", ctypes.c_size_t),
        *((f"{name}_{kind}", ctypes.c_size_t) for name, kind in (("policy", "size"), ("policy", "alignment"))),
        *((f"{name}_size", ctypes.c_size_t) for name in ("step_in", "step_out", "substep_in", "substep_out", "states")),
        ("reset", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        *((name, ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)) for name in ("step", "substep")),
        ("get_states", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("set_states", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
        ("decided", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("set_unchecked", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)),
        (
            "fault",
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_size_t)),
        ),
    )


class RefusedError(Exception):
    """A status that is not ASHORE_OK."""

    def __init__(self, status: int, port: int, element: int) -> None:
        super().__init__(status, port, element)
        self.status, self.port, self.element = status, port, element


class Native:
    """A compiled policy with arrays in and out."""

    def __init__(self, library: Path, name: str) -> None:
        self._library = ctypes.CDLL(str(library))
        self.contract = Contract.in_dll(self._library, f"ashore_{name}_contract")
        self._memory = ctypes.create_string_buffer(self.contract.policy_size + 64)
        self.policy = (ctypes.addressof(self._memory) + 63) // 64 * 64
        self.reset()

    def reset(self) -> None:
        self.contract.reset(self.policy)

    def step(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return self._call("step", inputs)

    def substep(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return self._call("substep", inputs)

    def state(self) -> dict[str, np.ndarray]:
        held = bytearray(self.contract.states_size)
        self.contract.get_states(self.policy, (ctypes.c_char * len(held)).from_buffer(held))
        return self._unpack("state", held)

    def restore(self, states: Arrays, decided: bool = False) -> None:
        held = self._pack("state", states, self.contract.states_size)
        self.contract.set_states(self.policy, (ctypes.c_char * len(held)).from_buffer(held), decided)

    def ports(self, group: str) -> list[Port]:
        return [getattr(self.contract, f"{group}s")[index] for index in range(getattr(self.contract, f"{group}_count"))]

    def _call(self, verb: str, inputs: Arrays) -> dict[str, np.ndarray]:
        given = self._pack(f"{verb}_input", inputs, getattr(self.contract, f"{verb}_in_size"))
        taken = bytearray(getattr(self.contract, f"{verb}_out_size"))
        pointers = [(ctypes.c_char * len(held)).from_buffer(held) for held in (given, taken)]
        status = getattr(self.contract, verb)(self.policy, *pointers)
        if status:
            port, element = ctypes.c_int(), ctypes.c_size_t()
            self.contract.fault(self.policy, port, element)
            raise RefusedError(status, port.value, element.value)
        return self._unpack(f"{verb}_output", taken)

    def _pack(self, group: str, arrays: Arrays, size: int) -> bytearray:
        held = bytearray(size)
        assert {port.name.decode() for port in self.ports(group)} == set(arrays)
        for port in self.ports(group):
            array = np.asarray(arrays[port.name.decode()], order="C")
            assert array.dtype.name == DTYPES[port.dtype]
            assert array.shape == tuple(port.shape[: port.rank])
            held[port.offset : port.offset + port.bytes] = array.tobytes()
        return held

    def _unpack(self, group: str, held: bytearray) -> dict[str, np.ndarray]:
        return {
            port.name.decode(): np.frombuffer(bytes(held[port.offset : port.offset + port.bytes]), DTYPES[port.dtype])
            .reshape(port.shape[: port.rank])
            .copy()
            for port in self.ports(group)
        }


def build(source: Source, folder: Path, flags: tuple[str, ...] = FAST, compiler: str = "gcc") -> Path:
    """Compile a source as a library."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in source.files.items():
        (folder / name).write_bytes(content)
    library = folder / f"lib{source.name}.so"
    files = [folder / "policy.c", *folder.glob("*.S")]
    linking = ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic", f"-I{folder}", f"-Wa,-I{folder}")
    command = [compiler, "-std=c99", *STRICT, *flags, *linking, *map(str, files), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return library


def native(package: Package, folder: Path, *, batch: int = 1, flags: tuple[str, ...] = FAST) -> Native:
    """Compile and open a package."""
    shutil.rmtree(folder, ignore_errors=True)
    source = generate(package, batch=batch)
    return Native(build(source, folder, flags), source.name)
