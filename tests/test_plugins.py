"""Backends of other packages, found by their entry points: real packages on the path of a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ashore
import support
from ashore.package import Package

MODULE = """
import numpy as np

print("imported")


class Session:
    errors = (RuntimeError,)

    def bind(self, inputs, outputs):
        def call():
            np.add(inputs["h_in"], inputs["x"], out=outputs["h_out"])
            np.multiply(outputs["h_out"], inputs["x"], out=outputs["y"])

        return call


class Plain:
    def open(self, where, artifact, files, stage, options):
        print("opened", artifact.path, options.device, dict(options.properties or {}))
        return Session()


class Mine(Plain):
    also_opens = ("onnx",)


class Broken(Plain):
    def __init__(self):
        raise OSError("no licence for this machine")


class Empty:
    pass
"""
CODE = """
import sys
import numpy as np
import ashore

path, backend, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
try:
    policy = ashore.load(path, backend=backend or None, **options)
    print(policy.step({"x": np.array([[1, 2, 3]], np.float32)})["y"].tolist())
except ashore.AshoreError as error:
    print(type(error).__name__, error)
"""


def install(folder: Path, entries: str, *, name: str = "tiny-backend", module: str = MODULE) -> Path:
    """A distribution as an installer leaves it: a module and its metadata."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[ashore.backends]\n{entries}\n")
    (folder / "tiny_backend.py").write_text(module)
    return folder


def run(code: str, folder: Path, *arguments: str) -> str:
    source = str(Path(ashore.__file__).parents[1])
    path = os.pathsep.join([str(folder), source])
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(folder: Path, package: Path, backend: str = "tiny", **options: object) -> str:
    return run(CODE, folder, str(package), backend, repr(options))


def rename(package: Package, name: str) -> Path:
    def change(document: dict) -> None:
        own = document["stages"]["policy"]["artifacts"]
        own[name] = own.pop("onnx")

    support.edit_manifest(package.path, change)
    return package.path


def test_a_backend_of_another_package_runs_a_stage(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Plain")
    out = load(folder, rename(sum_package, "tiny"), device="board", properties={"fast": 1})
    assert out == "imported\nopened artifacts/policy.onnx board {'fast': 1}\n[[2.0, 8.0, 18.0]]\n"


def test_it_may_open_the_artifacts_of_another_backend(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Mine\nplain = tiny_backend:Plain")
    assert load(folder, sum_package.path).endswith("[[2.0, 8.0, 18.0]]\n")
    refused = load(folder, sum_package.path, "plain")
    assert "stage 'policy' has no artifact for 'plain'; it has ['onnx']" in refused


def test_what_others_add_is_looked_at_only_when_it_is_asked_for(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Mine\nonnx = tiny_backend:Mine")
    count = """
import sys
import importlib.metadata
scans = []
real = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **given: scans.append(given) or real(**given)
"""
    assert run(f"{count}\n{CODE}\nprint(len(scans))", folder, str(sum_package.path), "", "{}").endswith("]]\n0\n")
    command = "from ashore.cli import main\nsys.argv = ['ashore', '--help']\ntry: main()\nexcept SystemExit: pass\n"
    assert run(f"{count}\n{command}\nprint(len(scans))", folder).endswith("\n0\n")


def test_it_is_never_chosen_by_default(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Plain")
    out = load(folder, rename(sum_package, "tiny"), "")
    assert "stage 'policy' has artifacts only for ['tiny'], and this Ashore runs" in out
    assert "a backend of another package has to be named" in out
    assert "imported" not in out


@pytest.mark.parametrize("name", ["onnx", "jit"])
def test_a_name_that_ashore_has_itself_is_an_error(sum_package: Package, tmp_path: Path, name: str) -> None:
    folder = install(tmp_path / "site", f"tiny = tiny_backend:Mine\n{name} = tiny_backend:Mine")
    out = load(folder, sum_package.path)
    assert out == (
        f"BackendError tiny-backend 1.2 adds a backend {name!r} (tiny_backend:Mine), and Ashore has one of that name "
        "itself; rename it, or uninstall tiny-backend 1.2\n"
    )


def test_a_name_that_two_packages_claim_is_an_error(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Mine")
    install(folder, "tiny = tiny_backend:Plain", name="other")
    out = load(folder, sum_package.path)
    assert "both add a backend 'tiny'" in out
    assert "tiny-backend 1.2" in out
    assert "other 1.2" in out


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("nowhere:Mine", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("tiny_backend:Missing", "cannot be loaded: AttributeError: module 'tiny_backend' has no attribute 'Missing'"),
        ("tiny_backend:Broken", "cannot be made: no licence for this machine"),
        ("tiny_backend:Empty", "has no method open; see ashore.runtime.Backend"),
        ("tiny_backend:CODE", "cannot be loaded: AttributeError"),
    ],
)
def test_one_that_is_broken_says_so(sum_package: Package, tmp_path: Path, entry: str, message: str) -> None:
    folder = install(tmp_path / "site", f"tiny = {entry}")
    out = load(folder, sum_package.path)
    assert "BackendError the backend 'tiny' " in out
    assert message in out


def test_a_module_that_raises_says_so(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Mine", module="raise KeyError('a fault of theirs')")
    message = "'tiny' of tiny-backend 1.2 (tiny_backend:Mine) cannot be loaded: KeyError: 'a fault of theirs'"
    assert message in load(folder, sum_package.path)


def test_an_unknown_name_lists_what_is_installed(sum_package: Package, tmp_path: Path) -> None:
    folder = install(tmp_path / "site", "tiny = tiny_backend:Mine")
    listed = "this Ashore has ['c', 'onnx', 'openvino', 'pt2', 'tiny', 'torchscript']"
    assert f"unknown backend 'zzz'; {listed}" in load(folder, sum_package.path, "zzz")
    assert "unknown backend 'tinny'; did you mean 'tiny'?" in load(folder, sum_package.path, "tinny")
