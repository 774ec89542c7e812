from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import support
from ashore.package import Package, read
from cli.convert_command import machine, run
from interop.exploy.exploy_cases import foreign_model


def test_a_package_becomes_one_file_and_a_package_again(arm_package: Package, tmp_path: Path) -> None:
    done = run(arm_package.path, tmp_path / "policy.onnx", "--to", "exploy")
    assert done.returncode == 0, done.stderr
    assert "policy.onnx: " in done.stdout
    assert "bytes, decides every 4 ticks" in done.stdout
    assert "22 ticks of the golden rollout agree, to 0" in done.stdout
    assert "warning: state 'ticks' is kept on a reset of the package" in done.stdout
    assert not (tmp_path / "debug").exists()
    done = run(tmp_path / "policy.onnx", tmp_path / "again.ashore", "--from", "exploy")
    assert done.returncode == 0, done.stderr
    assert "again.ashore: 4 files" in done.stdout
    assert read(tmp_path / "again.ashore").manifest.wires == arm_package.manifest.wires


def test_machines_get_the_names_of_the_ports(sum_package: Package, tmp_path: Path) -> None:
    document = machine(sum_package.path, tmp_path / "policy.onnx", "--to", "exploy", "--debug")
    assert document["path"] == str(tmp_path / "policy.onnx")
    assert document["size_bytes"] == (tmp_path / "policy.onnx").stat().st_size
    assert document["inputs"] == ["ctx.step_count", "x", "memory.h.in", "memory.decided.in"]
    assert document["outputs"] == ["y", "memory.h.out", "memory.decided.out"]
    assert document["memory"] == {"h": ["memory.h.in", "memory.h.out"]}
    assert (document["decimation"], document["replayed_ticks"], document["warnings"]) == (1, 8, [])
    folder = tmp_path / "debug"
    assert document["debug"] == [str(folder / f"policy_{name}.onnx") for name in ("default", "process_actions")]
    assert sorted(map(str, folder.iterdir())) == document["debug"]
    document = machine(tmp_path / "policy.onnx", tmp_path / "again", "--from", "exploy")
    assert (document["path"], document["findings"]) == (str(tmp_path / "again"), [])


def test_what_a_foreign_file_left_open_is_said(tmp_path: Path) -> None:
    onnx.save(foreign_model(), tmp_path / "policy.onnx")
    done = run(tmp_path / "policy.onnx", tmp_path / "out", "--from", "exploy")
    assert done.returncode == 0, done.stderr
    assert "warning: the file does not say what ['actions', 'out'] start from" in done.stdout


def test_what_cannot_be_converted_is_an_error_that_leaves_nothing(sum_package: Package, tmp_path: Path) -> None:
    done = run(sum_package.path, tmp_path / "policy.pt", "--to", "exploy")
    assert done.returncode == 3
    assert "the name of an ONNX file ends in .onnx" in done.stderr
    assert machine(sum_package.path, tmp_path / "out", "--from", "exploy", code=3)["error"] == "PackageError"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sum"]


@pytest.mark.parametrize(
    "options",
    [
        ("--to", "exploy", "--from", "exploy"),
        ("--to", "exploy", "--backend", "onnx"),
        ("--to", "leapp", "--debug"),
        ("--from", "exploy", "--debug"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_command(
    options: tuple[str, ...], sum_package: Package, tmp_path: Path
) -> None:
    assert run(sum_package.path, tmp_path / "out.onnx", *options).returncode == 2


@pytest.mark.parametrize("direction", ["--to", "--from"])
def test_without_onnx_the_error_says_what_to_install(direction: str, sum_package: Package, tmp_path: Path) -> None:
    arguments = ["ashore", "convert", str(sum_package.path), str(tmp_path / "out.onnx"), direction, "exploy"]
    code = f"import sys\nsys.modules['onnx'] = None\nsys.argv = {arguments!r}\nfrom ashore.cli import main\nmain()"
    done = support.run_python(code)
    assert done.returncode == 3
    assert "converting to and from exploy needs onnx; use pip install 'ashore[export]'" in done.stderr
