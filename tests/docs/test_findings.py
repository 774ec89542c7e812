"""docs/findings.md has every finding, and its examples cause and cure exactly what they say."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ashore
import ashore.integrations.mjlab  # what it describes has to be there before an example describes more
from ashore.capture import KINDS, assembly
from ashore.errors import AshoreError, ExportError
from ashore.integrations import semantics
from docs.pages import DOCS, Block, blocks, sections

SECTIONS = sections((DOCS / "findings.md").read_text())
DRIVERS = list(blocks(SECTIONS["The examples"]))
EXAMPLES = {name: list(blocks(SECTIONS[name])) for name in KINDS if name in SECTIONS}
CURED = [name for name, found in EXAMPLES.items() if len(found) > 1]
ERRORS = [name for name, kind in KINDS.items() if kind.severity == "error"]
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run blocks in one namespace, in a folder of their own, with options for every recording among them."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    monkeypatch.setattr(semantics, "_REGISTRY", dict(semantics._REGISTRY))  # what an example describes, it forgets
    quick = {"picture": False, "summary": False}
    compile_graph = ashore.capture.compile_graph

    def run(*code: Block, **options: Any) -> None:
        monkeypatch.setattr(
            ashore.capture, "compile_graph", functools.partial(compile_graph, visualize=False, summary=False, **options)
        )
        names: dict[str, Any] = {"__name__": "examples"}
        for number, driver in enumerate(DRIVERS):
            execute(tmp_path / f"driver_{number}.py", driver, names)
        for name in ("try_out", "try_task", "try_actor"):
            names[name] = functools.partial(names[name], **quick, **options)
        for number, block in enumerate(code):
            execute(tmp_path / f"example_{number}.py", block, names)

    return run


def execute(path: Path, block: Block, names: dict[str, Any]) -> None:
    path.write_text(block.code)
    exec(compile(block.code, path, "exec"), names)


def definitions(cause: Block) -> Block:
    """An example up to where it is recorded, for the second block to go on from."""
    code = re.split(r"^(?:try_out|try_task|try_actor|ashore\.start)\(", cause.code, flags=re.MULTILINE)[0]
    return dataclasses.replace(cause, code=code)


def severities(folder: Path, *severity: str) -> set[str]:
    findings = ashore.package.read(folder / "example").manifest.findings
    return {finding.name for finding in findings if finding.severity in severity}


def expected(name: str) -> set[str]:
    mark = EXAMPLES[name][0].mark
    return {name, *(mark.removeprefix("also: ").split() if mark else ())}


def test_the_page_has_exactly_the_findings_there_are() -> None:
    assert list(SECTIONS) == ["The examples", *KINDS]


@pytest.mark.parametrize("name", KINDS)
def test_a_section_says_severity_meaning_and_remedy(name: str) -> None:
    kind, text = KINDS[name], " ".join(SECTIONS[name].split())
    assert f"**{kind.severity}.** {kind.summary} " in text
    assert f"**Remedy:** {kind.remedy}." in text
    assert ("**Allowed:** " in text) == (kind.severity == "error")


@pytest.mark.parametrize("name", ERRORS)
def test_an_example_of_an_error_causes_exactly_that(name: str, run: Run, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=rf"\[{name}\]") as caught:
        run(EXAMPLES[name][0])
    assert {finding.name for finding in caught.value.findings} == expected(name)
    assert not (tmp_path / "example").exists()


@pytest.mark.parametrize("name", [name for name in KINDS if name not in [*ERRORS, "huge_constant"]])
def test_an_example_of_a_notice_is_exported_with_exactly_that(name: str, run: Run, tmp_path: Path) -> None:
    run(EXAMPLES[name][0])
    severity = KINDS[name].severity
    found = severities(tmp_path, severity)
    assert found == {name} if severity == "warning" else name in found
    assert severity == "warning" or not severities(tmp_path, "warning", "error")


def test_a_huge_constant_is_exported_with_a_warning(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything smaller: 256 MiB take a while."""
    assert assembly._HUGE_BYTES == 256 << 20
    monkeypatch.setattr(assembly, "_HUGE_BYTES", 256 << 10)
    example = EXAMPLES["huge_constant"][0]
    code = example.code.replace("8192, 8200", "256, 257")
    assert code != example.code
    run(dataclasses.replace(example, code=code))
    assert severities(tmp_path, "warning") == {"huge_constant"}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", CURED)
def test_what_the_remedy_makes_of_an_example_has_no_findings(name: str, run: Run, tmp_path: Path) -> None:
    cause, *cure = EXAMPLES[name]
    run(definitions(cause), *cure)
    assert name not in severities(tmp_path, "error", "warning", "info")
    assert not severities(tmp_path, "error", "warning")


@pytest.mark.parametrize("name", ERRORS)
def test_allowing_does_what_the_page_says(name: str, run: Run, tmp_path: Path) -> None:
    said = re.search(r"\*\*Allowed:\*\* (no package either|the package is written)", SECTIONS[name])
    assert said, "say 'no package either' or 'the package is written'"
    if said[1] == "the package is written":
        run(EXAMPLES[name][0], allow={name})
        assert severities(tmp_path, "error") == {name}
    else:
        with pytest.raises(AshoreError):
            run(EXAMPLES[name][0], allow={name})
        assert not (tmp_path / "example").exists()
