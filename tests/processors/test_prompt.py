from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import InputError, ManifestError
from ashore.package import decode_text, encode_text
from ashore.runtime import load
from ashore.spec import Stage
from processing import make, port, stage, text, write_stage

PI05 = {"template": "Task: {task}, State: {state};\nAction: ", "clean": True}
SMOLVLA = {"newline": True}
STATE = port("batch", 4)


def prompting(state: Any = STATE, task: Any = None, out: Any = None, **params: Any) -> Stage:
    inputs = {"task": task or text(40)} | ({"state": state} if state else {})
    return stage("prompt", inputs, {"prompt": out or text(80)}, **params)


def prompts(made: Stage, tasks: list[str], state: Any = None) -> list[str]:
    inputs = {"task": encode_text(tasks, 40)} | ({} if state is None else {"state": np.float32(state)})
    return [decode_text(row) for row in make(made)(inputs)["prompt"]]


def bin_of(value: float) -> int:
    """The last of 256 equal bins from -1 to 1 that starts at or below a value; -1 below them all."""
    return max([index for index in range(256) if -1 + index / 128 <= value], default=-1)


def test_the_prompt_of_pi05_has_the_task_and_the_bins_of_the_state() -> None:
    """Recorded from LeRobot's Pi05PrepareStateTokenizerProcessorStep."""
    tasks = [" pick_up the\nred cube ", "push", "état"]
    state = [[-1, 0, 1, 0.5], [-1.5, 2, -0.999, 0.0078125], [0.99218, 0.9921875, -0.0001, 0]]
    assert prompts(prompting(**PI05), tasks, state) == [
        "Task: pick up the red cube, State: 0 128 255 192;\nAction: ",
        "Task: push, State: -1 255 0 129;\nAction: ",
        "Task: état, State: 254 255 127 128;\nAction: ",
    ]


@given(st.lists(st.floats(-2, 2, width=32), min_size=4, max_size=4))
def test_every_element_is_named_by_its_bin(state: list[float]) -> None:
    numbers = " ".join(str(bin_of(value)) for value in state)
    assert prompts(prompting(template="{state}|{task}"), ["x"], [state]) == [f"{numbers}|x"]


def test_bins_and_range_are_what_is_asked_for() -> None:
    made = prompting(template="{task} {state}", bins=4, range=[0, 8])
    assert prompts(made, ["x"], [[0, 1.9, 2, 7.9]]) == ["x 0 0 1 3"]


def test_smolvla_gets_a_line_end_where_there_is_none() -> None:
    tasks = ["pick_up", "pick up\n", "", " a\n\n"]
    assert prompts(prompting(None, **SMOLVLA), tasks) == ["pick_up\n", "pick up\n", "\n", " a\n\n"]


def test_what_looks_like_a_field_in_a_task_stays_as_it_is() -> None:
    assert prompts(prompting(None, template="<{task}>"), ["{state} {task} {0}"]) == ["<{state} {task} {0}>"]


def test_what_a_caller_got_wrong_is_told_and_nothing_is_cut(tmp_path: Path) -> None:
    policy = load(write_stage(tmp_path / "p", prompting(None, out=text(8), template="Do {task}"), {}), batch=2)
    with pytest.raises(InputError, match=r"stage 'stage': prompt\[1\]: expected at most 8 bytes of UTF-8, got 9"):
        policy.step({"task": encode_text(["abcde", "abcdef"], 40)})
    with pytest.raises(InputError, match=r"stage 'stage': task\[0\]: expected UTF-8"):
        policy.step({"task": np.full((2, 40), 0xFF, np.uint8)})
    assert decode_text(policy.step({"task": encode_text(["a", "abcde"], 40)})["prompt"][1]) == "Do abcde"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (prompting(None), "the prompt is the task as it is, so the stage would touch nothing"),
        (
            prompting(template="{task}"),
            r"template '\{task\}' has the fields \['\{task\}'\]; expected \{task\} and \{state\}",
        ),
        (prompting(None, template="{task} {state}"), r"expected \{task\}, each once"),
        (prompting(None, template="{task} {task}"), "each once"),
        (prompting(None, template="go {task} {speed}"), r"has the fields \['\{task\}', '\{speed\}'\]"),
        (prompting(None, template="{task} {"), r"has the fields \['\{task\}', '\{'\]"),
        (prompting(None, template="go"), "each once"),
        (prompting(None, templates="go"), "unknown field `templates`"),
        (prompting(**PI05, bins=1), "expected 2 to 65536 bins, got 1"),
        (prompting(**PI05, bins=10**9), "expected 2 to 65536 bins"),
        (prompting(**PI05, range=[1, -1]), r"range \[1.0, -1.0\] is no range"),
        (prompting(port(1, 4), **PI05), r"'state' is float32 \[1, 4\]; .* \['batch', 4\]"),
        (prompting(port("batch", 2, 4), **PI05), r"'state' has the shape \['batch', 2, 4\]; expected \[batch, D\]"),
        (prompting(port("batch", 4, dtype="int64"), **PI05), "'state' is int64 .* expected float32 or float64"),
        (prompting(None, port("batch", 40), **SMOLVLA), "'task' is float32 .* expected uint8"),
        (prompting(None, port(dtype="uint8"), **SMOLVLA), r"'task' has the shape \[\]; expected \[batch, bytes\]"),
        (prompting(None, port(2, "batch", dtype="uint8"), **SMOLVLA), "expected the batch axis first"),
        (prompting(None, out=text(80, 1), **SMOLVLA), r"'prompt' is uint8 \[1, 80\]; expected uint8 \['batch', 80\]"),
        (stage("prompt", {"text": text(4)}, {"prompt": text(4)}), r"expected the inputs \['task'\], got \['text'\]"),
        (prompting(None, newline=True, assets=("x",)), "expected no assets"),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made)
