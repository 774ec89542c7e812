"""A policy that is one ONNX file, run from Python without torch.

A bare session takes every memory of such a file as an input and gives it back as an output, and leaves it to the caller
to count ticks. Here memory is fed back and ticks are counted, unless the caller gives them; and what is not what the
file asks for, or is not finite, is refused before it changes anything.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ashore.environment.file_ports import Dim, file_port, finite_check, sizes_of, worst
from ashore.errors import BackendError, InputError, NonFiniteError, OrderError, PackageError, suggestion
from ashore.package import Array, Arrays
from ashore.runtime import Options
from ashore.runtime.inputs import admit
from ashore.runtime.one_file import DECIMATION, NOTE, STEP_COUNT, memory_in, memory_out, memory_pairs, stored_array
from ashore.runtime.onnx import describe, open_session, runtime_errors

_log = logging.getLogger(__name__)
_MOST_TICKS = 2**31 - 1
_EVERY_DECIMATION = 720_720
"""Divisible by every number up to 16, for files that do not say how many ticks make a decision."""

_NOTHING: frozenset[str] = frozenset()


class Metadata(dict[str, str]):
    """What a file says of itself; also to be had as from ONNX Runtime's own description of a model."""

    @property
    def custom_metadata_map(self) -> dict[str, str]:
        """The same, under the name that ONNX Runtime has for it."""
        return self


