from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ashore
import support
from ashore.package import Package, read
from cli.convert_command import machine, run


def test_a_package_becomes_a_leapp_directory_and_a_package_again(sum_package: Package, tmp_path: Path) -> None:
    done = run(sum_package.path, "--to", "leapp", tmp_path / "leapp")
    assert done.returncode == 0, done.stderr
    assert "inputs/x   policy/x" in done.stdout
    assert "states/h   policy/h_in" in done.stdout
    names = sorted(path.name for path in (tmp_path / "leapp").iterdir())
    assert names == ["policy.onnx", "sum.yaml", "sum_initial_values.safetensors"]
    done = run(tmp_path / "leapp", "--from", "leapp", tmp_path / "again.ashore")
    assert done.returncode == 0, done.stderr
    assert "again.ashore: 3 files" in done.stdout
    again = ashore.load(tmp_path / "again.ashore")
    reference = support.Sum()
    for x in support.inputs_like((1, 3), 5, seed=4):
        np.testing.assert_array_equal(again.step({"x": x})["y"], reference.step(x))


def test_machines_get_the_names_that_leapp_goes_by(sum_package: Package, tmp_path: Path) -> None:
    document = machine(sum_package.path, tmp_path / "leapp", "--to", "leapp")
    assert document["inputs"] == {"x": ["policy/x"]}
    assert document["outputs"] == {"y": "policy/y"}
    assert document["states"] == {"h": ["policy/h_in"]}
    assert document["yaml"] == str(tmp_path / "leapp" / "sum.yaml")
    document = machine(document["yaml"], tmp_path / "again", "--from", "leapp")
    assert document["path"] == str(tmp_path / "again")
    assert document["findings"] == []
    assert document["size_bytes"] == read(tmp_path / "again").size


def test_what_leapp_cannot_express_is_an_error_that_names_it(arm_package: Package, tmp_path: Path) -> None:
    done = run(arm_package.path, "--to", "leapp", tmp_path / "out")
    assert done.returncode == 3
    assert "stage 'act' runs at the rate 'substep'" in done.stderr
    assert machine(arm_package.path, "--to", "leapp", tmp_path / "out", code=3)["error"] == "ExportError"
    assert not (tmp_path / "out").exists()


def test_what_is_no_leapp_directory_is_an_error(sum_package: Package, tmp_path: Path) -> None:
    done = run(sum_package.path, "--from", "leapp", tmp_path / "out")
    assert done.returncode == 3
    assert "expected one .yaml file here, found none" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_was_set_aside_is_said(sum_package: Package, tmp_path: Path) -> None:
    run(sum_package.path, "--to", "leapp", tmp_path / "leapp")
    yaml = tmp_path / "leapp" / "sum.yaml"
    port = "- name: y\n      dtype: float32\n      shape: [1, 3]\n      type: tensor\n"
    assert port in yaml.read_text()
    yaml.write_text(
        yaml.read_text().replace(port, port + "      kind: target/body/pose\n").replace("[a, b, c]", "null")
    )
    done = run(tmp_path / "leapp", "--from", "leapp", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "warning: the kind 'target/body/pose' was set aside" in done.stdout


@pytest.mark.parametrize(
    "options", [(), ("--to", "leapp", "--from", "leapp"), ("--from", "leapp", "--backend", "onnx")]
)
def test_the_direction_must_be_said_once(options: tuple[str, ...], sum_package: Package, tmp_path: Path) -> None:
    assert run(sum_package.path, tmp_path / "out", *options).returncode == 2


def test_an_unknown_format_is_a_wrong_command(sum_package: Package, tmp_path: Path) -> None:
    assert run(sum_package.path, tmp_path / "out", "--to", "lepp").returncode == 2


def test_a_backend_that_is_not_there_is_an_error(sum_package: Package, tmp_path: Path) -> None:
    done = run(sum_package.path, tmp_path / "out", "--to", "leapp", "--backend", "jit")
    assert done.returncode == 3
    assert "has artifacts for ['onnx'], and none for torchscript" in done.stderr


def test_without_pyyaml_the_error_says_what_to_install(sum_package: Package, tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['yaml'] = None\n"
        f"sys.argv = ['ashore', 'convert', {str(sum_package.path)!r}, {str(tmp_path / 'out')!r}, '--to', 'leapp']\n"
        "from ashore.cli import main\nmain()"
    )
    done = support.run_python(code)
    assert done.returncode == 3
    assert "needs PyYAML; install it with ashore[leapp]" in done.stderr
