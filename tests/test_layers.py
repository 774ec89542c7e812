"""The folders are the architecture: a layer imports only from layers above it in this list."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

import support

SOURCE = Path(__file__).parents[1] / "src" / "ashore"
LAYERS = (
    "errors",
    "plugins",
    "spec",
    "package",
    "processors",
    "runtime",
    "building",
    "deploy",
    "verify",
    "view",
    "backends",
    "capture",
    "interop",
    "environment",
    "staged",
    "actor",
    "integrations",
    "cli",
)
TORCH_FREE = ("errors", "plugins", "spec", "package", "processors", "runtime", "building", "verify", "view", "cli")
FRAMEWORKS = {"torch", "onnx", "mujoco", "mujoco_warp", "warp", "mjlab", "isaaclab", "rsl_rl", "lerobot", "gymnasium"}
FRAMEWORKS |= {"stable_baselines3", "sb3_contrib", "skrl", "rl_games"}
MAY_IMPORT = {
    "deploy": {"mujoco", "torch", "mjlab", "isaaclab", "warp", "mujoco_warp"},
    "backends": {"torch", "onnx"},
    "capture": {"torch", "onnx"},
    "interop": {"torch", "onnx"},
    "environment": {"torch"},
    "staged": {"torch"},
    "actor": {"torch", "onnx"},
    "integrations": FRAMEWORKS,
}
"""Layer -> the frameworks that it may import."""

ROOT = {SOURCE / "__init__.py", SOURCE / "__main__.py"}
FILES = sorted(set(SOURCE.rglob("*.py")) - ROOT)


@cache
def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def frameworks(path: Path) -> set[str]:
    return FRAMEWORKS & {module.split(".")[0] for module in imported(path)}


def test_every_layer_says_which_frameworks_it_may_import() -> None:
    assert not set(TORCH_FREE) & MAY_IMPORT.keys()
    assert set(TORCH_FREE) | MAY_IMPORT.keys() == set(LAYERS)


def test_every_folder_has_a_place_in_the_list_of_layers() -> None:
    assert {layer_of(path) for path in FILES} == set(LAYERS)


def test_imports_go_one_way() -> None:
    wrong: list[str] = []
    for path in FILES:
        allowed = LAYERS[: LAYERS.index(layer_of(path)) + 1]
        for module in imported(path):
            parts = module.split(".")
            if parts[0] == "ashore" and len(parts) > 1 and parts[1] not in allowed:
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
    assert not wrong


def test_a_layer_imports_only_the_frameworks_that_it_may() -> None:
    """What runs on the robot imports none; the export side, only those that it exports from and to."""
    wrong = {str(path.relative_to(SOURCE)): frameworks(path) - MAY_IMPORT.get(layer_of(path), set()) for path in FILES}
    assert {file: more for file, more in wrong.items() if more} == {}


def test_packages_are_compiled_without_any_framework() -> None:
    """A robot with numpy and a C compiler is enough."""
    files = sorted((SOURCE / "backends" / "c").glob("*.py"))
    assert files
    assert {path.name: frameworks(path) | ({"onnxruntime"} & imported(path)) for path in files} == {
        path.name: set() for path in files
    }


def test_errors_need_nothing_but_python() -> None:
    assert {module.split(".")[0] for module in imported(SOURCE / "errors.py")} <= sys.stdlib_module_names


@pytest.mark.parametrize("layer", ["errors", "deploy", "view", "backends"])
def test_importing_a_layer_that_names_torch_loads_none_of_it(layer: str) -> None:
    """`backends` says by name where torch is needed, so that a robot can be told what to install."""
    code = f"import sys, ashore.{layer}; print(sorted({{name.split('.')[0] for name in sys.modules}} & {FRAMEWORKS!r}))"
    done = support.run_python(code)
    assert done.stdout == "[]\n", done.stdout + done.stderr
