r"""The prompt of a vision-language-action model: a task in words, and for some a state in digits.

The words are those of a template, as in pi0.5: ``Task: {task}, State: {state};\nAction: ``. What a caller writes into
the task is never taken for a part of the template.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array, Arrays, decode_text, encode_text
from ashore.processors.contract import (
    FLOATS,
    Apply,
    Params,
    Read,
    check_value,
    expect,
    expect_axes,
    named,
    nothing_to_do,
    processor_of,
    read_params,
)
from ashore.processors.texts import text_width
from ashore.spec import Stage

_MAX_BINS = 1 << 16
_FIELD = re.compile(r"(\{[^{}]*\}|[{}])")


class PromptParams(Params, frozen=True, kw_only=True):
    """How a prompt is built."""

    template: str = "{task}"
    """Holds ``{task}`` once, and ``{state}`` once if the stage has a state."""

    clean: bool = False
    """Drop blanks around the task, and replace ``_`` and line ends in it by blanks, as pi0.5 does."""

    newline: bool = False
    """End the prompt with a line end where it does not have one, as SmolVLA does."""

    bins: int = 256
    """How many numbers there are for an element of the state."""

    range: tuple[float, float] = (-1.0, 1.0)
    """What they stand for: 0 for the first bin, bins - 1 for the last and all above, -1 for what is below."""


class Prompt(NamedTuple):
    """A stage that builds prompts."""

    params: PromptParams
    parts: tuple[str, ...]
    """The template, cut at its fields."""

    edges: Array | None
    """Where the bins start, float64; None without a state."""

    width: int
    """Of the output, in bytes."""


def prompt(where: str, stage: Stage, read: Read) -> Apply:
    """``task`` [batch, bytes] and, if there is one, ``state`` [batch, D] into ``prompt`` [batch, bytes]."""
    params, parts, edges, width = read_prompt(where, stage)

    def apply(inputs: Arrays) -> Arrays:
        tasks, states = inputs["task"], None if edges is None else digits(inputs["state"], edges)
        prompts: list[str] = []
        for row, data in enumerate(tasks):
            task = decode_text(data, f"{where}: task[{row}]")
            if params.clean:
                task = task.strip().replace("_", " ").replace("\n", " ")
            words = {"{task}": task} if states is None else {"{task}": task, "{state}": states[row]}
            built = "".join(words.get(part, part) for part in parts)
            prompts.append(f"{built}\n" if params.newline and not built.endswith("\n") else built)
        return {"prompt": encode_text(prompts, width, f"{where}: prompt")}

    return apply


def digits(state: Array, edges: Array) -> list[str]:
    """The numbers of the bins of each row, with blanks between them."""
    return [" ".join(map(str, row)) for row in (np.digitize(state, edges) - 1).tolist()]


def read_prompt(where: str, stage: Stage) -> Prompt:
    """Check a stage that is `prompt`."""
    processor_of(where, stage)
    params = read_params(where, stage, PromptParams)
    has_state = "state" in stage.inputs
    ports = named(where, stage, ("task", "state") if has_state else ("task",), ("prompt",))
    rows = ports["task"].shape[0] if ports["task"].shape else None
    text_width(where, "task", ports["task"])
    width = text_width(where, "prompt", ports["prompt"], rows)
    parts = _parts(where, params.template, ("{task}", "{state}") if has_state else ("{task}",))
    if not has_state:
        if (params.template, params.clean, params.newline) == ("{task}", False, False):
            raise nothing_to_do(where, "the prompt is the task as it is")
        return Prompt(params, parts, None, width)
    state = ports["state"]
    expect_axes(where, "state", state, ("batch", "D"))
    expect(where, "state", state, FLOATS, (ports["task"].shape[0], state.shape[1]))
    low, high = params.range
    for bound in (low, high):
        check_value(where, "range", bound, "float64")
    if not low < high:
        raise ManifestError(f"{where}: params: range {list(params.range)} is no range")
    if not 2 <= params.bins <= _MAX_BINS:
        raise ManifestError(f"{where}: params: expected 2 to {_MAX_BINS} bins, got {params.bins}")
    return Prompt(params, parts, np.linspace(low, high, params.bins + 1)[:-1], width)


def _parts(where: str, template: str, fields: tuple[str, ...]) -> tuple[str, ...]:
    """A template, cut at its fields; each has to be there once, and nothing else with braces."""
    parts = tuple(_FIELD.split(template))
    found = [part for part in parts if _FIELD.fullmatch(part)]
    if sorted(found) != sorted(fields):
        raise ManifestError(
            f"{where}: params: template {template!r} has the fields {found}; expected {' and '.join(fields)}, each once"
        )
    return parts
