"""Says which tests run a module of Ashore.

python tools/tests_of.py src/ashore/capture/align.py    the files of tests to look at, the best first
python tools/tests_of.py --measure [PYTEST ARGUMENTS]   runs tests, and notes who runs what in .cache/where

A module that has a test of its own name is tested there. For the others, and for more, tests are measured: the two
files that run most of its functions are told; of two that run as many, first the one that runs less of everything else.
What runs is counted by Python's own profiler, which is on while a test is.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "ashore", ROOT / "tests"
MEASURED = ROOT / ".cache" / "where"
BEST = 2


def own_tests(module: str) -> list[str]:
    """The files of tests that are called after a module, by their paths below tests/."""
    path = Path(module)
    folder, name = path.parent, path.stem
    files = [folder / f"test_{name}.py"]
    if folder.name:
        files += [place / f"test_{folder.name}_{name}.py" for place in (folder, folder.parent)]
    if folder == Path("backends/c"):
        files.append(Path("native") / f"test_{name}.py")
    return [str(file) for file in files if (TESTS / file).is_file()]


# --- measuring: this file is also a plugin of pytest -----------------------------------------------------------------

_ran: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
"""File of tests -> module -> the functions of it that ran."""


def _plugin() -> Any:
    """The plugin's hook. pytest is imported only where it is run."""
    import pytest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: Any) -> Iterator[None]:
        profile = cProfile.Profile()
        profile.enable()
        try:
            return (yield)
        finally:
            profile.disable()
            file = str(item.path.relative_to(TESTS))
            for entry in profile.getstats():  # type: ignore[attr-defined]
                code = entry.code
                if not isinstance(code, str) and code.co_filename.startswith(f"{SOURCE}{os.sep}"):
                    module = str(Path(code.co_filename).relative_to(SOURCE))
                    _ran[file][module].add(f"{code.co_qualname}:{code.co_firstlineno}")

    return pytest_runtest_protocol


def pytest_sessionfinish() -> None:
    """Note what ran, beside what other runs and other processes noted."""
    MEASURED.mkdir(parents=True, exist_ok=True)
    found = {file: {module: sorted(functions) for module, functions in ran.items()} for file, ran in _ran.items()}
    if found:
        (MEASURED / f"{os.getpid()}.json").write_text(json.dumps(found))


if "pytest" in sys.modules:
    pytest_runtest_protocol = _plugin()


# --- telling ---------------------------------------------------------------------------------------------------------


def measured_tests(module: str) -> list[str]:
    """The files of tests that run most of a module, of all that was measured."""
    ran: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in MEASURED.glob("*.json"):
        for file, of_modules in json.loads(path.read_text()).items():
            for name, functions in of_modules.items():
                ran[file][name] |= set(functions)
    breadth = {file: sum(map(len, of_modules.values())) for file, of_modules in ran.items()}
    files = [file for file in ran if ran[file].get(module)]
    return sorted(files, key=lambda file: (-len(ran[file][module]), breadth[file], file))[:BEST]


def main() -> int:
    """Say, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", nargs="?", help="a file below src/ashore")
    parser.add_argument("--measure", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    options = parser.parse_args()
    if options.measure is not None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-m", "pytest", "-p", "tests_of", *options.measure]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if options.module is None:
        parser.error("say which module, such as src/ashore/capture/align.py")
    module = str(Path(options.module).resolve().relative_to(SOURCE))
    if not (SOURCE / module).is_file():
        parser.error(f"{options.module}: there is no such module")
    files = list(dict.fromkeys((*own_tests(module), *measured_tests(module))))
    for file in files:
        sys.stdout.write(f"tests/{file}\n")
    if not files:
        sys.stderr.write(
            f"{module} has no test of its own name, and nothing that was measured runs it; see --measure\n"
        )
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main())
