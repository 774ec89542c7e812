from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

import support
from ashore import __version__
from ashore.package import Package, read


def ashore(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "ashore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def machine(*arguments: object, code: int = 0) -> Any:
    done = ashore(*arguments, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_help_lists_the_commands_and_answers_at_once() -> None:
    began = time.perf_counter()
    done = ashore("--help")
    assert time.perf_counter() - began < 5.0, "a sanity bound only; the figure is in bench/"
    assert done.returncode == 0
    for command in ("inspect", "verify", "bench", "pack", "unpack"):
        assert command in done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = "import sys\nsys.argv = ['ashore', '--help']\nfrom ashore.cli import main\ntry:\n    main()\n"
    code += "except SystemExit:\n    pass\nprint(sorted({'numpy', 'onnxruntime', 'msgspec'} & set(sys.modules)))"
    assert support.run_python(code).stdout.endswith("[]\n")


def test_the_version_is_printed() -> None:
    assert ashore("--version").stdout == f"ashore {__version__}\n"


def test_inspect_shows_what_a_deployment_engineer_needs(arm_package: Package) -> None:
    shown = ashore("inspect", arm_package.path).stdout
    for text in (
        "state/joint/position",
        "rad/s",
        "sensor",
        "shoulder, elbow",
        "50 Hz",
        "4 substeps of 5 ms",
        "last_action",
        "artifacts/act.onnx",
        "0.5",
        "keep",
    ):
        assert text in shown, text


def test_inspect_prints_the_manifest_for_machines(arm_package: Package) -> None:
    document = machine("inspect", arm_package.path)
    assert document["manifest"]["inputs"]["q"]["kind"] == "state/joint/position"
    assert document["size_bytes"] == arm_package.size


def test_inspect_shows_everything_a_package_can_say(tmp_path: Path) -> None:
    import msgspec
    import numpy as np

    from ashore.package import write
    from ashore.package.tensors import save_arrays
    from ashore.spec import (
        Checkpoint,
        Finding,
        Git,
        Joint,
        JointLimits,
        Limits,
        Port,
        Processor,
        Provenance,
        Verification,
    )

    manifest = support.sum_manifest()
    port = Port(
        dtype="float32",
        shape=(1, 3),
        kind="state/body/linear_velocity",
        unit=("m/s", "m/s", "m/s"),
        frame="base[0]",
        source="privileged",
        limits=Limits(lower=(-1.0, None, -3.0), upper=2.5),
    )
    manifest = msgspec.structs.replace(
        manifest,
        version="1.2",
        description="walks [bold]well[/bold]",
        licence="Apache-2.0",
        inputs={"x": port},
        joints=(Joint(name="hip", kp=20.5, position_limits=JointLimits(lower=-1.0, upper=1.5), actuator="dc_motor"),),
        preprocessors=(
            Processor(type="normalize", port="x", params={"mode": "mean_std"}, artifact="stats.safetensors"),
        ),
        findings=(Finding(name="randomness", severity="warning", message="uses randn", where="env.py:12"),),
        verification=Verification(
            status="passed", backend="onnx", steps=50, resets=2, max_abs_error_free_running=1.5e-7
        ),
        provenance=Provenance(
            tools={"torch": "2.13.0"},
            created_at="2026-01-01T00:00:00Z",
            git=Git(commit="a" * 40, dirty=True),
            checkpoint=Checkpoint(name="model.pt", sha256="b" * 64),
            task="Velocity-Flat",
        ),
    )
    contents = support.sum_contents()
    stats = save_arrays({"x/mean": np.zeros(3, np.float32), "x/std": np.ones(3, np.float32)})
    contents["files"]["stats.safetensors"] = stats
    package = write(tmp_path / "p", manifest, **contents)
    shown = ashore("inspect", package.path).stdout
    for text in (
        "sum 1.2",
        "walks [bold]well[/bold]",
        "base[0]",
        "privileged",
        "m/s, m/s, m/s",
        "-1, -, -3 … 2.5",
        "dc_motor",
        "20.5",
        "-1 … 1.5",
        "mode=mean_std",
        "env.py:12",
        "50 steps, 2 resets on onnx",
        "1.5e-07",
        "torch 2.13.0",
        "with uncommitted changes",
        "model.pt",
        "Velocity-Flat",
        "2026-01-01",
        "Apache-2.0",
    ):
        assert text in shown, text


def test_inspect_works_on_a_bare_onnx_file(tmp_path: Path) -> None:
    made = onnx.load_from_string(support.model(support.SUM_MODEL))
    onnx.helper.set_model_props(made, {"note": "hello \x1b[31m"})
    onnx.save(made, tmp_path / "bare.onnx")
    shown = ashore("inspect", tmp_path / "bare.onnx").stdout
    assert "h_in" in shown
    assert "1x3" in shown
    assert "hello" in shown
    assert "\x1b" not in shown
    document = machine("inspect", tmp_path / "bare.onnx")
    assert [port["name"] for port in document["inputs"]] == ["x", "h_in"]
    assert document["outputs"][0] == {"name": "y", "type": "tensor(float)", "shape": [1, 3]}


def test_inspect_works_on_a_bare_onnx_file_with_its_weights_beside_it(tmp_path: Path) -> None:
    import numpy as np

    weights = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 64]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weights])
    opset = onnx.helper.make_opsetid("", 18)
    made = onnx.helper.make_model(graph, ir_version=10, opset_imports=[opset])
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    assert (tmp_path / "m.onnx.data").exists()
    assert machine("inspect", tmp_path / "m.onnx")["inputs"][0]["shape"] == [1, 64]


