"""Text as the numbers that a language model knows.

The vocabulary and the rules are a file of the package, ``tokenizer.json``, which the library `tokenizers` reads. It is
imported only when a package has such a stage: a robot that is not spoken to does not need it.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ashore.errors import BackendError, InputError, ManifestError
from ashore.package import Arrays, decode_text
from ashore.processors.contract import Apply, Params, Read, expect, named, processor_of, read_params
from ashore.processors.texts import text_width
from ashore.spec import Stage

_REMEMBERED = 64
"""How many texts are tokenized once only; a task stays the same for whole episodes."""


class TokenizeParams(Params, frozen=True, kw_only=True):
    """How a text becomes a row of tokens."""

    max_length: int
    """The length of a row."""

    pad_id: int
    """The token that fills it up."""

    padding: Literal["max_length", "longest"] = "max_length"
    """``longest`` is refused: the shapes of a package are static. The mask says what is text."""

    padding_side: Literal["left", "right"] = "right"
    truncation: bool = False
    """Whether a longer text is cut. If not, it is an error."""

    truncation_side: Literal["left", "right"] = "right"
    add_special_tokens: bool = True
    """Whether the tokens are added that the file says belong around a text."""


def tokenize(where: str, stage: Stage, read: Read) -> Apply:
    """``text`` [batch, bytes] into ``tokens`` int64 [batch, L] and ``mask`` bool [batch, L], true where text is."""
    params = read_tokenize(where, stage)
    processor = processor_of(where, stage, assets=1)
    tokenizer = _open(where, processor.assets[0], read(processor.assets[0]), params)
    length, start = params.max_length, params.padding_side == "left"

    @lru_cache(_REMEMBERED)
    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=params.add_special_tokens).ids)

    def apply(inputs: Arrays) -> Arrays:
        texts = inputs["text"]
        tokens = np.full((len(texts), length), params.pad_id, np.int64)
        mask = np.zeros((len(texts), length), np.bool_)
        for row, data in enumerate(texts):
            found = ids(decode_text(data, f"{where}: text[{row}]"))
            if len(found) > length:
                raise InputError(
                    f"{where}: text[{row}] has {len(found)} tokens; expected at most {length}; say it "
                    f"shorter, since this package does not cut"
                )
            place = slice(length - len(found), length) if start else slice(0, len(found))
            tokens[row, place], mask[row, place] = found, True
        return {"tokens": tokens, "mask": mask}

    return apply


def read_tokenize(where: str, stage: Stage) -> TokenizeParams:
    """Check a stage that is `tokenize`, but for its asset."""
    processor_of(where, stage, assets=1)
    params = read_params(where, stage, TokenizeParams)
    ports = named(where, stage, ("text",), ("tokens", "mask"))
    text_width(where, "text", ports["text"])
    if params.padding == "longest":
        raise ManifestError(
            f"{where}: params: padding 'longest' would give tokens of any length, and shapes are static; "
            f"use 'max_length', and the mask"
        )
    if params.max_length < 1:
        raise ManifestError(f"{where}: params: expected max_length from 1, got {params.max_length}")
    shape = ports["text"].shape[0], params.max_length
    expect(where, "tokens", ports["tokens"], ("int64",), shape)
    expect(where, "mask", ports["mask"], ("bool",), shape)
    return params


def _open(where: str, path: str, data: bytes, params: TokenizeParams) -> Any:
    """A tokenizer that pads nothing by itself, and cuts only if it is asked to."""
    try:
        library: Any = importlib.import_module("tokenizers")
    except ModuleNotFoundError as error:
        raise BackendError(
            f"{where}: text needs {error.name}, which is not installed; use pip install 'ashore[language]'"
        ) from error
    try:
        tokenizer = library.Tokenizer.from_str(data.decode())
        tokenizer.no_padding()
        if params.truncation:
            tokenizer.enable_truncation(params.max_length, direction=params.truncation_side)
        else:
            tokenizer.no_truncation()
        pad = tokenizer.id_to_token(params.pad_id) if params.pad_id >= 0 else None
        around = tokenizer.num_special_tokens_to_add(False) if params.add_special_tokens else 0
    except Exception as error:  # the library raises nothing narrower
        raise ManifestError(f"{where}: {path}: not a tokenizer that can be used: {error}") from error
    if pad is None:
        raise ManifestError(f"{where}: params: pad_id {params.pad_id} is no token of {path}")
    if around >= params.max_length:
        raise ManifestError(
            f"{where}: params: max_length {params.max_length} leaves no room for text beside {around} special tokens"
        )
    return tokenizer
