"""From an actor to a package: it decides for a few episodes, and what it computes is recorded.

There is no environment, so observations are drawn, at the scale that the normaliser has seen; or they are given.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from ashore.actor.actors import Actor, Tensors
from ashore.actor.examples import Examples
from ashore.actor.noise import standard_normal
from ashore.actor.normalisers import Found, describe, find_normalizers
from ashore.actor.recognition import as_actor, as_examples
from ashore.actor.rest import at_rest, check_weights
from ashore.capture.contract import PortInfo
from ashore.capture.export import export
from ashore.capture.findings import Finding
from ashore.capture.options import ExportOptions, check_name
from ashore.capture.session import Session
from ashore.errors import InputError
from ashore.package import Package

NODE, ACTIONS, SEED = "policy", "actions", "seed"
_EPISODES = (4, 4, 4)
_ROWS = 5
"""How many are recorded for a batch of any length: lengths in the code that are that of the batch stand out."""

_IDLE = 1e-6
"""What a normaliser has to change, at least, for its absence to be noticed."""


def export_actor(
    actor: Any,
    out: str | os.PathLike[str],
    *,
    normalizer: Any = None,
    example_obs: Any = None,
    stochastic: bool = False,
    clip_actions: float | Sequence[float] | None = None,
    num_actions: int | None = None,
    **options: Any,
) -> Package:
    """Write the package of a trained actor. It is left as it was: mode, device, hidden state.

    Args:
        actor: an actor-critic, a model, a policy, an agent or a module; see `as_actor`.
        out: the directory of the package, or a path that ends in ``.ashore``.
        normalizer: what the trainer applies to observations before they reach the actor; its own need not be said.
        example_obs: rows of observations, a tensor or one for each input by name. Without it, they are drawn.
        stochastic: whether actions are drawn, by an input ``seed``, int64 of shape [rows].
        clip_actions: the limit that the wrapper of the environment puts on actions, or its lower and upper limit.
        num_actions: how many actions there are, to be checked.
        options: see `ashore.capture.options.ExportOptions`; ``batch="dynamic"`` takes any number of rows.

    Returns:
        The package, after the saved files were checked against what the actor decided.
    """
    target = Path(out)
    check_name(target.name)
    found = as_actor(actor, normalizer=normalizer, example_obs=example_obs, num_actions=num_actions)
    if options.get("batch") == "one":
        options["batch"] = "recorded"  # of one row
    settings = ExportOptions.of({"tools": found.tools, **options})
    check_weights(found.modules)
    rows = _ROWS if settings.batch == "dynamic" else 1
    recorder = _Recorder(found, as_examples(example_obs), rows, stochastic, _limits(clip_actions) or found.clip_actions)
    with at_rest(found.modules), torch.no_grad(), found.prepared():
        recorder.run(num_actions)
        normalizers, findings = recorder.normalizers()
        about = {
            "trainer": found.trainer,
            "architecture": recorder.architecture(),
            "head": "stochastic" if stochastic else "deterministic",
            **found.about,
            "clip_actions": recorder.limits,
            "normalizers": normalizers,
        }
        settings = ExportOptions.of(
            {
                "tools": found.tools,
                **options,
                "findings": [*settings.findings, *findings],
                "metadata": {**settings.metadata, "actor": about},
            }
        )
        return cast("Package", export(recorder.session, target.name, target, settings))  # there is a target


class _Recorder:
    """Lets an actor decide, and listens."""

    def __init__(
        self,
        actor: Actor,
        examples: Mapping[str, torch.Tensor] | None,
        rows: int,
        stochastic: bool,
        limits: tuple[float, float] | None,
    ) -> None:
        self.session = Session()
        self.session.nodes = [NODE]
        self._actor, self._rows, self._stochastic, self.limits = actor, rows, stochastic, limits
        self._found = find_normalizers(actor.modules)
        self._examples = Examples(actor, examples, self._found, rows)

    def run(self, num_actions: int | None) -> None:
        """Record the episodes."""
        actor, session, dones = self._actor, self.session, torch.ones(self._rows, dtype=torch.bool)
        self._try_once(num_actions)
        actor.forget(None)
        session.start()
        try:
            for episode, steps in enumerate(_EPISODES):
                if episode:
                    session.mark_reset()
                    actor.forget(dones)
                for _ in range(steps):
                    inputs = self._draw()
                    session.begin_step()
                    for name, value in inputs.items():
                        session.declare_input((NODE, name), value, PortInfo(kind=_kind(name)))
                    actions = self._decide(inputs)
                    for name, value in actor.hidden().items():
                        session.name_tensor(name, value)
                    session.declare_output((NODE, ACTIONS), actions, PortInfo(kind="action"))
                    session.end_step()
        finally:
            session.stop()

    def normalizers(self) -> tuple[list[dict[str, Any]], list[Finding]]:
        """What is said about each normaliser, and what is wrong with them."""
        read, told, findings = self._read(), list[dict[str, Any]](), list[Finding]()
        for one in self._found:
            if not read & {id(buffer) for buffer in one.module.buffers()}:
                message = f"the normaliser {one.name} belongs to the actor, and deciding does not use it"
                findings.append(Finding("lost_normalizer", message, tensor=one.name))
                continue
            effect = self._effect(one)
            if effect < _IDLE:
                message = f"leaving out the normaliser {one.name} changes no action by more than {effect:.1g}"
                findings.append(Finding("idle_normalizer", message, tensor=one.name))
            told.append({**describe(one), "effect": effect})
        return told, findings

    def architecture(self) -> str:
        """What the actor is made of, of all that its modules have: that which it used."""
        read, used = self._read(), list[str]()
        for kind, name in _KINDS:
            for top in self._actor.modules.values():
                parts = [one for one in top.modules() if isinstance(one, kind)]
                if any(read & {id(weight) for weight in part.parameters()} for part in parts):
                    used.append(name)
                    break
        return " + ".join(used) or "none"

    def _try_once(self, num_actions: int | None) -> None:
        """See that it decides at all, before anything is recorded."""
        inputs = self._draw()
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
        self._actor.forget(None)
        try:
            actions = self._decide(inputs)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(
                f"the actor cannot decide on {shapes}: {reason}; give example_obs as it takes it"
            ) from error
        if not isinstance(actions, torch.Tensor) or actions.dim() == 0 or len(actions) != self._rows:
            got = list(actions.shape) if isinstance(actions, torch.Tensor) else type(actions).__name__
            raise InputError(f"the actor gives {got} on {shapes}; expected a tensor with an action for each row")
        width = actions.shape[-1] if actions.dim() > 1 else 1
        if width == 1 and num_actions is None and self._actor.could_value and actions.is_floating_point():
            raise InputError(
                "this module gives one number and has no distribution, as a critic does; export the actor, or say "
                "num_actions=1 (--num-actions) if it decides on one action"
            )
        if num_actions is not None and width != num_actions:
            raise InputError(f"num_actions: expected {num_actions}, the actor gives {width}")
        if self._examples.given and not bool(actions.isfinite().all()):
            raise InputError(f"the actor gives actions that are not finite on the example: {actions.tolist()}")

    def _draw(self) -> dict[str, torch.Tensor]:
        inputs = self._examples.draw()
        return inputs | ({SEED: self._examples.seeds()} if self._stochastic else {})

    def _decide(self, inputs: Tensors) -> torch.Tensor:
        if not self._stochastic:
            return self._clipped(self._actor.decide(inputs))
        spread = self._actor.spread({name: value for name, value in inputs.items() if name != SEED})
        if spread is None:
            raise InputError(
                f"stochastic: of this actor ({self._actor.about.get('output', self._actor.trainer)}) no mean and "
                "standard deviation are known; leave stochastic out"
            )
        drawn = spread.mean + spread.std * standard_normal(inputs[SEED], spread.mean.shape[-1])
        return self._clipped(spread.finish(drawn))

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        if self.limits is None:
            return actions
        if not actions.is_floating_point():
            raise InputError(
                f"clip_actions: the actor gives {actions.dtype} actions, which have no limits; leave it out"
            )
        return torch.clamp(actions, *self.limits)

    def _effect(self, one: Found) -> float:
        """What leaving out a normaliser changes, at most, in a few decisions."""
        kept, worst = [self._draw() for _ in range(2)], 0.0
        for inputs in kept:
            self._actor.forget(None)
            right = self._decide({name: value.clone() for name, value in inputs.items()}).double()
            hook = one.module.register_forward_hook(lambda _, given, __: given[0])
            try:
                self._actor.forget(None)
                worst = max(worst, float((self._decide(inputs).double() - right).abs().max()))
            finally:
                hook.remove()
        return worst

    def _read(self) -> set[int]:
        """Ids of the tensors that the recorded steps read and did not make."""
        return {id(one.tensor) for step in self.session.steps for one in step.tape.captures.values()}


_KINDS: tuple[tuple[type[torch.nn.Module] | tuple[type[torch.nn.Module], ...], str], ...] = (
    ((torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d), "CNN"),
    (torch.nn.MultiheadAttention, "transformer"),
    (torch.nn.LSTM, "LSTM"),
    (torch.nn.GRU, "GRU"),
    (torch.nn.Linear, "MLP"),
)


def _kind(name: str) -> str | None:
    return None if name == SEED else "observation"


def _limits(clip: float | Sequence[float] | None) -> tuple[float, float] | None:
    if clip is None:
        return None
    low, high = (-clip, clip) if isinstance(clip, int | float) else tuple(clip)
    if not -math.inf < low < high < math.inf:
        raise InputError(f"clip_actions: expected a positive limit, or a lower and an upper one, got {clip!r}")
    return float(low), float(high)
