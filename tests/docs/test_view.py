"""What the page on pages says is so; also where there is no torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ashore.view.page.evidence import MAX_MEASURING_S, SAMPLES
from ashore.view.page.making import FILMS, MAX_FILM_BYTES
from docs.pages import DOCS, ROOT, blocks, sections
from docs.tutorials import check_marks, check_shown, play
from page_packages import Parsed

PAGE = (DOCS / "view.md").read_text()


def test_the_example_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    made = [sys.executable, str(ROOT / "examples" / "first_package.py"), str(tmp_path / "demo" / "first")]
    subprocess.run(made, check=True, capture_output=True)
    code = list(blocks(PAGE))
    told = play(code, tmp_path)
    check_marks("view.md", code, told)
    check_shown("view.md", code, told)
    page = Parsed((tmp_path / "first.html").read_bytes()).root
    listed = [row.split("|")[1].strip() for row in sections(PAGE)["What is on it"].splitlines() if row.startswith("| ")]
    named = [name for row in listed[1:] for name in row.split(", ")]
    assert named == [section.one("h2").text for section in page.all("section")]


def test_the_table_of_options_has_them_all() -> None:
    done = subprocess.run([sys.executable, "-m", "ashore", "view", "--help"], capture_output=True, text=True)
    offered = set(re.findall(r"^│ \*? *(--[a-z-]+)", done.stdout, re.MULTILINE)) - {"--help"}
    part = sections(PAGE)["Options"]
    assert offered == set(re.findall(r"^\| `(--[a-z-]+)", part, re.MULTILINE))
    assert f"{SAMPLES} by default" in part
    assert f"{MAX_FILM_BYTES >> 20} MiB" in part
    assert MAX_MEASURING_S == 5, "at most five seconds"
    assert set(re.findall(r"`(\.[a-z0-9]+)`", part)) - {".html"} == set(FILMS)


def test_the_picture_is_of_moderate_size() -> None:
    assert (DOCS / "view.png").stat().st_size < 200_000
