from __future__ import annotations

import pytest

from ashore.spec import path_problem

BAD = """
/etc/passwd ../a a/../b a//b ./a a/. a\\b C:/a C:a .hidden a/.hidden -flag a/-flag a?b a*b a|b naïve
""".split()


@pytest.mark.parametrize("path", [*BAD, "CON", "a/nul.txt", "com1", "a.", "", "a b", "a\n", "a\x00b", "x" * 256, "a/"])
def test_paths_that_could_lead_elsewhere_are_refused(path: str) -> None:
    assert path_problem(path)


@pytest.mark.parametrize("path", ["a", "a.b", "artifacts/policy.onnx", "tokenizer/tokenizer.json", "A_1-2.bin"])
def test_plain_paths_pass(path: str) -> None:
    assert path_problem(path) is None
