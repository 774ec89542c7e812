"""What becomes of every piece of code in tests/capture/cases: exact, or the finding that stops it, with its line."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from ashore.capture import Finding
from ashore.capture.assembly import Assembly
from ashore.errors import ExportError
from capture.cases import registry
from capture.cases.on_onnx import TABLE, read_table
from capture.cases.registry import EXACT, Case
from docs.cases_page import DOCS_PAGE, all_cases, cases_page

pytestmark = [  # what torch and numpy have to say about the code in some cases
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:To copy construct:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning"),
]
CASES = all_cases()
ON_ONNX = read_table()
WITHOUT_LINE = {"unsupported_operation", "precision", "batch"}
"""Findings that need not have a line: an exporter does not always say which operation it means."""

ABOUT_PORTS = {
    "precision",
    "changing_shape",
    "constant_output",
    "not_reproduced",
    "undeclared_input",  # an output that no recorded operation made
    "unsupported_dtype",
    "unused_input",
    "unwritten_output",
}
"""Findings that can be about a port, whose line is that of its declaration; here that is in registry.py."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_exact_or_stopped_by_its_finding(case: Case, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What was recorded is proven for every case; the ONNX file for every kind of operation, with --thorough always."""
    if case.outcome == EXACT:
        assembly = registry.recorded(case.make)
        assert registry.outcome_of_program(case.make, assembly) == EXACT
        if request.config.getoption("--thorough") or has_kind_of_its_own(case, assembly):
            assert registry.outcome(case.make, tmp_path) == EXACT
        return
    with pytest.raises(ExportError) as caught:
        registry.export(case.make, tmp_path)
    findings = [finding for finding in caught.value.findings if isinstance(finding, Finding)]
    assert case.outcome in {finding.name for finding in findings}
    assert not list(tmp_path.iterdir())
    for finding in findings:
        assert names_a_line(finding, case), f"{finding} is not in {inspect.getfile(case.make)}"


def has_kind_of_its_own(case: Case, assembly: Assembly) -> bool:
    """Whether a case has a kind of operation that no other case answers for on ONNX."""
    kinds = registry.kinds_of_operations(case.make, assembly)
    gone = {kind for kind, name in ON_ONNX.items() if name == case.name} - kinds
    assert not gone, f"{TABLE.name} says that this case has {gone}, and it has not; run tools/choose_cases.py"
    return any(ON_ONNX.get(kind, case.name) == case.name for kind in kinds)


def test_every_case_that_answers_for_others_is_there() -> None:
    """Those that have become another case, or are no longer exact, would leave kinds of operations unproven."""
    exact = {case.name for case in CASES if case.outcome == EXACT}
    assert set(ON_ONNX.values()) <= exact, "run tools/choose_cases.py"


def names_a_line(finding: Finding, case: Case) -> bool:
    if finding.line is None:
        return finding.name in WITHOUT_LINE
    if finding.line.file == registry.__file__:
        return finding.name in ABOUT_PORTS
    return finding.line.file == inspect.getfile(case.make) and f":{finding.line.number}: " in str(finding)


def test_there_are_many_cases_and_most_of_them_are_exact() -> None:
    table = [case for case in CASES if not case.spelling]
    exact = sum(case.outcome == EXACT for case in table)
    assert len(table) >= 80
    assert exact / len(table) >= 0.75, f"{exact} of {len(table)}: refusing everything is not an answer"


def test_no_two_cases_have_the_same_title() -> None:
    assert len({(case.topic, case.title) for case in CASES}) == len(CASES)


def test_the_committed_table_of_cases_is_current() -> None:
    assert DOCS_PAGE.read_text() == cases_page(), "run `make docs` to write docs/cases.md again"
