"""The page on the format has every processor, with its parameters."""

from __future__ import annotations

import re

import pytest

from ashore.processors import PROCESSORS
from ashore.processors.contract import Params
from ashore.processors.image import ImageParams
from ashore.processors.normalize import NormalizeParams
from ashore.processors.pad import PadParams
from ashore.processors.prompt import PromptParams
from ashore.processors.relative import RelativeParams
from ashore.processors.resize import ResizeWithPadParams
from ashore.processors.slice import SliceParams
from ashore.processors.temporal_ensemble import TemporalEnsembleParams
from ashore.processors.tokenize import TokenizeParams
from docs.pages import DOCS

PAGE = (DOCS / "format.md").read_text()
ROWS = dict(re.findall(r"^\| \[`(\w+)`\]\(#\S+\) \| (.*?) ?\|", PAGE, re.MULTILINE))
PARAMS: dict[str, type[Params]] = {
    "absolute_actions": RelativeParams,
    "denormalize": NormalizeParams,
    "image": ImageParams,
    "normalize": NormalizeParams,
    "pad": PadParams,
    "prompt": PromptParams,
    "relative_actions": RelativeParams,
    "resize_with_pad": ResizeWithPadParams,
    "slice": SliceParams,
    "temporal_ensemble": TemporalEnsembleParams,
    "tokenize": TokenizeParams,
}


def test_the_page_has_every_processor() -> None:
    assert ROWS.keys() == PROCESSORS.keys()


@pytest.mark.parametrize("kind", sorted(PROCESSORS))
def test_the_page_has_every_parameter(kind: str) -> None:
    written = ROWS[kind].replace("the same, and", ROWS["normalize"] + ",")
    names = set(re.findall(r"`([a-z_]+)`", re.sub(r'(= |or )`"[^`]*"`', "", written)))
    fields = set(PARAMS.get(kind, Params).__struct_fields__)
    assert names == (fields - {"trim"} if kind == "normalize" else fields)
