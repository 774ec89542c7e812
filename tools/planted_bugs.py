"""Plants bugs one at a time, and says of each whether the tests notice it.

Tests that become faster may also become blind, and a green run does not show it. So `planted_bugs.toml` lists bugs that
a careful reviewer might let through, from every layer of ``src/ashore``, each with the tests that have to notice it.
This script writes a bug into its file, runs those tests, and puts the file back as it was, also after Ctrl-C:

      4  noticed           1.4 s  a measurement whose age is NaN does not trip the guard  [tests/runtime/test_guard…]

A bug is *noticed* if a test fails, or a fixture does. Tests that cannot even be collected say nothing about it: that is
*could not run*, and so is a run over the time limit. The exit status is 0 if every bug was noticed, 1 if one was not,
and 2 if nothing was planted since something is wrong beforehand.

The sources are changed where they are, so nothing else may use or change this folder meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import tomllib

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
KINDS = ("inverted test", "dropped case", "wrong axis", "off by one", "lost error")
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0")
TESTS_FAILED = 1
"""What pytest exits with if tests failed; above it are an interruption, a wrong call, and no tests at all."""

Outcome: TypeAlias = Literal["noticed", "NOT NOTICED", "could not run"]

_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
"""A line of pytest's summary that names a test. An error in collection names a file only, and is none."""

_STOPPING = {signal.SIGINT, signal.SIGTERM}
_SECOND_NS = 10**9


@dataclass(frozen=True)
class Bug:
    """A bug of the list."""

    number: int
    """Its place in the list, from 1."""

    name: str
    kind: str
    file: str
    """Of the project, from its root."""

    find: str
    replace: str
    tests: tuple[str, ...]
    select: str | None = None

    @property
    def path(self) -> Path:
        """The file that it is planted in."""
        return ROOT / self.file


@dataclass(frozen=True)
class Result:
    """What became of a bug."""

    bug: Bug
    outcome: Outcome
    seconds: float
    detail: str
    """The first test that failed, or why nothing could be run."""


def read_bugs() -> list[Bug]:
    """The bugs of the list, in its order."""
    entries: list[dict[str, Any]] = tomllib.loads(LIST.read_text())["bug"]
    return [Bug(number, **{**entry, "tests": tuple(entry["tests"])}) for number, entry in enumerate(entries, start=1)]


def choose(bugs: Sequence[Bug], wanted: Sequence[str] | None) -> list[Bug]:
    """The bugs with some names or numbers; without any, all of them."""
    if wanted is None:
        return list(bugs)
    by_label = {label: bug for bug in bugs for label in (bug.name, str(bug.number))}
    unknown = [label for label in wanted if label not in by_label]
    if unknown:
        refuse([f"there is no bug {label!r}; --list shows their names and numbers" for label in unknown])
    return [by_label[label] for label in dict.fromkeys(wanted)]


def problems_of(bug: Bug) -> Iterator[str]:
    """What is wrong with an entry of the list, as the sources and the tests are now."""
    if bug.kind not in KINDS:
        yield f"its kind is {bug.kind!r}, expected one of {', '.join(KINDS)}"
    for test in bug.tests:
        if not (ROOT / test.partition("::")[0]).exists():
            yield f"there is no {test.partition('::')[0]}"
    if not bug.file.startswith("src/") or not bug.path.is_file():
        yield f"{bug.file} is no file below src/"
        return
    source = bug.path.read_bytes().decode()
    count = source.count(bug.find)
    if count != 1 or bug.find == bug.replace:
        yield f"what it finds in {bug.file} stands there {count} times; expected once, and something else in its place"
    elif bug.path.suffix == ".py":
        try:
            compile(source.replace(bug.find, bug.replace), bug.file, "exec")
        except SyntaxError as error:
            yield f"with it, {bug.file} is no Python any more: {error}"


