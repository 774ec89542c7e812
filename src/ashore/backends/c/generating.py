"""From a package to the files of its C library."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from ashore.backends.c.code import policy_name, read_text
from ashore.backends.c.compiling import compile_rate
from ashore.backends.c.header import header
from ashore.backends.c.program import build_program
from ashore.backends.c.source import assembly, source
from ashore.errors import InputError
from ashore.package import Package
from ashore.spec import encode

TARGETS = ("host", "generic", "cortex-m")
"""What code can be generated for: this machine, any machine with an operating system, or one without."""


@dataclass(frozen=True)
class Figures:
    """How large a compiled package is. States, scratch and a few flags are in the struct that the caller owns."""

    operations: int
    """Kernels: loops, products, cells, after what belongs together was joined."""

    weights_bytes: int
    """Constants, each once."""

    states_bytes: int
    scratch_bytes: int


@dataclass(frozen=True)
class Source:
    """The files of a compiled package."""

    name: str
    """What its symbols are called: ``ashore_<name>_step`` and so on."""

    files: dict[str, bytes]
    """``ashore.h``, ``policy.h``, ``policy.c``; with large weights also ``policy_weights.S`` and ``.bin``."""

    figures: Figures


def generate(package: Package, *, batch: int = 1, target: str = "host") -> Source:
    """Turn every stage of a package into C99. The same package gives the same bytes.

    Args:
        package: an opened package; its stages need ONNX artifacts, or are processors.
        batch: the length of the symbolic batch axis.
        target: one of `TARGETS`.

    Raises:
        BackendError: something in the package cannot be compiled; the message names the node.
    """
    if target not in TARGETS:
        raise InputError(f"target: expected one of {list(TARGETS)}, got {target!r}")
    if type(batch) is not int or batch < 1:
        raise InputError(f"batch: expected a whole number from 1, got {batch!r}")
    manifest = package.manifest
    program = build_program(package, batch)
    sizes: dict[str, int] = {}
    compiled = {rate: compile_rate(run, target, sizes) for rate, run in program.rates.items()}
    name = policy_name(manifest.name)
    digest = manifest.manifest_sha256 or hashlib.sha256(encode(manifest)).hexdigest()
    code, blob, weights_bytes = source(program, dict(compiled), name, digest)
    files = {
        "ashore.h": read_text("ashore.h").encode(),
        "policy.h": header(program, name, sizes).encode(),
        "policy.c": code.encode(),
    }
    if blob:
        files["policy_weights.S"] = assembly(name).encode()
        files["policy_weights.bin"] = blob
    figures = Figures(
        operations=sum(len(one.kernels) for one in compiled.values()),
        weights_bytes=weights_bytes,
        states_bytes=sum(value.nbytes for value in program.initial.values()),
        scratch_bytes=sum(count * np.dtype(dtype).itemsize for dtype, count in sizes.items()),
    )
    return Source(name, files, figures)
