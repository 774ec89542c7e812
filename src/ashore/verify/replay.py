"""Replaying a golden rollout through the saved artifacts: does the package still compute what the environment did?

Twice over. *Stepwise*, each tick starts from the recorded state, so an error is seen where it arises. *Free-running*,
only the resets are taken from the recording, so errors may add up as they would on the robot. Outputs and states are
compared both times. Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ashore.errors import AshoreError, InputError, VerificationError
from ashore.package import Array, Arrays, Golden, Package, Tick, batch_of
from ashore.runtime import BackendChoice, Policy, Snapshot, backend_name, default_backend, load, whole_backend
from ashore.spec import CALLS, Endpoint, Manifest, Wiring
from ashore.verify.hints import hint

Mode = Literal["stepwise", "free_running"]
MODES: tuple[Mode, ...] = ("stepwise", "free_running")
DEFAULT_ATOL = 1e-5
DEFAULT_RTOL = 1e-5


@dataclass(frozen=True)
class Mismatch:
    """The first element of an array that differs too much in a tick, or the error that stopped the replay there."""

    mode: Mode
    tick: int
    call: str
    """``"step 3"`` or ``"substep 12"``, counted from 0 over the rollout."""

    port: str
    """``"outputs/action"`` or ``"states/h"``; empty for an error."""

    element: str
    expected: float | int | bool | None
    got: float | int | bool | None
    message: str
    stage: str = ""
    """The stage that writes it."""


@dataclass(frozen=True)
class Trace:
    """How far a port was off, tick by tick."""

    ticks: list[int]
    """Numbers of the ticks that wrote it."""

    errors: list[float]
    """The largest absolute difference of any of its elements in each of them."""


@dataclass
class Report:
    """What a replay found."""

    package: str
    backend: str
    batch: int
    steps: int
    substeps: int
    resets: int
    atol: float
    rtol: float
    tolerance_from: Literal["default", "package", "caller"]
    """Who chose the tolerance: a package may ask for a looser one than the default."""

    max_abs_error: dict[Mode, dict[str, float]] = field(default_factory=lambda: {mode: {} for mode in MODES})
    """Mode -> port -> the largest absolute difference in the rollout."""

    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])
    traces: dict[Mode, dict[str, Trace]] = field(default_factory=lambda: {mode: {} for mode in MODES})
    """Mode -> port -> its error in every tick."""

    @property
    def passed(self) -> bool:
        """Whether everything agreed within the tolerance."""
        return not self.mismatches

    def worst(self, mode: Mode) -> float:
        """The largest absolute difference of a mode, over all ports."""
        return max(self.max_abs_error[mode].values(), default=0.0)


def replay(
    package: Package,
    *,
    golden: Golden | None = None,
    backend: BackendChoice = None,
    device: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Report:
    """Run the golden rollout of a package through its saved artifacts.

    Args:
        package: what to verify.
        golden: another rollout than the one in the package.
        backend: what runs the stages, as for `ashore.load`.
        device: where they run, likewise.
        atol: absolute tolerance; by default the one the package was verified with when it was written, else 1e-5.
        rtol: relative tolerance, likewise.
        advance: called after each tick of each mode, for a progress bar.

    Returns:
        The largest differences, and for each mode the first tick in which something differed too much.
    """
    manifest, golden = package.manifest, package.golden() if golden is None else golden
    if golden is None:
        raise VerificationError(f"{package.path}: the package holds no golden rollout, so there is nothing to compare")
    for name, given in (("atol", atol), ("rtol", rtol)):
        if given is not None and not 0.0 <= given < math.inf:
            raise InputError(f"verify: {name}: expected a number from 0, got {given}")
    recorded = manifest.verification
    proven = recorded is not None and recorded.status == "passed"
    batch = batch_of(golden, manifest)
    report = Report(
        package=manifest.name,
        backend=_backends(package, backend),
        batch=batch,
        steps=golden.count("policy"),
        substeps=golden.count("substep"),
        resets=golden.resets,
        atol=_first(atol, recorded.atol if recorded and proven else None, DEFAULT_ATOL),
        rtol=_first(rtol, recorded.rtol if recorded and proven else None, DEFAULT_RTOL),
        tolerance_from="caller" if (atol, rtol) != (None, None) else "package" if proven else "default",
    )
    policy = load(package, backend=backend, device=device, batch=batch)
    begin = policy.state()
    for mode in MODES:
        policy.restore(begin)
        _Replay(policy, golden, report, mode).run(advance)
    return report


def backends_of(package: Package, choice: BackendChoice) -> dict[str, str]:
    """Stage -> the backend that it runs on; stages without artifacts are left out, but where one backend runs all."""
    if whole := whole_backend(package, choice):
        return dict.fromkeys(package.manifest.stages, whole)
    used: dict[str, str] = {}
    for name, stage in package.manifest.stages.items():
        if stage.artifacts:
            asked = choice if isinstance(choice, str) else (choice or {}).get(name)
            used[name] = (
                default_backend(f"{package.path}: stage {name!r}", stage) if asked is None else backend_name(asked)
            )
    return used


def _backends(package: Package, choice: BackendChoice) -> str:
    """What the stages run on: one name if all run on the same, else ``stage: name`` for each."""
    used = backends_of(package, choice)
    names = set(used.values())
    return names.pop() if len(names) == 1 else ", ".join(f"{stage}: {name}" for stage, name in used.items())


class _Replay:
    """One pass over a rollout in one mode."""

    def __init__(self, policy: Policy, golden: Golden, report: Report, mode: Mode) -> None:
        self._policy, self._golden, self._report = policy, golden, report
        self._mode: Mode = mode
        self._before: Arrays = policy.state()
        self._counts = {"step": 0, "substep": 0}

    def run(self, advance: Callable[[], None]) -> None:
        for tick in self._golden.ticks:
            call = CALLS[tick.rate]
            label = f"{call} {self._counts[call]}"
            self._counts[call] += 1
            try:
                outputs = self._tick(tick, call)
            except AshoreError as error:
                self._report.mismatches.append(Mismatch(self._mode, tick.index, label, "", "", None, None, str(error)))
                return
            found = [
                *self._compare(tick, label, "outputs", tick.outputs, outputs),
                *self._compare(tick, label, "states", tick.states, self._policy.state()),
            ]
            advance()
            self._before = tick.states
            if found and not any(mismatch.mode == self._mode for mismatch in self._report.mismatches):
                self._report.mismatches.extend(found)

    def _tick(self, tick: Tick, call: str) -> dict[str, Array]:
        policy = self._policy
        if self._mode == "stepwise":
            policy.restore(Snapshot(self._before, decided=policy.state().decided))
        if tick.reset:
            policy.reset()
        return policy.step(tick.inputs) if call == "step" else policy.substep(tick.inputs)

    def _compare(self, tick: Tick, label: str, group: str, expected: Arrays, got: Arrays) -> list[Mismatch]:
        found: list[Mismatch] = []
        worst = self._report.max_abs_error[self._mode]
        for name, wanted in expected.items():
            port = f"{group}/{name}"
            difference = difference_of(wanted, got[name])
            error = float(difference.max(initial=0.0))
            worst[port] = max(worst.get(port, 0.0), error)
            trace = self._report.traces[self._mode].setdefault(port, Trace([], []))
            trace.ticks.append(tick.index)
            trace.errors.append(error)
            if error <= (self._report.atol if wanted.dtype.kind == "f" else 0.0):
                continue  # within what is allowed for any number
            allowed = allowed_error(wanted, self._report.atol, self._report.rtol)
            wrong = difference > allowed
            if wrong.any():
                found.append(self._mismatch(tick, label, port, wrong, wanted, got[name], allowed))
        return found

    def _mismatch(
        self, tick: Tick, label: str, port: str, wrong: Array, wanted: Array, got: Array, allowed: Array
    ) -> Mismatch:
        index = tuple(int(part) for part in np.argwhere(wrong)[0])
        names = names_of(self._policy.manifest, port)
        element = f"{list(index)}" + (f" ({names[index[-1]]})" if names and index else "")
        expected, found = wanted[index].item(), got[index].item()
        stage = writer_of(self._policy.manifest, port)
        more = [f"stage {stage!r}"] if len(self._policy.manifest.stages) > 1 else []
        more += [f"{wrong.sum()} of {wrong.size} elements differ"] if wrong.sum() > 1 else []
        said = hint(wanted, got, allowed, names)
        message = f"{label}: {port}{element}: expected {expected!r}, got {found!r}"
        message += f" ({', '.join(more)}{f': {said}' if said else ''})" if more else ""
        return Mismatch(self._mode, tick.index, label, port, element, expected, found, message, stage)


def allowed_error(wanted: Array, atol: float, rtol: float) -> Array:
    """How far each element may be off: nothing for whole numbers, and for infinities."""
    if wanted.dtype.kind != "f":
        return np.zeros(wanted.shape)
    with np.errstate(invalid="ignore"):
        allowed = atol + rtol * np.abs(wanted.astype(np.float64))
    return np.where(np.isfinite(allowed), allowed, 0.0)


def _first(*choices: float | None) -> float:
    return next(choice for choice in choices if choice is not None)


def difference_of(wanted: Array, got: Array) -> Array:
    """Absolute differences, as float64; infinite where one of the two is NaN or an infinity and the other is not."""
    same = (wanted == got) | ((wanted != wanted) & (got != got))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(wanted.astype(np.float64) - got.astype(np.float64))
    # Large integers may differ by less than a float64 can show.
    difference = np.where(np.isnan(difference), np.inf, np.maximum(difference, np.finfo(np.float64).tiny))
    return np.where(same, 0.0, difference)


def names_of(manifest: Manifest, port: str) -> tuple[str, ...] | None:
    """The names of the elements of ``outputs/x`` or ``inputs/x``; of a state, those of an output that it becomes."""
    group, _, name = port.partition("/")
    if group in ("outputs", "inputs"):
        declared = getattr(manifest, group).get(name)
        return declared.element_names[-1] if declared is not None and declared.element_names else None
    graph = Wiring(manifest)
    ends = [end for source in graph.into(Endpoint(group, name)) for end in graph.out_of(source)]
    outputs = [str(end) for end in ends if end.group == "outputs"]
    same = [one for one in outputs if manifest.outputs[one.partition("/")[2]].shape == manifest.states[name].shape]
    return names_of(manifest, same[0]) if same else None


def writer_of(manifest: Manifest, port: str) -> str:
    """The stages that write ``outputs/x`` or ``states/x``."""
    group, _, name = port.partition("/")
    return " and ".join(sorted({source.group for source in Wiring(manifest).into(Endpoint(group, name))}))
