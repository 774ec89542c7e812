from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

import support
from ashore.errors import BackendError, InputError, ManifestError
from ashore.package import encode_text
from ashore.runtime import load
from ashore.spec import Stage
from processing import count, make, port, stage, text, write_stage

WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", "cube", "red", "the", "up", "pick"]


def tokenizer_json(**changes: Any) -> bytes:
    """A tokenizer of whole words, trained here: the more often a word stood in the text, the lower its number."""
    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=WORDS[:4], show_progress=False)
    made.train_from_iterator([" ".join([word] * (9 - index)) for index, word in enumerate(WORDS[4:])], trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
    )
    if changes:
        made.enable_padding(length=64, pad_id=3)
        made.enable_truncation(2)
    return made.to_str().encode()


def tokenizing(length: int = 6, shape: Any = None, mask: Any = None, task: Any = None, **params: Any) -> Stage:
    outputs = {"tokens": shape or count("batch", length), "mask": mask or port("batch", length, dtype="bool")}
    params = {"max_length": length, "pad_id": 0} | params
    return stage("tokenize", {"text": task or text(40)}, outputs, **{"assets": ("tokenizer.json",)} | params)


def tokens(made: Stage, *texts: str, asset: bytes | None = None) -> tuple[list[Any], list[Any]]:
    result = make(made, asset or tokenizer_json())({"text": encode_text(texts, 40)})
    assert result["tokens"].dtype == np.int64
    assert result["mask"].dtype == np.bool_
    return result["tokens"].tolist(), result["mask"].astype(int).tolist()


@pytest.mark.parametrize("texts", [("pick up",), ("pick up", "the red cube", "")])
def test_rows_are_filled_up_and_the_mask_says_where_text_is(texts: tuple[str, ...]) -> None:
    expected = [[1, 8, 7, 2, 0, 0], [1, 6, 5, 4, 2, 0], [1, 2, 0, 0, 0, 0]][: len(texts)]
    mask = [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]][: len(texts)]
    assert tokens(tokenizing(), *texts) == (expected, mask)


def test_params_decide_on_side_and_special_tokens_and_what_is_not_known_has_its_own_number() -> None:
    made = tokenizing(padding_side="left", add_special_tokens=False, pad_id=3)
    assert tokens(made, "pick the apple") == ([[3, 3, 3, 8, 6, 3]], [[0, 0, 0, 1, 1, 1]])


def test_what_is_too_long_is_cut_only_if_asked_to() -> None:
    long = "pick up the red cube"
    assert tokens(tokenizing(5, truncation=True), long)[0] == [[1, 8, 7, 6, 2]]
    assert tokens(tokenizing(5, truncation=True, truncation_side="left"), long)[0] == [[1, 6, 5, 4, 2]]
    assert tokens(tokenizing(5, truncation=True, add_special_tokens=False), long)[0] == [[8, 7, 6, 5, 4]]
    with pytest.raises(InputError, match=r"here: text\[1\] has 7 tokens; expected at most 5; say it shorter"):
        tokens(tokenizing(5), "pick", long)


def test_what_the_file_says_about_length_is_not_followed() -> None:
    assert tokens(tokenizing(), "pick up the red", asset=tokenizer_json(length=True))[0] == [[1, 8, 7, 6, 5, 2]]


def test_the_same_text_gives_the_same_tokens_however_often() -> None:
    apply = make(tokenizing(), tokenizer_json())
    rows = encode_text(["pick up", "the cube"], 40)
    first = apply({"text": rows})
    for _ in range(3):
        first["tokens"][:] = -1  # the caller's own
        np.testing.assert_array_equal((first := apply({"text": rows}))["tokens"][:, 1], [8, 6])


def test_a_package_that_is_told_too_much_says_so(tmp_path: Path) -> None:
    package = write_stage(tmp_path / "p", tokenizing(4), {}, {"tokenizer.json": tokenizer_json()})
    policy = load(package, batch=2)
    np.testing.assert_array_equal(policy.step({"text": encode_text(["up", "pick up"], 40)})["tokens"][1], [1, 8, 7, 2])
    with pytest.raises(InputError, match=r"stage 'stage': text\[0\] has 5 tokens; expected at most 4"):
        policy.step({"text": encode_text(["pick up cube", "up"], 40)})


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(BackendError, match=r"here: text needs tokenizers, .* use pip install 'ashore\[language\]'"):
        make(tokenizing(), b"{}")


def test_the_library_is_imported_only_by_a_stage_that_needs_it() -> None:
    done = support.run_python(
        "import sys, ashore, ashore.processors, ashore.runtime; print('tokenizers' in sys.modules)"
    )
    assert done.stdout == "False\n", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("made", "asset", "message"),
    [
        (
            tokenizing(padding="longest"),
            None,
            "'longest' would give tokens of any length, and shapes are static; use 'max",
        ),
        (tokenizing(padding="none"), None, "Invalid enum value 'none'"),
        (tokenizing(pad_id=9), None, "pad_id 9 is no token of tokenizer.json"),
        (tokenizing(pad_id=-1), None, "pad_id -1 is no token"),
        (tokenizing(2), None, "max_length 2 leaves no room for text beside 2 special tokens"),
        (tokenizing(max_length=0), None, "expected max_length from 1, got 0"),
        (tokenizing(max_length=7), None, r"'tokens' is int64 \['batch', 6\]; expected int64 \['batch', 7\]"),
        (tokenizing(shape=port("batch", 6, dtype="int32")), None, "'tokens' is int32 .* expected int64"),
        (tokenizing(mask=count("batch", 6)), None, r"'mask' is int64 .* expected bool \['batch', 6\]"),
        (tokenizing(task=text(40, 1)), None, r"'tokens' is int64 \['batch', 6\]; expected int64 \[1, 6\]"),
        (tokenizing(task=port("batch", 6)), None, "'text' is float32 .* expected uint8"),
        (tokenizing(assets=()), None, r"expected 1 asset, got \[\]"),
        (tokenizing(), b"{}", "here: tokenizer.json: not a tokenizer that can be used: "),
        (tokenizing(), b"\xff", "not a tokenizer that can be used: .*invalid start byte"),
        (
            stage("tokenize", {"text": text(4)}, {"tokens": count(1)}, ("a",), max_length=1, pad_id=0),
            None,
            "the outputs",
        ),
    ],
)
def test_what_does_not_fit_is_refused(made: Stage, asset: bytes | None, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        make(made, asset or tokenizer_json())
