"""The page of a verification says what was found, and loads nothing."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

import support
from ashore.package import Package, read, write
from ashore.verify import examine
from ashore.view.report import report_page


def shown(package: Package, **options: Any) -> str:
    """The text of a page, without its scripts and styles."""
    page = report_page(package, examine(package, **options)).html.decode()
    bare = re.sub(r"<(style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", bare)))


def test_a_good_package_is_verified_in_every_section(arm_package: Package) -> None:
    text = shown(arm_package, backends=("onnx", "openvino"), decisions=5, steps=5)
    for said in (
        "Verification of arm",
        "verified",
        "Nothing to say: no difference",
        "onnx, stepwise",
        "openvino, free-running",
        "drawn inputs, seed 0",
        "one long episode",
        "agrees",
        "reacts to each element",
        "in time",
        "substep on openvino",
    ):
        assert said in text, said
    assert "not verified" not in text


def test_the_worst_stands_first(arm_package: Package) -> None:
    support.change_file(
        arm_package.path, "artifacts/decide.onnx", support.model(support.DECIDE_MODEL.replace("2.0", "2.02"))
    )
    text = shown(read(arm_package.path))
    assert "not verified" in text
    findings = text[text.index("severity part") : text.index("Against the recording Stepwise")]
    assert "step 0: outputs/action[0, 0]: expected" in findings
    assert "is not the same file that the rollout was recorded with" in findings
    assert findings.index("expected") < findings.index("note files")


def test_the_text_of_a_package_cannot_break_the_page(tmp_path: Path) -> None:
    contents = support.sum_contents()
    hostile = "<script>alert(1)</script>"
    manifest = msgspec.structs.replace(support.sum_manifest(), version=hostile)
    page = report_page(package := write(tmp_path / "p", manifest, **contents), examine(package)).html
    assert hostile.encode() not in page
    assert b"&lt;script&gt;alert(1)" in page


def test_the_page_loads_nothing(arm_package: Package) -> None:
    page = report_page(arm_package, examine(arm_package)).html.decode()
    assert not re.search(r"""(src|href)=["']?(?!#|data:)[a-z]+:""", page)
    assert "default-src 'none'" in unescape(page)
    assert len(page) < 300_000


@pytest.mark.parametrize("budget_s", [0.0, 4.0])
def test_inputs_that_do_nothing_and_those_nobody_looked_at(sum_package: Package, budget_s: float) -> None:
    text = shown(sum_package, budget_s=budget_s)
    assert ("not looked at" in text) is (budget_s == 0.0)