class SessionWrapper:
    """Runs a one-file policy, with its memory and its count of ticks.

    Not for use by several threads at once.
    """

    def __init__(
        self,
        onnx_folder: str | os.PathLike[str],
        onnx_file_name: str,
        actor: Any = None,
        optimize: bool = True,
    ) -> None:
        """Open a file.

        Args:
            onnx_folder: where it is.
            onnx_file_name: what it is called.
            actor: anything, given back by `get_actor`.
            optimize: also write the graph as ONNX Runtime optimises it to ``debug/<stem>_optimized.onnx`` in that
                folder, to be looked at. What runs is optimised either way.
        """
        self.onnx_file_path = Path(onnx_folder) / onnx_file_name
        self._actor, where = actor, str(self.onnx_file_path)
        data = _read(self.onnx_file_path)
        self.session: Any = open_session(data, Options(), where)
        described = describe(self.session, where)
        self.input_names = [port.name for port in described.inputs]
        """Every input, memory and count included, in the order of the file."""

        self.output_names = [port.name for port in described.outputs]
        """Every output, memory included, in the order of the file."""

        self.metadata = Metadata(described.metadata)
        note = _note(self.metadata, where)
        loose = _loose(note)
        optional = self.session.get_overridable_initializers()
        self._inputs = {p.name: file_port(p, where, finite=p.name not in loose) for p in (*described.inputs, *optional)}
        self._outputs = {p.name: file_port(p, where, finite=p.name not in loose) for p in described.outputs}
        self._fed_back = memory_pairs(self._inputs, self._outputs)
        self._starts_itself = {port.name for port in optional}
        self._plain = [n for n in self.input_names if n != STEP_COUNT and n not in self._fed_back]
        self._fixed = all(self._inputs[name].fixed for name in (*self._plain, *self._fed_back))
        self._fast, self._fast_with_memory = (
            {name: (np.dtype(self._inputs[name].dtype), self._inputs[name].slot({}).shape) for name in names}
            for names in (self._plain, (*self._plain, *self._fed_back))
        )
        self._checks = {name: finite_check(port) for name, port in self._inputs.items() if port.checked}
        ports = enumerate(self._outputs.values())
        self._result_checks = tuple((index, finite_check(port)) for index, port in ports if port.checked)
        self._places = tuple((port, self.output_names.index(result)) for port, result in self._fed_back.items())
        fed_back = set(self._fed_back.values())
        self._shown = tuple((i, name) for i, name in enumerate(self.output_names) if name not in fed_back)
        counter = self._inputs.get(STEP_COUNT)
        self._counter = None if counter is None else np.zeros(counter.slot({}).shape, counter.dtype)
        decided = memory_in(note["decided"]) if note else None
        self._decided = decided if decided in self._fed_back else None
        self._kept = _kept(note)
        self.initial_memory = _initial(note, where)
        """Memory input -> what it starts with, where the file says so."""

        self._memory: dict[str, Array] = {}
        """Empty before the first tick, then what it left, by input."""

        self._period = _MOST_TICKS - _MOST_TICKS % (self.decimation or _EVERY_DECIMATION)
        self.reset()
        if optimize:
            _write_optimized(data, self.onnx_file_path)

    def __call__(self, **inputs: Array) -> list[Array]:
        """Run one tick.

        Args:
            **inputs: every plain input by name. Memory that is not given is what the last tick left, and the count of
                ticks goes on by itself. Who gives memory continues from it: the file then takes it as it is, also on
                the first tick.

        Returns:
            Every output, in the order of `output_names`.

        Raises:
            InputError: a name, dtype, shape or value is wrong. Memory and count are as they were.
            NonFiniteError: a result is NaN or infinite. Memory and count are as they were.
        """
        count = self._given_count(inputs.pop(STEP_COUNT)) if STEP_COUNT in inputs else self._count
        given = frozenset(name for name in self._fed_back if name in inputs)
        memory = self._memory if not given else {n: v for n, v in self._memory.items() if n not in given}
        if given and self._decided is not None and self._decided not in given:
            memory[self._decided] = np.array([True])
        results = self._tick("call", inputs, memory, given, count)
        # The caller gets the originals, and may write to them.
        self._memory = {port: results[index].copy() for port, index in self._places}
        return results

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """Run one tick, with memory and count of their own. The first tick after a reset decides.

        Args:
            inputs: exactly the plain inputs, by name.

        Returns:
            Output name -> array, without memory. Errors are those of a call.
        """
        results = self._tick("run", inputs, self._memory, _NOTHING, self._count)
        self._memory = {port: results[index] for port, index in self._places}
        return {name: results[index] for index, name in self._shown}

    def reset(self) -> None:
        """Start an episode: the next tick is a first one. Memory that a reset keeps is kept."""
        before, self._memory = self._memory, {}
        self._results: list[Array] | None = None
        self._count = 0
        kept = {name: value for name, value in before.items() if name in self._kept}
        if kept and self._decided is not None:
            # The file would start it anew, so it is told to go on, from what all the others start with.
            starts = {name: _as_many(value, before[name].shape) for name, value in self.initial_memory.items()}
            self._memory = {**before, **starts, **kept}

    def get_output_value(self, output_name: str) -> Array:
        """An output of the last tick, memory included."""
        if output_name not in self._outputs:
            hint = suggestion(output_name, self._outputs, f"; there are {self.output_names}")
            raise InputError(f"output {output_name!r} is unknown{hint}")
        if self._results is None:
            raise OrderError("there is no output yet; run a tick first")
        value = self._results[self.output_names.index(output_name)]
        return value.copy() if output_name in self._fed_back.values() else value  # nobody may write to the memory

    def get_actor(self) -> Any:
        """What was handed in as the actor."""
        return self._actor

    @property
    def decimation(self) -> int | None:
        """Ticks per decision, or None if the file does not say."""
        text = self.metadata.get(DECIMATION, "")
        return int(text) if text.isdecimal() and int(text) > 0 else None

    # --- one tick ----------------------------------------------------------------------------------------------------

    def _tick(
        self, verb: str, inputs: Arrays, memory: Mapping[str, Array], given: frozenset[str], count: int
    ) -> list[Array]:
        feed = self._admit(verb, inputs, given)
        for name, value in feed.items():
            check = self._checks.get(name)
            if check is not None and not check(value):
                raise InputError(f"{verb}: input {worst(name, value)}. Nothing was changed")
        if self._fixed and len(memory) + len(given) == len(self._fed_back):
            feed.update(memory)
        else:
            self._start(feed, memory)
        if self._counter is not None:
            self._counter.fill(count)
            feed[STEP_COUNT] = self._counter
        try:
            results: list[Array] = self.session.run(self.output_names, feed)
        except runtime_errors() as error:
            raise BackendError(f"{verb}: ONNX Runtime failed; nothing was changed: {error}") from error
        for index, check in self._result_checks:
            if not check(results[index]):
                name = self.output_names[index]
                raise NonFiniteError(f"{verb}: output {worst(name, results[index])}. Nothing was changed")
        self._results, self._count = results, (count + 1) % self._period
        return results

    def _admit(self, verb: str, inputs: Arrays, given: frozenset[str]) -> dict[str, Array]:
        """The inputs, exactly as the file wants them."""
        if self._fixed and inputs.__class__ is dict and len(inputs) == len(self._plain) + len(given):
            known = self._fast_with_memory if given else self._fast
            for name, value in inputs.items():
                if type(value) is not np.ndarray or (value.dtype, value.shape) != known.get(name):
                    break
            else:
                return dict(inputs)
        ports = [self._inputs[name] for name in (*self._plain, *given)]
        sizes = {} if self._fixed or not isinstance(inputs, Mapping) else sizes_of(ports, inputs)
        return admit(f"{verb}: input", inputs, {port.name: port.slot(sizes) for port in ports})

    def _start(self, feed: dict[str, Array], memory: Mapping[str, Array]) -> None:
        """Add the memory that was not given: what was remembered, or zeros."""
        sizes = sizes_of(self._inputs.values(), feed)
        for name in self._fed_back:
            if name in feed:
                continue
            value = memory.get(name)
            if value is None:
                if name not in self._starts_itself:
                    feed[name] = self._zeros(name, sizes)
                continue
            wanted = self._inputs[name].slot(sizes).shape
            if value.shape != wanted:
                raise InputError(
                    f"input {name!r}: its memory has shape {list(value.shape)}, and these inputs ask for "
                    f"{list(wanted)}; reset before another batch"
                )
            feed[name] = value

    def _zeros(self, name: str, sizes: Mapping[Dim, int]) -> Array:
        """Memory before the first tick."""
        port = self._inputs[name]
        if unknown := port.unknown(sizes):
            raise InputError(f"input {name!r}: no other input says how long its axis {unknown[0]!r} is; give it")
        slot = port.slot(sizes)
        return np.zeros(slot.shape, slot.dtype)

    def _given_count(self, value: Any) -> int:
        where = f"call: input {STEP_COUNT!r}"
        if STEP_COUNT not in self._inputs:
            raise InputError(f"{where} is unknown; there are {self.input_names}")
        array = np.asarray(value)
        if array.dtype.kind not in "iu" or array.shape not in ((), (1,)):
            raise InputError(f"{where}: expected one whole number, got {array.dtype} of shape {list(array.shape)}")
        if not 0 <= int(array.item()) <= _MOST_TICKS:
            raise InputError(f"{where}: expected a count from 0 that int32 can hold, got {array.item()}")
        return int(array.item())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PackageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # what the system says to a path with a NUL in it
        raise PackageError(f"{str(path)!r}: cannot be a path: {error}") from error