def uncommitted(bugs: Sequence[Bug]) -> list[str]:
    """The files of some bugs that differ from what was committed, as git says it."""
    files = sorted({bug.file for bug in bugs})
    done = subprocess.run(
        ["git", "status", "--porcelain", "--", *files], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Have a bug in its file; afterwards the file is what it was, to the byte and to the time of its last change.

    Python takes bytecode for current if it knows the time and the length of its source. So the time has to be another
    while the bug is there, and `run_tests` keeps Python from writing any bytecode meanwhile.
    """
    source, about = bug.path.read_bytes(), bug.path.stat()
    try:
        bug.path.write_bytes(source.decode().replace(bug.find, bug.replace).encode())
        later_ns = max(about.st_mtime_ns, time.time_ns()) + 2 * _SECOND_NS
        os.utime(bug.path, ns=(later_ns, later_ns))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)  # a second Ctrl-C has to wait
        bug.path.write_bytes(source)
        os.utime(bug.path, ns=(about.st_atime_ns, about.st_mtime_ns))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


def run_tests(bug: Bug, python: Path, limit_s: float) -> Result:
    """Run the tests that a bug concerns.

    Args:
        bug: which is planted.
        python: an interpreter that has pytest and the project.
        limit_s: the longest that they may take.
    """
    command = [str(python), *PYTEST, *bug.tests, *(["-k", bug.select] if bug.select else [])]
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that processes which tests start end with them
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        outcome, detail = judge(process.returncode, output)
    except subprocess.TimeoutExpired:
        outcome, detail = "could not run", f"it took longer than {limit_s:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Result(bug, outcome, time.monotonic() - started, detail)


def judge(status: int, output: str) -> tuple[Outcome, str]:
    """What pytest's exit status and output say, and the first test that failed or the last line that was printed."""
    failure = _FAILURE.search(output)
    if status == TESTS_FAILED and failure is not None:
        return "noticed", failure[1]
    if status == 0:
        return "NOT NOTICED", ""
    lines = output.strip().splitlines() or ["it printed nothing"]
    return "could not run", f"pytest exited with {status}: {lines[-1]}"


def write_json(file: Path, results: Sequence[Result]) -> None:
    """Keep results for a comparison with those of another day."""
    documents = [
        {
            "number": result.bug.number,
            "name": result.bug.name,
            "kind": result.bug.kind,
            "file": result.bug.file,
            "tests": list(result.bug.tests),
            "select": result.bug.select,
            "outcome": result.outcome,
            "seconds": round(result.seconds, 2),
            "detail": result.detail,
        }
        for result in results
    ]
    file.write_text(json.dumps(documents, indent=2) + "\n")


def say(text: str) -> None:
    """Print a line at once: a run takes minutes, and may be watched through a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_result(result: Result) -> None:
    """Print what became of a bug."""
    detail = f"  [{result.detail}]" if result.detail else ""
    say(f"{result.bug.number:>3}  {result.outcome:<13} {result.seconds:7.1f} s  {result.bug.name}{detail}")


def refuse(problems: Sequence[str]) -> NoReturn:
    """End before anything is planted."""
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    sys.exit(2)


def check_before(bugs: Sequence[Bug], chosen: Sequence[Bug]) -> None:
    """Refuse to start if the list does not fit the sources, or if a file would lose what nobody has committed."""
    problems = [f"{bug.number}, {bug.name!r}: {problem}" for bug in bugs for problem in problems_of(bug)]
    problems += [f"uncommitted changes: {line}; commit them first" for line in uncommitted(chosen)]
    if problems:
        refuse(problems)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Plant bugs one at a time; say of each whether the tests notice it.")
    parser.add_argument("--list", action="store_true", help="show the bugs, and plant none")
    parser.add_argument("--only", nargs="+", metavar="NAME_OR_NUMBER", help="plant these; otherwise all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results into a file too")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv" / "bin" / "python", help="what runs the tests")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="for the tests of one bug")
    return parser.parse_args()


def main() -> int:
    """Run the command line; the exit status."""
    arguments = parse_arguments()
    bugs = read_bugs()
    chosen = choose(bugs, arguments.only)
    if arguments.list:
        for bug in chosen:
            say(f"{bug.number:>3}  {bug.kind:<13}  {bug.name}  [{bug.file}]")
        return 0
    check_before(bugs, chosen)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    results: list[Result] = []
    try:
        for bug in chosen:
            with planted(bug):
                results.append(run_tests(bug, arguments.python, arguments.limit))
            say_result(results[-1])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        if arguments.json is not None:
            write_json(arguments.json, results)
    noticed = sum(result.outcome == "noticed" for result in results)
    say(f"{noticed} of {len(results)} were noticed")
    return 0 if noticed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
