"""Building compiled packages in tests: generated once for a test, and compiled by every compiler that there is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ashore.backends.c import generate
from ashore.backends.c.project import project_files
from ashore.package import Package

HERE = Path(__file__).parent
PROGRAMS = HERE / "cpp"
COMPILERS = {"gcc": "g++", "clang": "clang++"}
"""C compiler -> C++ compiler."""

SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow"
STRICT = ("-Wall", "-Wextra", "-Werror")


def write_project(package: Package, out: Path, *, native: bool = False) -> str:
    """Compile a package to a folder with a CMake project; its name in C."""
    source = generate(package)
    made = {**source.files, **project_files(source.name, source.files, version=package.manifest.version, native=native)}
    write_files(out, made)
    return source.name


def write_files(out: Path, made: Mapping[str, bytes]) -> None:
    for path, data in made.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data)


def sources(folder: Path) -> list[str]:
    """What has to be compiled of a compiled package."""
    return sorted(str(path) for path in folder.iterdir() if path.suffix in (".c", ".S"))


def call(command: Sequence[object], cwd: Path | None = None, **environment: str) -> str:
    """What a command prints; it has to succeed."""
    done = attempt(command, cwd, **environment)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def attempt(command: Sequence[object], cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    env = {**os.environ, **environment}
    return subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True)


def need(*tools: str) -> None:
    """These tests say what is missing; they do not pass where nothing was tried."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    assert not missing, f"{missing} are not installed; run tools/setup_system.sh"


def install(project: Path, build: Path, prefix: Path, *options: str) -> None:
    """Build a CMake project and install it."""
    call(["cmake", "-S", project, "-B", build, f"-DCMAKE_INSTALL_PREFIX={prefix}", *options])
    call(["cmake", "--build", build])
    call(["cmake", "--install", build])
