from __future__ import annotations

import json
from pathlib import Path

import pytest

import support
from ashore.package import Package, read
from cli.convert_command import machine, run
from interop.policy_package.policy_package_cases import write_act, write_pi05


def test_a_directory_becomes_a_package_and_a_directory_again(tmp_path: Path) -> None:
    source = write_act(tmp_path / "source")
    done = run(source, tmp_path / "act.ashore", "--from", "policy_package")
    assert done.returncode == 0, done.stderr
    assert "act.ashore: 4 files" in done.stdout
    assert "warning: the format does not say how ['observation.images.cam0'] are resized" in done.stdout
    assert "warning: the format drops ACT's temporal ensembling" in done.stdout
    done = run(tmp_path / "act.ashore", tmp_path / "again", "--to", "policy_package")
    assert done.returncode == 0, done.stderr
    assert "again: " in done.stdout
    assert "bytes, single_pass" in done.stdout
    assert "nothing to compare with: the package holds no golden rollout" in done.stdout
    models = [json.loads((folder / "manifest.json").read_text())["model"] for folder in (source, tmp_path / "again")]
    for model in models:
        model["preprocessors"][0]["features"].sort()
    assert models[0] == models[1]


def test_machines_get_the_names_of_the_inputs(tmp_path: Path) -> None:
    source = write_pi05(tmp_path / "source")
    document = machine(source, tmp_path / "package", "--from", "policy_package")
    assert document["path"] == str(tmp_path / "package")
    assert [message.split(" ")[0] for message in document["findings"]] == [
        "the",
        "'observation.state'",
        "tokenizer/tokenizer.json",
    ]
    assert document["size_bytes"] == read(tmp_path / "package").size
    document = machine(tmp_path / "package", tmp_path / "out", "--to", "policy_package")
    assert document == {
        "path": str(tmp_path / "out"),
        "size_bytes": sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file()),
        "runner": "kv_cache_flow",
        "inputs": {
            "observation.images.top": "image_0",
            "observation.language.tokens": "lang_tokens",
            "observation.language.attention_mask": "lang_masks",
        },
        "replayed_steps": 0,
        "max_abs_error": 0.0,
    }


def test_what_cannot_be_converted_is_an_error_that_leaves_nothing(sum_package: Package, tmp_path: Path) -> None:
    done = run(sum_package.path, tmp_path / "out", "--to", "policy_package")
    assert done.returncode == 3
    assert "a policy_package cannot express this package" in done.stderr
    answer = machine(sum_package.path, tmp_path / "out", "--from", "policy_package", code=3)
    assert answer["error"] == "PackageError"
    assert "format: expected 'policy_package', got 'ashore-policy-package'" in answer["message"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sum"]


@pytest.mark.parametrize(
    "options", [("--to", "policy_package", "--debug"), ("--to", "policy_package", "--backend", "onnx")]
)
def test_options_of_other_formats_are_a_wrong_command(
    options: tuple[str, ...], sum_package: Package, tmp_path: Path
) -> None:
    assert run(sum_package.path, tmp_path / "out", *options).returncode == 2


def test_onnx_is_asked_for_only_where_files_have_to_be_joined(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['onnx'] = None\nsys.argv = {!r}\nfrom ashore.cli import main\nmain()"
    for source, name in ((write_act(tmp_path / "act"), "one"), (write_pi05(tmp_path / "pi05"), "two")):
        arguments = ["ashore", "convert", str(source), str(tmp_path / name), "--from", "policy_package"]
        done = support.run_python(code.format(arguments))
        assert done.returncode == (0 if name == "one" else 3), done.stderr
        if name == "two":
            assert "needs onnx; use pip install 'ashore[export]'" in done.stderr
