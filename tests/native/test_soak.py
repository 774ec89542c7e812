"""Generated C under the sanitizers, for ten thousand random calls, and under every warning."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import graphs
import support
from ashore.package import Package
from native.builds import COMPILERS, PROGRAMS, SANITIZERS, STRICT, call, need, sources, write_project
from native.limbs import write_limb

PACKAGES: dict[str, Callable[[Path], Package]] = {
    "limb": write_limb,
    "arm": support.write_arm,
    "sum": support.write_sum,
    "pipeline": lambda out: graphs.write_subject(graphs.pipeline(), out),
    "lstm": lambda out: graphs.write_subject(graphs.lstm(12, 16, 4), out),
    "gru": lambda out: graphs.write_subject(graphs.gru(12, 16, 4), out),
    "transformer": lambda out: graphs.write_subject(graphs.transformer(4, 16, 1, 4), out),
}


@pytest.fixture(scope="module", params=PACKAGES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    need("gcc", "g++", "clang", "clang++")
    folder = tmp_path_factory.mktemp(request.param)
    name = write_project(PACKAGES[request.param](folder / "package"), folder / "c")
    return folder / "c", name


def test_ten_thousand_random_calls_are_clean_under_the_sanitizers(compiled: tuple[Path, str], tmp_path: Path) -> None:
    """Among them resets, NaN, infinities, results that overflow, and substeps before a step."""
    folder, name = compiled
    flags = ("-std=gnu99", "-O1", "-g", *STRICT, SANITIZERS, "-fno-sanitize-recover=all", f"-I{folder}")
    contract = f"-DPOLICY_CONTRACT=ashore_{name}_contract"
    call(["gcc", *flags, contract, PROGRAMS / "soak.c", *sources(folder), "-lm", "-o", tmp_path / "soak"])
    told = call([tmp_path / "soak", 10_000, 1])
    calls, substeps, resets, inputs, _ = map(int, re.findall(r"\d+", told))
    assert calls == 10_000
    assert resets > 50
    assert inputs > 50
    assert substeps > 1000 or name not in ("limb", "arm")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_it_compiles_without_a_warning_as_c99(compiled: tuple[Path, str], compiler: str, tmp_path: Path) -> None:
    folder, _ = compiled
    flags = ("-std=c99", "-O2", *STRICT, "-Wpedantic", "-Wshadow", f"-I{folder}")
    for index, source in enumerate(sources(folder)):
        call([compiler, *flags, "-c", source, "-o", tmp_path / f"{index}.o"])


@pytest.mark.parametrize("compiler", COMPILERS.values())
def test_it_compiles_without_a_warning_as_cpp17(compiled: tuple[Path, str], compiler: str, tmp_path: Path) -> None:
    folder, _ = compiled
    for index, source in enumerate(one for one in sources(folder) if one.endswith(".c")):
        call(
            [
                compiler,
                "-x",
                "c++",
                "-std=c++17",
                "-O2",
                *STRICT,
                f"-I{folder}",
                "-c",
                source,
                "-o",
                tmp_path / f"{index}.o",
            ]
        )
