"""Everything that can be shown about a package without its environment, in one report.

The replay says whether the files compute what was recorded. The rest is about what a replay cannot see: names and gains
against the contract that the rollout carries, errors that grow, inputs that do nothing, steps that take too long, and,
where it is asked for, inputs that nobody recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ashore.errors import InputError, VerificationError
from ashore.package import Golden, Package
from ashore.runtime import BackendChoice, Policy, load
from ashore.runtime.ranges import Ranges
from ashore.verify.drift import Drift, drift_of, drifts
from ashore.verify.evidence import check_evidence
from ashore.verify.fuzz import Compared, episode, fuzz
from ashore.verify.pace import Pace, paces
from ashore.verify.problems import Problem
from ashore.verify.references import Reference, find_reference
from ashore.verify.replay import Report, backends_of, replay
from ashore.verify.sensitivity import BUDGET_S, Sensitivity, sensitivity


@dataclass
class BackendReport:
    """What was found on one backend."""

    backend: str
    replay: Report
    drift: list[Drift] = field(default_factory=list[Drift])
    pace: list[Pace] = field(default_factory=list[Pace])
    fuzz: Compared | None = None
    episode: Compared | None = None


@dataclass(frozen=True)
class Observed:
    """What an input was in the golden rollout."""

    lowest: float
    highest: float
    unit: bool
    """Whether it always had length 1."""


@dataclass
class Examination:
    """What a verification found."""

    package: str
    problems: list[Problem] = field(default_factory=list[Problem])
    backends: list[BackendReport] = field(default_factory=list[BackendReport])
    sensitivity: Sensitivity = field(default_factory=Sensitivity)
    ranges: dict[str, Observed] = field(default_factory=dict[str, Observed])

    @property
    def passed(self) -> bool:
        """Whether everything agreed within the tolerance, and nothing that was found is an error."""
        replayed = all(one.replay.passed for one in self.backends)
        return replayed and not any(problem.severity == "error" for problem in self.problems)


def examine(
    package: Package,
    *,
    backends: Sequence[BackendChoice] = (None,),
    device: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    steps: int = 0,
    decisions: int = 0,
    seed: int = 0,
    budget_s: float = BUDGET_S,
    advance: Callable[[], None] = lambda: None,
) -> Examination:
    """Verify a package.

    Args:
        package: what to verify.
        backends: what runs the stages, as for `ashore.load`; several are looked at one after the other.
        device: where they run, likewise.
        atol: absolute tolerance, as for `replay`.
        rtol: relative tolerance, likewise.
        steps: decisions of a long episode of the recorded inputs, compared with another way to run the package; 0
            leaves that out.
        decisions: decisions on drawn inputs, compared likewise; 0 leaves that out.
        seed: of what is drawn.
        budget_s: about how long the look at the sensitivity may take.
        advance: called now and then, for a progress bar: after each tick of a replay, and each further decision.
    """
    golden = package.golden()
    if golden is None:
        raise VerificationError(f"{package.path}: the package holds no golden rollout, so there is nothing to compare")
    if not backends:
        raise InputError("verify: backends: expected at least one, or None for those that ashore.load would choose")
    found = Examination(package.manifest.name, problems=check_evidence(package, golden))
    for name, seen in Ranges(golden, package.manifest).items():
        found.ranges[name] = Observed(float(np.min(seen.lowest)), float(np.max(seen.highest)), seen.unit)
    for number, choice in enumerate(backends):
        report = replay(package, golden=golden, backend=choice, device=device, atol=atol, rtol=rtol, advance=advance)
        one = BackendReport(report.backend, report, drifts(report, golden))
        found.backends.append(one)
        found.problems += _drift_problems(one)
        if any(not mismatch.port for mismatch in report.mismatches):
            continue  # it does not even run
        policy = load(package, backend=choice, device=device, batch=report.batch)
        one.pace = paces(policy, golden)
        found.problems += _pace_problems(one)
        if number == 0:
            found.sensitivity = sensitivity(policy, golden, budget_s=budget_s)
            found.problems += _sensitivity_problems(found.sensitivity)
        if steps or decisions:
            _compare(found, one, policy, package, golden, choice, steps, decisions, seed, advance)
    return found


def _compare(
    found: Examination,
    one: BackendReport,
    policy: Policy,
    package: Package,
    golden: Golden,
    choice: BackendChoice,
    steps: int,
    decisions: int,
    seed: int,
    advance: Callable[[], None],
) -> None:
    """Inputs that were not recorded, against another way to run the package."""
    reference, refused = find_reference(package, backends_of(package, choice), batch=one.replay.batch)
    found.problems += [Problem("fuzz", "note", one.backend, f"not compared with {why}") for why in refused]
    if reference is None:
        message = f"{one.backend}: there is no other way to run this package here, so nothing was compared"
        found.problems.append(Problem("fuzz", "warning", one.backend, message))
        return
    found.problems += _compare_with(one, policy, reference, golden, steps, decisions, seed, advance)


def _compare_with(
    one: BackendReport,
    policy: Policy,
    reference: Reference,
    golden: Golden,
    steps: int,
    decisions: int,
    seed: int,
    advance: Callable[[], None],
) -> Iterator[Problem]:
    atol, rtol = one.replay.atol, one.replay.rtol
    if decisions:
        one.fuzz = fuzz(
            policy, reference, golden, decisions=decisions, seed=seed, atol=atol, rtol=rtol, advance=advance
        )
        if one.fuzz.first:
            message = f"{one.backend} on drawn inputs (seed {seed}), {one.fuzz.first}"
            yield Problem("fuzz", "error", one.backend, message)
    if steps:
        one.episode = episode(policy, reference, golden, decisions=steps, atol=atol, rtol=rtol, advance=advance)
        if one.episode.first:
            message = f"{one.backend} over {steps} decisions without a reset, {one.episode.first}"
            yield Problem("episode", "error", one.backend, message)
        for port, errors in one.episode.traces.items():
            drift = drift_of(port, errors, atol)
            if drift.grows:
                message = f"{one.backend} over {steps} decisions: {_grown(drift)}"
                yield Problem("episode", "warning", port, message)


def _drift_problems(one: BackendReport) -> Iterator[Problem]:
    for drift in one.drift:
        if drift.grows and one.replay.passed:
            message = f"{one.backend}, free-running: {_grown(drift)}; try --steps with more decisions"
            yield Problem("drift", "warning", drift.port, message)


def _grown(drift: Drift) -> str:
    return (
        f"the error of {drift.port} grows from {drift.first:.2g} to {drift.last:.2g} within {drift.ticks} ticks of an "
        f"episode"
    )


def _pace_problems(one: BackendReport) -> Iterator[Problem]:
    for pace in one.pace:
        if pace.period_us is None or pace.p99_us <= pace.period_us:
            continue
        slow = pace.p50_us > pace.period_us
        which, value = ("half of the calls take", pace.p50_us) if slow else ("1 in 100 calls takes", pace.p99_us)
        message = (
            f"{one.backend}: {pace.call}: {which} more than {value / 1e3:.4g} ms on this machine, and the next is due "
            f"after {pace.period_us / 1e3:.4g} ms"
        )
        yield Problem("timing", "error" if slow else "warning", pace.call, message)


def _sensitivity_problems(found: Sensitivity) -> Iterator[Problem]:
    for name in found.silent:
        message = f"input {name!r} changes nothing: no output reacts to it; was it frozen by the export?"
        yield Problem("sensitivity", "warning", f"inputs/{name}", message)
    for name, elements in found.silent_elements.items():
        listed = ", ".join(elements[:8]) + (f" and {len(elements) - 8} more" if len(elements) > 8 else "")
        message = f"input {name!r}: {len(elements)} of its elements change nothing: {listed}"
        yield Problem("sensitivity", "warning", f"inputs/{name}", message)
    if found.skipped:
        message = f"whether the inputs {found.skipped} do anything was not looked at, since that takes too long here"
        yield Problem("sensitivity", "note", "inputs", message)