def test_verify_passes_and_says_so(arm_package: Package) -> None:
    done = ashore("verify", arm_package.path)
    assert done.returncode == 0
    assert "verified: the saved files compute what was recorded" in done.stdout
    document = machine("verify", arm_package.path)
    assert document["passed"] is True
    assert document["max_abs_error"]["free_running"]["outputs/torque"] == 0.0


def test_verify_fails_with_one_and_names_step_port_element_and_values(arm_package: Package) -> None:
    support.change_file(
        arm_package.path, "artifacts/decide.onnx", support.model(support.DECIDE_MODEL.replace("2.0", "2.02"))
    )
    done = ashore("verify", arm_package.path)
    assert done.returncode == 1
    assert "differs stepwise, step 0: outputs/action[0, 0]: expected" in done.stdout
    assert "not verified" in done.stdout
    document = machine("verify", arm_package.path, code=1)
    first = document["mismatches"][0]
    assert (first["port"], first["element"], document["passed"]) == ("outputs/action", "[0, 0]", False)
    assert first["expected"] != first["got"]


def test_verify_takes_a_tolerance(arm_package: Package) -> None:
    support.change_file(
        arm_package.path, "artifacts/decide.onnx", support.model(support.DECIDE_MODEL.replace("2.0", "2.000001"))
    )
    assert ashore("verify", arm_package.path).returncode == 0
    assert ashore("verify", arm_package.path, "--atol", "0", "--rtol", "0").returncode == 1


def test_bench_reports_percentiles_with_their_sample_size(arm_package: Package) -> None:
    document = machine("bench", arm_package.path, "--samples", 200)
    assert [timing["rate"] for timing in document["timings"]] == ["policy", "substep"]
    for timing in document["timings"]:
        assert timing["policy"]["samples"] == timing["bare"]["samples"] == 200
        assert timing["policy"].keys() == {"samples", "p50_us", "p99_us", "p999_us"}
        assert timing["ratio_p50"] > 0
    shown = ashore("bench", arm_package.path, "--samples", 200).stdout
    assert "bare session.run" in shown
    assert "of its 20 ms at p99" in shown


def test_pack_and_unpack_go_there_and_back(arm_package: Package) -> None:
    done = ashore("pack", arm_package.path)
    assert done.returncode == 0, done.stderr
    packed = arm_package.path.with_name("arm.ashore")
    assert read(packed).manifest == arm_package.manifest
    assert machine("unpack", packed, arm_package.path.with_name("again"))["files"] == 5
    assert read(arm_package.path.with_name("again")).manifest == arm_package.manifest
    assert machine("pack", arm_package.path, packed.with_name("other.ashore"))["path"].endswith("other.ashore")


def test_unpack_goes_beside_the_file_by_default(arm_package: Package, tmp_path: Path) -> None:
    ashore("pack", arm_package.path, tmp_path / "there.ashore")
    assert ashore("unpack", tmp_path / "there.ashore").returncode == 0
    assert read(tmp_path / "there").manifest == arm_package.manifest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pack", "FILE"), "is one file already"),
        (("unpack", "DIR"), "is a directory already"),
        (("unpack", "ODD"), "does not end in .ashore; say where to unpack it"),
        (("verify", "NOTHING"), "there is no package here"),
        (("inspect", "NOTHING.onnx"), "there is no such file"),
        (("bench", "NOTHING"), "there is no package here"),
    ],
)
def test_what_is_refused_is_one_message_and_exit_code_3(
    arm_package: Package, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    from ashore.package import pack

    packed = pack(arm_package, tmp_path / "p.ashore").path
    odd = tmp_path / "p.zip"
    odd.write_bytes(packed.read_bytes())
    places = {"FILE": packed, "DIR": arm_package.path, "ODD": odd}
    command, place = arguments
    done = ashore(command, places.get(place, tmp_path / place))
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    refused = machine(command, places.get(place, tmp_path / place), code=3)
    assert message in refused["message"]


def test_a_wrong_command_line_is_exit_code_2() -> None:
    assert ashore("verfy").returncode == 2
    assert ashore("verify").returncode == 2
