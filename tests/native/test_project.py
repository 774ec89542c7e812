"""The CMake project of a compiled package: built, installed, found, and used by a program that knows nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphs
import support
from ashore.backends.c.cortex_m import board_files
from native.builds import COMPILERS, PROGRAMS, call, install, need, write_files, write_project
from native.limbs import write_limb

MAIN = """
#include <ashore/arm/ashore.hpp>
#include <ashore/arm/policy.h>
#include <ashore/limb/ashore.hpp>
#include <ashore/limb/policy.h>

int main() {
  for (const ashore_contract* one : {&ashore_arm_contract, &ashore_limb_contract}) {
    ashore::Policy policy(*one);
    const int step = policy.step(), substep = policy.substep();
    std::printf("%s %d %d %zu\\n", one->name, step, substep, ashore::joint_names(*one).size());
  }
}
"""
LISTS = """
cmake_minimum_required(VERSION 3.16)
project(robot LANGUAGES C CXX)
find_package(arm REQUIRED)
find_package(limb 1.2 REQUIRED)
add_executable(robot main.cpp)
target_compile_features(robot PRIVATE cxx_std_17)
target_compile_options(robot PRIVATE -Wall -Wextra -Werror)
target_link_libraries(robot PRIVATE ashore::arm ashore::limb)
"""
SUBDIRECTORY = LISTS.replace("find_package(arm REQUIRED)", "add_subdirectory(${ARM} arm)").replace(
    "find_package(limb 1.2 REQUIRED)", "add_subdirectory(${LIMB} limb)"
)
PRINTED = "arm 0 0 2\nlimb 0 0 2\n"


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("cmake", *COMPILERS, *COMPILERS.values())
    folder = tmp_path_factory.mktemp("projects")
    write_project(support.write_arm(folder / "packages" / "arm"), folder / "arm")
    write_project(write_limb(folder / "packages" / "limb"), folder / "limb")
    return folder


def robot(folder: Path, lists: str) -> Path:
    folder.mkdir()
    (folder / "main.cpp").write_text(MAIN)
    (folder / "CMakeLists.txt").write_text(lists)
    return folder


@pytest.mark.parametrize(("compiler", "shared"), [("gcc", "OFF"), ("clang", "ON")])
def test_two_installed_policies_are_found_and_run_in_one_program(
    compiler: str, shared: str, projects: Path, tmp_path: Path
) -> None:
    tools = f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_CXX_COMPILER={COMPILERS[compiler]}"
    for name in ("arm", "limb"):
        options = (tools[0], f"-DBUILD_SHARED_LIBS={shared}", "-DASHORE_NATIVE=ON")
        install(projects / name, tmp_path / name, tmp_path / "installed", *options)
    source = robot(tmp_path / "robot", LISTS)
    call(["cmake", "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}", *tools])
    call(["cmake", "--build", tmp_path / "build"])
    assert call([tmp_path / "build" / "robot"]) == PRINTED
    suffix = "so" if shared == "ON" else "a"
    assert len(list((tmp_path / "installed" / "lib").glob(f"libashore_*.{suffix}"))) == 2


def test_the_projects_are_used_as_folders_of_another(projects: Path, tmp_path: Path) -> None:
    source = robot(tmp_path / "robot", SUBDIRECTORY)
    folders = f"-DARM={projects / 'arm'}", f"-DLIMB={projects / 'limb'}"
    call(["cmake", "-S", source, "-B", tmp_path / "build", *folders])
    call(["cmake", "--build", tmp_path / "build"])
    assert call([tmp_path / "build" / "robot"]) == PRINTED


def test_a_later_version_than_the_package_has_is_not_found(projects: Path, tmp_path: Path) -> None:
    install(projects / "limb", tmp_path / "limb", tmp_path / "installed")
    probe = tmp_path / "probe"
    probe.mkdir()
    (probe / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(probe LANGUAGES C)\nfind_package(limb 1.3 QUIET)\n"
        'message(STATUS "found=${limb_FOUND}")\n'
    )
    told = call(["cmake", "-S", probe, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}"])
    assert "found=0" in told


REPLAY = """
cmake_minimum_required(VERSION 3.16)
project(replay LANGUAGES C)
find_package(wide REQUIRED)
file(GLOB sources ${BOARD}/replay.c ${BOARD}/golden.c)
add_executable(replay ${sources} ${HOST})
get_target_property(include ashore::wide INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(replay PRIVATE ${BOARD} ${include}/ashore/wide)
target_link_libraries(replay PRIVATE ashore::wide)
"""


@pytest.mark.parametrize("shared", ["OFF", "ON"])
def test_large_weights_which_lie_in_a_file_of_their_own_are_linked(shared: str, tmp_path: Path) -> None:
    """The replay for microcontrollers, on this machine, through the library that CMake built."""
    package = graphs.write_subject(graphs.mlp(300, 900, 4), tmp_path / "package", name="wide")
    assert write_project(package, tmp_path / "c") == "wide"
    assert (tmp_path / "c" / "policy_weights.bin").stat().st_size > 1 << 20
    write_files(tmp_path, board_files(package, "wide"))
    install(tmp_path / "c", tmp_path / "build", tmp_path / "installed", f"-DBUILD_SHARED_LIBS={shared}")
    probe = tmp_path / "probe"
    probe.mkdir()
    (probe / "CMakeLists.txt").write_text(REPLAY)
    options = f"-DBOARD={tmp_path / 'cortex_m'}", f"-DHOST={PROGRAMS / 'host_board.c'}"
    call(["cmake", "-S", probe, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}", *options])
    call(["cmake", "--build", tmp_path / "b"])
    assert call([tmp_path / "b" / "replay"]).startswith("passed: 20 ticks, largest error ")
