"""The folders are the architecture: a layer imports only from layers above it in this list."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ashore"
LAYERS = (
    "errors",
    "spec",
    "package",
    "processors",
    "runtime",
    "deploy",
    "verify",
    "view",
    "backends",
    "capture",
    "integrations",
    "interop",
    "cli",
)
TORCH_FREE = ("errors", "spec", "package", "processors", "runtime", "verify", "cli")
FRAMEWORKS = {"torch", "onnx", "mujoco", "mjlab", "lerobot", "gymnasium"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    layer = path.relative_to(SOURCE).parts[0]
    assert layer in LAYERS, "a new folder needs a place in the list of layers"
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for module in imported(path):
        parts = module.split(".")
        if parts[0] == "ashore" and len(parts) > 1:
            assert parts[1] in allowed, f"{layer} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_runs_on_the_robot_imports_no_framework(path: Path) -> None:
    if path.relative_to(SOURCE).parts[0] in TORCH_FREE:
        assert not FRAMEWORKS & {module.split(".")[0] for module in imported(path)}
