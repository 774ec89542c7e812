"""The C++ header: a robot is bound by names, guarded, and driven without a single allocation."""

from __future__ import annotations

from pathlib import Path

import pytest

from native.builds import COMPILERS, PROGRAMS, SANITIZERS, STRICT, attempt, call, install, need, write_project
from native.limbs import write_limb

PEDANTIC = ("-std=c++17", *STRICT, "-Wpedantic", "-Wshadow", "-Wconversion", "-Wold-style-cast")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("cmake", "gcc", "g++", "clang++")
    folder = tmp_path_factory.mktemp("limb")
    write_project(write_limb(folder / "package"), folder / "limb")
    install(folder / "limb", folder / "build", folder / "installed")
    return folder / "installed"


@pytest.fixture(scope="module", params=COMPILERS.values())
def program(request: pytest.FixtureRequest, installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("program") / "bound"
    flags = (*PEDANTIC, "-O1", "-g", "-I", installed / "include")
    call([request.param, *flags, PROGRAMS / "bound.cpp", installed / "lib" / "libashore_limb.a", "-o", out])
    return out


CASES = ("order", "moved", "guard", "results_that_are_not_finite", "limits")


@pytest.mark.parametrize("case", [*CASES, "nothing_is_allocated"])
def test_a_bound_policy_keeps_its_promise_of(case: str, program: Path) -> None:
    done = attempt([program, case])
    assert (done.returncode, done.stdout) == (0, "")


BOTH = "the package has [shoulder elbow], the robot"
MISFITS = {
    "missing": f"reads 'q': [shoulder] is missing on the robot; {BOTH} [elbow sholder]",
    "twice": f"reads 'q': [elbow] stands there more than once; {BOTH} [elbow shoulder elbow]",
    "count": "reads 'q': expected an array of 2 elements, the robot's has 1; nothing is broadcast",
    "nameless": "reads 'q': give the names of its elements; the package has [shoulder elbow]",
    "integers": "reads 'q': it is float32, the robot's array is int32",
    "narrow": "reads 'phase': it is int64, the robot's array is int32",
    "fraction": "reads 'phase': it is int64, the robot's array is float64",
    "rows": "reads 'feet': expected an array of 6 elements, the robot's has 3; nothing is broadcast",
    "unbound": "input 'q': nobody gives it",
    "again": "reads 'state/joint/position': it is given more than once",
    "unknown_names": "reads 'wish': the package names no elements, so the robot's names [vx vy wz] cannot be checked",
    "unknown_port": "reads 'joint_pos': the package has no input of that name or kind",
    "null": "reads 'state/joint/effort': the package has no input of that name or kind",
    "extra": f"writes 'torque': [wrist] is driven by nothing; {BOTH} [elbow wrist shoulder]",
    "nowhere": "output 'torque': it goes nowhere",
    "unused": "unused 'value': the package has no such output",
    "guard": "guard: max_age_s: expected a number above 0",
}


@pytest.mark.parametrize("which", MISFITS)
def test_what_does_not_fit_is_told_with_both_sides(which: str, program: Path) -> None:
    told = call([program, "misfit", which])
    assert told.startswith("policy 'limb' does not fit the robot:\n")
    assert f"\n- {MISFITS[which]}" in told
    assert "\nthe policy has:\n  step input q: state/joint/position in rad, 2 x float32 [shoulder elbow]\n" in told
    assert "\nthe robot has:\n" in told
    assert "\n  reads v: 2 x float64 [elbow shoulder]\n" in told


def test_all_problems_are_told_at_once(program: Path) -> None:
    told = call([program, "misfit", "guard"])
    assert "- guard: on_trip: expected hold, damp or stop, got act\n- guard: max_age_s" in told


def test_what_fits_is_bound(program: Path) -> None:
    assert call([program, "misfit", "nothing"]) == "it fits\n"


def test_the_header_is_clean_under_the_sanitizers(installed: Path, tmp_path: Path) -> None:
    flags = (*PEDANTIC, "-O1", "-g", SANITIZERS, "-fno-sanitize-recover=all", "-I", installed / "include")
    library, out = installed / "lib" / "libashore_limb.a", tmp_path / "bound"
    call(["g++", *flags, PROGRAMS / "bound.cpp", library, "-o", out])
    for case in CASES:
        assert call([out, case]) == ""
    for which in MISFITS:
        assert MISFITS[which] in call([out, "misfit", which])
