"""Inputs that nobody recorded: does a backend still compute what another one does?

Each input is drawn from what it was in the golden rollout, element by element, so that the policy is asked things it
could meet. Both sides start every tick from the same state, so a difference is seen where it arises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ashore.errors import AshoreError
from ashore.package import Array, Arrays, Golden
from ashore.runtime import Policy
from ashore.runtime.ranges import Ranges
from ashore.spec import CALLS, NOISE, Manifest, Rate, Wiring
from ashore.verify.references import Reference, run_tick, schedule
from ashore.verify.replay import allowed_error, difference_of, names_of, writer_of

_EPISODE = 25
"""Decisions between two resets."""


@dataclass
class Compared:
    """A backend against a reference on inputs that were not recorded."""

    reference: str
    """What it was compared with."""

    decisions: int
    seed: int
    max_abs_error: dict[str, float] = field(default_factory=dict[str, float])
    """Port -> the largest absolute difference."""

    refused: int = 0
    """Ticks that both refused, such as those with a result that is not finite."""

    first: str = ""
    """The first difference beyond the tolerance, or error of one side; empty if there was none."""

    traces: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Output -> its error in each tick; of an episode only."""


class Sampler:
    """Draws inputs from the ranges of a golden rollout. What has no range, such as a text, is one of the recorded ones.

    Args:
        golden: the rollout.
        manifest: of its package.
        seed: of what is drawn.
    """

    def __init__(self, golden: Golden, manifest: Manifest, seed: int) -> None:
        self._manifest, self._random = manifest, np.random.default_rng(seed)
        self._ranges = Ranges(golden, manifest)
        graph = Wiring(manifest)
        self._names: Mapping[Rate, tuple[str, ...]] = {
            "policy": graph.inputs_of("policy"),
            "substep": graph.inputs_of("substep"),
        }
        self._recorded = {
            name: [np.asarray(tick.inputs[name]) for tick in golden.ticks if name in tick.inputs]
            for name in manifest.inputs
        }

    def draw(self, rate: Rate) -> dict[str, Array]:
        """The inputs of one call."""
        return {name: self._one(name) for name in self._names[rate]}

    def _one(self, name: str) -> Array:
        rows, random = self._recorded[name], self._random
        example = rows[int(random.integers(len(rows)))]
        if self._manifest.inputs[name].kind == NOISE:
            return random.standard_normal(example.shape).astype(example.dtype)
        seen = self._ranges.get(name)
        if seen is None or not (np.isfinite(seen.lowest).all() and np.isfinite(seen.highest).all()):
            return example
        drawn = random.uniform(seen.lowest, seen.highest, example.shape)
        if seen.unit:
            length = np.sqrt(np.square(drawn).sum(-1, keepdims=True))
            drawn = np.where(length > 0, drawn / np.where(length > 0, length, 1), example)
        elif example.dtype.kind in "iu":
            drawn = np.rint(drawn)
        return np.asarray(drawn).astype(example.dtype)


def fuzz(
    policy: Policy,
    reference: Reference,
    golden: Golden,
    *,
    decisions: int,
    seed: int,
    atol: float,
    rtol: float,
    advance: Callable[[], None] = lambda: None,
) -> Compared:
    """Compare a policy with a reference on drawn inputs.

    Args:
        policy: what is verified.
        reference: what it is compared with.
        golden: what the ranges come from.
        decisions: how many to draw inputs for.
        seed: of what is drawn.
        atol: absolute tolerance.
        rtol: relative tolerance.
        advance: called after each decision, for a progress bar.
    """
    manifest = policy.manifest
    found, sampler = Compared(reference.name, decisions, seed), Sampler(golden, manifest, seed)
    done = 0
    for rate in schedule(manifest, decisions):
        if rate == "policy":
            if done % _EPISODE == 0:
                policy.reset()
                reference.policy.reset()
            done += 1
            advance()
        elif not reference.policy.state().decided:  # its decision was refused
            continue
        policy.restore(reference.policy.state())
        _tick(policy, reference, rate, sampler.draw(rate), f"{CALLS[rate]} {done - 1}", found, atol, rtol)
    return found


def episode(
    policy: Policy,
    reference: Reference,
    golden: Golden,
    *,
    decisions: int,
    atol: float,
    rtol: float,
    advance: Callable[[], None] = lambda: None,
) -> Compared:
    """Compare both over one long episode of the recorded inputs, again and again, each with its own state.

    Arguments are those of `fuzz`.
    """
    manifest = policy.manifest
    found = Compared(reference.name, decisions, 0)
    recorded: dict[Rate, list[Arrays]] = {
        rate: [tick.inputs for tick in golden.ticks if tick.rate == rate] for rate in ("policy", "substep")
    }
    counts: dict[Rate, int] = {"policy": 0, "substep": 0}
    policy.reset()
    reference.policy.reset()
    for rate in schedule(manifest, decisions):
        rows = recorded[rate]
        if not rows:  # a rollout of decisions only
            continue
        inputs = rows[counts[rate] % len(rows)]
        if not _tick(policy, reference, rate, inputs, f"{CALLS[rate]} {counts[rate]}", found, atol, rtol, keep=True):
            break
        counts[rate] += 1
        if rate == "policy":
            advance()
    return found


def _tried(policy: Policy, rate: Rate, inputs: Arrays) -> Arrays | AshoreError:
    try:
        return run_tick(policy, rate, inputs)
    except AshoreError as error:
        return error


def _tick(
    policy: Policy,
    reference: Reference,
    rate: Rate,
    inputs: Arrays,
    label: str,
    found: Compared,
    atol: float,
    rtol: float,
    *,
    keep: bool = False,
) -> bool:
    """Run both, and note how far they are apart; whether both ran."""
    wanted, got = _tried(reference.policy, rate, inputs), _tried(policy, rate, inputs)
    if isinstance(wanted, AshoreError) or isinstance(got, AshoreError):
        if isinstance(wanted, AshoreError) and isinstance(got, AshoreError):
            found.refused += 1
        elif not found.first:
            who = reference.name if isinstance(wanted, AshoreError) else "the package"
            found.first = f"{label}: only {who} refused it: {wanted if isinstance(wanted, AshoreError) else got}"
        return False
    pairs = {f"outputs/{name}": (value, got[name]) for name, value in wanted.items()}
    ours = policy.state()
    pairs |= {f"states/{name}": (value, ours[name]) for name, value in reference.policy.state().items()}
    for port, (theirs, mine) in pairs.items():
        difference = difference_of(np.asarray(theirs), np.asarray(mine))
        error = float(difference.max(initial=0.0))
        found.max_abs_error[port] = max(found.max_abs_error.get(port, 0.0), error)
        if keep and port.startswith("outputs/"):
            found.traces.setdefault(port, []).append(error)
        wrong = difference > allowed_error(np.asarray(theirs), atol, rtol)
        if wrong.any() and not found.first:
            at = tuple(int(one) for one in np.argwhere(wrong)[0])
            names = names_of(policy.manifest, port)
            element = f"{list(at)}" + (f" ({names[at[-1]]})" if names and at else "")
            stage = writer_of(policy.manifest, port)
            found.first = (
                f"{label}: {port}{element} of stage {stage!r}: {reference.name} gives {theirs[at].item()!r}, "
                f"got {mine[at].item()!r}"
            )
    return True