def _note(metadata: Mapping[str, str], where: str) -> dict[str, Any] | None:
    """What Ashore noted in a file that it wrote."""
    if NOTE not in metadata:
        return None
    try:
        note = json.loads(metadata[NOTE])
        if isinstance(note["decided"], str) and isinstance(note["manifest"], dict):
            return note
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    raise PackageError(f"{where}: its {NOTE!r} note cannot be read")


def _kept(note: dict[str, Any] | None) -> set[str]:
    """Memory that a reset keeps."""
    states = note["manifest"].get("states", {}) if note else {}
    return {memory_in(name) for name, spec in states.items() if isinstance(spec, dict) and spec.get("reset") == "keep"}


def _initial(note: dict[str, Any] | None, where: str) -> dict[str, Array]:
    """Memory -> what it starts with."""
    found: dict[str, Array] = {}
    try:
        for name, value in (note or {}).get("initial", {}).items():
            found[memory_in(name)] = stored_array(value["dtype"], value["shape"], value["data"])
    except (TypeError, LookupError, ValueError) as error:
        raise PackageError(f"{where}: its {NOTE!r} note cannot be read: initial: {error}") from error
    return found


def _as_many(value: Array, shape: tuple[int, ...]) -> Array:
    """An initial value, with as many rows as there are."""
    return np.ascontiguousarray(np.broadcast_to(value, shape))


def _loose(note: dict[str, Any] | None) -> set[str]:
    """Ports that may hold NaN and infinities."""
    found: set[str] = set()
    for group in ("inputs", "outputs", "states") if note else ():
        for name, spec in note["manifest"].get(group, {}).items():  # type: ignore[index] # asked above
            if isinstance(spec, dict) and spec.get("finite") is False:
                found |= {name} if group != "states" else {memory_in(name), memory_out(name)}
    for output, memory in note.get("held", {}).items() if note else ():
        found |= {memory_in(memory), memory_out(memory)} if output in found else set()
    return found


def _write_optimized(data: bytes, path: Path) -> None:
    """Keep the optimised graph beside the file. A robot that cannot write there runs all the same."""
    folder = path.parent / "debug"
    fresh = not folder.exists()
    ort: Any = importlib.import_module("onnxruntime")
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", dir=folder) as scratch:
            made = Path(scratch) / "optimized.onnx"
            settings = ort.SessionOptions()
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            settings.optimized_model_filepath = str(made)
            settings.log_severity_level = 4
            ort.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
            made.replace(folder / f"{path.stem}_optimized.onnx")
    except (OSError, *runtime_errors()) as error:
        _log.warning("%s: the optimised graph could not be written: %s", path, error)
        if fresh:
            with suppress(OSError):
                folder.rmdir()
