"""``ashore verify`` and ``ashore diff`` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import support
from ashore.package import Package, read, unpack

WALKER = Path(__file__).parents[1] / "data" / "walker" / "walker.ashore"


def ashore(*arguments: object, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "ashore", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code < 2 else done.stderr


def machine(*arguments: object, code: int = 0) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "ashore", *map(str, arguments), "--json"], capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def walker(tmp_path: Path) -> Package:
    return unpack(read(WALKER), tmp_path / "walker")


def limp(document: dict[str, Any]) -> None:
    document["joints"][1]["kp"] = 0.0


def test_a_gain_of_zero_fails_with_its_joint(walker: Package) -> None:
    support.edit_manifest(walker.path, limp)
    shown = ashore("verify", walker.path, code=1)
    assert "error: joints/FL_thigh/kp: was 26.0, is 0.0; the rollout was recorded with the former" in shown
    assert "not verified" in shown
    document = machine("verify", walker.path, code=1)
    assert document["passed"] is False
    assert document["mismatches"] == []
    assert {problem["part"] for problem in document["problems"]} == {"contract", "gains"}


def test_several_backends_stand_side_by_side(walker: Package) -> None:
    shown = ashore("verify", walker.path, "--backend", "onnx", "--backend", "openvino", "--fuzz", "5", "--steps", "5")
    assert "onnx stepwise  onnx free-running  openvino stepwise  openvino free-running" in shown
    assert "onnx, drawn inputs: 5 decisions against openvino, max |error|" in shown
    assert "openvino, one long episode: 5 decisions against onnx, max |error|" in shown
    document = machine("verify", walker.path, "--backend", "onnx", "--backend", "openvino", "--fuzz", 5, "--seed", 3)
    assert [one["backend"] for one in document["backends"]] == ["onnx", "openvino"]
    assert document["backends"][0]["fuzz"]["seed"] == 3
    assert document["backends"][0]["episode"] is None
    assert len(document["backends"][1]["replay"]["traces"]["free_running"]["outputs/joint_target"]["errors"]) == 24
    assert document["ranges"]["gravity"]["unit"] is True
    assert document["sensitivity"]["silent"] == []


def test_a_difference_names_its_backend_where_there_are_several(arm_package: Package) -> None:
    wrong = support.model(support.DECIDE_MODEL.replace("2.0", "2.02"))
    support.change_file(arm_package.path, "artifacts/decide.onnx", wrong)
    shown = ashore("verify", arm_package.path, "--backend", "onnx", "--backend", "openvino", code=1)
    assert "differs onnx, stepwise, step 0: outputs/action[0, 0]" in shown
    assert "differs openvino, stepwise, step 0: outputs/action[0, 0]" in shown


def test_a_report_is_written_whether_it_passed_or_not(walker: Package, tmp_path: Path) -> None:
    report = tmp_path / "reports" / "walker.html"
    assert f"written to {report}" in ashore("verify", walker.path, "--report", report)
    assert b"Verification of walker" in report.read_bytes()
    support.edit_manifest(walker.path, limp)
    assert machine("verify", walker.path, "--report", report, code=1)["report"] == str(report)
    assert b"not verified" in report.read_bytes()
    assert [path.name for path in report.parent.iterdir()] == ["walker.html"]


def test_a_report_goes_neither_into_a_package_nor_under_another_name(walker: Package, tmp_path: Path) -> None:
    refused = ashore("verify", walker.path, "--report", walker.path / "report.html", code=3)
    assert "lies in the package" in refused
    assert "a report is an .html file" in ashore("verify", walker.path, "--report", tmp_path / "r.txt", code=3)


def test_options_that_make_no_sense_are_refused(walker: Package) -> None:
    for option in ("--steps", "--fuzz", "--seed"):
        assert ashore("verify", walker.path, option, "-1", code=2)


def test_diff_of_the_same_package_is_0(walker: Package) -> None:
    assert "the same policy" in ashore("diff", walker.path, WALKER)
    assert machine("diff", walker.path, WALKER)["same"] is True


def test_diff_of_two_packages_is_1_and_names_what_changed(walker: Package) -> None:
    support.edit_manifest(walker.path, limp)
    shown = ashore("diff", WALKER, walker.path, code=1)
    assert "joints/FL_thigh/kp: was 26.0, is 0.0" in shown
    assert shown.rstrip().endswith("different")
    document = machine("diff", WALKER, walker.path, code=1)
    assert document["contract"][0]["where"] == "joints/FL_thigh/kp"
    assert (document["contract"][0]["before"], document["contract"][0]["after"]) == (26.0, 0.0)
    assert document["outputs"][0]["max_abs_difference"] == 0.0


def test_diff_of_something_that_is_no_package_is_3(walker: Package, tmp_path: Path) -> None:
    assert "there is no package here" in ashore("diff", walker.path, tmp_path / "nothing", code=3)


def test_diff_shows_weights_and_what_could_not_be_compared(arm_package: Package, walker: Package) -> None:
    assert "not compared: outputs on the inputs of A" in ashore("diff", arm_package.path, walker.path, code=1)
    again = support.write_arm(arm_package.path.with_name("again"))
    wrong = support.model(support.DECIDE_MODEL.replace("2.0", "2.02"))
    support.change_file(again.path, "artifacts/decide.onnx", wrong)
    shown = ashore("diff", arm_package.path, again.path, code=1)
    assert "stages/decide/two: float32 [1], largest difference 0.02" in shown
    assert "outputs/action" in shown
    assert "step 0: [0, 0] of stage 'decide' was" in shown
