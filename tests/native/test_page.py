"""docs/native.md runs as it is written: its files are built, its commands are run, and they print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ashore.backends.c.operators import OPERATORS
from ashore.backends.processor_graphs import PROCESSOR_GRAPHS
from docs.pages import DOCS, ROOT
from native.builds import HERE, PROGRAMS, STRICT, call, install, need, write_project

PAGE = (DOCS / "native.md").read_text()
FILES = {
    match["path"]: match["code"]
    for match in re.finditer(
        r"<!-- file: (?P<path>\S+) -->\n\n```\w+\n(?P<code>.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
}
ARM = re.search(r'write_text\("""\n(.*?)"""\)', (DOCS / "deploy.md").read_text(), re.DOTALL)


class Commands(NamedTuple):
    """A block of commands, and what the page shows below it."""

    lines: str
    shown: str | None
    line: int


def commands() -> list[Commands]:
    found = re.finditer(
        r"^```sh\n(?P<lines>.*?)^```$\n*(?:^```text\n(?P<shown>.*?)^```$)?", PAGE, re.MULTILINE | re.DOTALL
    )
    return [Commands(one["lines"], one["shown"], PAGE.count("\n", 0, one.start()) + 2) for one in found]


def plain(text: str) -> str:
    """A text without what differs between versions of a compiler."""
    return re.sub(r"error \S+|\d+ bytes", "…", text.strip())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("cmake", "gcc", "g++", "arm-none-eabi-gcc", "qemu-system-arm")
    folder = tmp_path_factory.mktemp("page")
    call([sys.executable, ROOT / "examples" / "first_package.py", folder / "demo" / "first"])
    assert ARM is not None
    (folder / "arm.xml").write_text(ARM[1])
    for path, code in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(code)
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[int, str]:
    """Line of a block -> what its commands printed."""
    env = {**os.environ, "ASHORE": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    printed: dict[int, str] = {}
    for block in commands():
        done = subprocess.run(["bash", "-euc", block.lines], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"native.md:{block.line}\n{done.stdout}\n{done.stderr}"
        printed[block.line] = done.stdout + done.stderr
    return printed


def test_every_command_runs_and_prints_what_the_page_shows(told: dict[int, str]) -> None:
    shown = [block for block in commands() if block.shown]
    assert len(shown) >= 3
    for block in shown:
        assert plain(block.shown or "") in plain(told[block.line]), f"native.md:{block.line}: {told[block.line]}"


@pytest.mark.usefixtures("told")
def test_the_table_of_files_has_them_all(folder: Path) -> None:
    table = PAGE.split("| in `first/` | |")[1].split("\n\n")[0]
    named = re.findall(r"`([\w.]+)`", "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `")))
    assert sorted(named) == sorted(path.name for path in (folder / "first").iterdir())


def test_the_table_of_causes_has_them_all() -> None:
    header = (ROOT / "src" / "ashore" / "backends" / "c" / "texts" / "ashore.hpp").read_text()
    causes = re.findall(r"^  (\w+),", header.split("enum class Cause")[1].split("};")[0], re.MULTILINE)
    table = PAGE.split("| cause | |")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `")))
    assert sorted(named) == sorted(set(causes) - {"none"})


def test_the_lists_of_what_is_compiled_have_it_all() -> None:
    part = PAGE.split("## What is refused")[1].split("## How fast")[0]
    assert part.split("```text\n")[1].split("```")[0].split() == sorted(OPERATORS)
    named = re.findall(r"`(\w+)`", part.split("- the processors")[1].split("Others")[0])
    assert named == sorted(PROCESSOR_GRAPHS)


def test_the_controller_for_ros2_control_compiles_and_runs_against_stand_ins(folder: Path, tmp_path: Path) -> None:
    """There is no ROS here; what the page says about that is all that is claimed."""
    assert "It has not been compiled against ROS 2 itself" in PAGE
    from ashore.package import read

    write_project(read(folder / "demo" / "first"), tmp_path / "c")
    install(tmp_path / "c", tmp_path / "build", tmp_path / "installed")
    headers = "-I", tmp_path / "installed" / "include", "-I", HERE / "ros2", "-I", folder
    library = tmp_path / "installed" / "lib" / "libashore_first.a"
    for compiler in ("g++", "clang++"):
        call([compiler, "-std=c++17", *STRICT, *headers, PROGRAMS / "ros2.cpp", library, "-o", tmp_path / "ros2"])
        printed = call([tmp_path / "ros2"])
        assert printed.splitlines() == [
            "update_rate is 100, the package needs 200",
            "hold: input 'joint_pos'[0] (shoulder) is nan; expected a finite value",
            "hold: the oldest measurement is 0.2 s old; the most is 0.025 s",
        ]
