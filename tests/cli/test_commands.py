from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import support
from ashore import __version__
from ashore.package import Package, read, write
from ashore.package.tensors import save_arrays
from ashore.spec import (
    Artifact,
    BackendResult,
    Checkpoint,
    Finding,
    Frozen,
    Git,
    Joint,
    JointLimits,
    Limits,
    Manifest,
    Port,
    Processor,
    Provenance,
    Stage,
    State,
    Timing,
    Verification,
    Wire,
)


def ashore(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "ashore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def machine(*arguments: object, code: int = 0) -> Any:
    done = ashore(*arguments, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_help_lists_the_commands() -> None:
    done = ashore("--help")
    assert done.returncode == 0
    for command in ("inspect", "verify", "view", "bench", "play", "pack", "unpack"):
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
        "joints 0 1",
        "50 Hz",
        "4 substeps of 5 ms",
        "last_action",
        "artifacts/act.onnx",
        "0.5 -0.5",
        "keep",
        "decide/action",
        "single_pass",
    ):
        assert text in shown, text


def test_inspect_prints_the_manifest_for_machines(arm_package: Package) -> None:
    document = machine("inspect", arm_package.path)
    assert document["manifest"]["inputs"]["q"]["kind"] == "state/joint/position"
    assert document["size_bytes"] == arm_package.size


LEGS = [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]


def write_go1(out: Path) -> Package:
    """A contract with everything in it, of the size of a real quadruped's."""
    by_joint = {"dtype": "float32", "shape": (1, 12), "element_names": (None, tuple(LEGS))}
    by_axis = {"dtype": "float32", "shape": (1, 3), "element_names": (None, ("x", "y", "z"))}
    scale = Stage(
        rate="policy",
        inputs={"a": Port(dtype="float32", shape=(1, 3))},
        outputs={"b": Port(dtype="float32", shape=(1, 3))},
        processor=Processor(
            type="normalize", params={"mode": "mean_std", "statistics": "x"}, assets=("s.safetensors",)
        ),
    )
    inputs = {
        "base_angular_velocity": Port(
            kind="state/body/angular_velocity",
            unit="rad/s",
            frame="base[0]",
            source="sensor",
            connection="state:robot:root_ang_vel_b",
            **by_axis,
        ),
        "projected_gravity_vector": Port(
            kind="state/body/gravity",
            unit="1",
            frame="base",
            source="estimator",
            description="a unit vector",
            **by_axis,
        ),
        "joint_positions": Port(kind="state/joint/position", unit="rad", source="privileged", **by_joint),
        "reordered": Port(
            kind="state/joint/velocity",
            unit="rad/s",
            dtype="float32",
            shape=(1, 12),
            element_names=(None, (*LEGS[3:6], *LEGS[:3], *reversed(LEGS[6:]))),
            limits=Limits(lower=-1.5, upper=tuple(float(number) for number in range(12))),
            finite=False,
            metadata={"note": [1, None]},
        ),
        "velocity_command": Port(
            kind="command/body/velocity", unit=("m/s", "m/s", "rad/s"), source="command", **by_axis
        ),
    }
    outputs = {"joint_position_target": Port(kind="target/joint/position", unit="rad", **by_joint)}
    total = sum(port.shape[1] for port in inputs.values())
    bare = {name: Port(dtype="float32", shape=port.shape) for name, port in (*inputs.items(), *outputs.items())}
    names = list(inputs)
    text = f"policy ({', '.join(f'float[1,{port.shape[1]}] {name}' for name, port in inputs.items())}"
    text += ", float[1,12] last) => (float[1,12] joint_position_target) {\n"
    text += f"all = Concat<axis = 1>({', '.join(names)}, last)\n"
    text += "s = Constant<value_ints = [0]>()\ne = Constant<value_ints = [12]>()\na = Constant<value_ints = [1]>()\n"
    text += "joint_position_target = Slice(all, s, e, a)\n}"
    result = BackendResult(backend="onnx", runtime="x 1", max_abs_error_stepwise=0.0, max_abs_error_free_running=1.5e-7)
    manifest = Manifest(
        name="go1",
        version="1.2",
        description="walks [bold]well[/bold]",
        licence="Apache-2.0",
        timing=Timing(policy_dt_s=0.02),
        inputs=inputs,
        outputs=outputs,
        stages={
            "scale": scale,
            "policy": Stage(
                rate="policy",
                inputs={**{name: bare[name] for name in names}, "last": bare["joint_positions"]},
                outputs={"joint_position_target": bare["joint_position_target"]},
                artifacts={"onnx": Artifact(path="artifacts/policy.onnx", opset=18)},
            ),
        },
        wires=(
            *(Wire(f"inputs/{name}", f"policy/{name}") for name in names if name != "base_angular_velocity"),
            Wire("inputs/base_angular_velocity", "scale/a"),
            Wire("scale/b", "policy/base_angular_velocity"),
            Wire("policy/joint_position_target", "outputs/joint_position_target"),
            Wire("policy/joint_position_target", "states/last"),
            Wire("states/last", "policy/last"),
        ),
        states={"last": State(dtype="float32", shape=(1, 12), role="last_action")},
        joints=tuple(
            Joint(
                name=name,
                default_position=0.1 * number,
                kp=20.5,
                kd=0.5,
                effort_limit=23.7,
                velocity_limit=30.1,
                position_limits=JointLimits(lower=-1.0, upper=1.5),
                actuator="dc_motor",
            )
            for number, name in enumerate(LEGS)
        ),
        findings=(
            Finding(
                name="randomness",
                severity="warning",
                message="uses randn",
                where="env.py:12",
                tensor="noise",
                remedy="switch it off",
            ),
            Finding(name="tie", severity="info", message="a tie is broken by the order of joints"),
        ),
        constants=(
            Frozen(
                name="command",
                where="env.py:31",
                dtype="float32",
                shape=(1, 3),
                values=(0.5, 0.0, -0.25),
                lowest=-0.25,
                highest=0.5,
            ),
            Frozen(name="mask", dtype="float32", shape=(), values=(float("-inf"),)),
            Frozen(name="table", where="env.py:32", dtype="int64", shape=(8, 125), lowest=-7.5, highest=123.0),
            Frozen(name="ones", dtype="float32", shape=(40,), lowest=1.0, highest=1.0),
            Frozen(name="hole", dtype="float32", shape=(40,), lowest=float("nan"), highest=float("nan")),
            Frozen(name="rows", dtype="float32", shape=(0, 3), values=()),
            Frozen(name="mystery", dtype="float32", shape=(40,)),
        ),
        verification=Verification(status="passed", steps=50, resets=2, atol=1e-6, rtol=0.0, results=(result,)),
        provenance=Provenance(
            tools={"torch": "2.13.0"},
            created_at="2026-01-01T00:00:00Z",
            git=Git(commit="a" * 40, dirty=True),
            checkpoint=Checkpoint(name="model.pt", sha256="b" * 64),
            task="Velocity-Flat",
        ),
        metadata={"env": {"terrain": "flat"}},
    )
    assert total == 33
    stats = save_arrays({"x/mean": np.zeros(3, np.float32), "x/std": np.ones(3, np.float32)})
    files = {"artifacts/policy.onnx": support.model(text), "s.safetensors": stats}
    return write(out, manifest, files=files, initial={"last": np.zeros((1, 12), np.float32)})


def test_inspect_shows_everything_a_package_can_say_and_cuts_nothing(tmp_path: Path) -> None:
    shown = ashore("inspect", write_go1(tmp_path / "p").path).stdout
    assert "…" not in shown.replace(" … ", ""), "something was cut"
    for text in (
        "go1 1.2",
        "walks [bold]well[/bold]",
        "base_angular_velocity",
        "state/body/angular_velocity",
        "projected_gravity_vector",
        "base[0]",
        "privileged",
        "m/s m/s rad/s",
        "joints 0-11",
        "joints 3-5 0-2 11 10 9 8 7 6",
        "limits -1.5 … 0 1 2 3 4 5 6 7 8 9 10 11",
        "may hold NaN and infinities",
        "connection state:robot:root_ang_vel_b",
        "a unit vector",
        '{"note": [1, null]}',
        *LEGS,
        "dc_motor",
        "20.5",
        "23.7",
        "30.1",
        "-1 … 1.5",
        "all 0",
        "normalize mode=mean_std statistics=x",
        "s.safetensors",
        "scale/b",
        "env.py:12",
        "switch it off",
        '{"terrain": "flat"}',
        "50 steps, 2 resets on onnx (x 1)",
        "1.5e-07",
        "1e-06 + 0 |x|",
        "torch 2.13.0",
        "with uncommitted changes",
        "model.pt",
        "Velocity-Flat",
        "2026-01-01",
        "Apache-2.0",
    ):
        assert text in shown, text


def rows_of(shown: str, title: str) -> list[list[str]]:
    """The cells of a table of `ashore inspect`, without its header."""
    lines = shown[shown.index(title) :].split("\n\n")[0].splitlines()[2:]
    return [re.split(r" {2,}", line.strip()) for line in lines]


def test_inspect_shows_what_was_frozen_so_that_nobody_overlooks_a_command(tmp_path: Path) -> None:
    package = write_go1(tmp_path / "p").path
    title = "Frozen constants (never change; check that none is a command)"
    assert rows_of(ashore("inspect", package).stdout, title) == [
        ["command", "env.py:31", "float32 1x3", "0.5 0 -0.25"],
        ["mask", "-", "float32 scalar", "-inf"],
        ["table", "env.py:32", "int64 8x125", "-7.5 … 123"],
        ["ones", "-", "float32 40", "all 1"],
        ["hole", "-", "float32 40", "holds NaN, so it has no range"],
        ["rows", "-", "float32 0x3", "empty"],
        ["mystery", "-", "float32 40", "not recorded"],
    ]
    constants = machine("inspect", package)["manifest"]["constants"]
    assert constants[0] == {
        "name": "command",
        "where": "env.py:31",
        "dtype": "float32",
        "shape": [1, 3],
        "values": [0.5, 0.0, -0.25],
        "lowest": -0.25,
        "highest": 0.5,
    }
    assert constants[1]["values"] == ["-inf"]


def test_inspect_shows_what_was_allowed_with_its_severity(tmp_path: Path) -> None:
    package = write_go1(tmp_path / "p").path
    assert rows_of(ashore("inspect", package).stdout, "Findings that were allowed") == [
        ["warning", "randomness", "env.py:12", "noise", "uses randn", "switch it off"],
        ["info", "tie", "-", "-", "a tie is broken by the order of joints", "-"],
    ]
    assert [finding["severity"] for finding in machine("inspect", package)["manifest"]["findings"]] == [
        "warning",
        "info",
    ]


def test_inspect_says_nothing_of_constants_where_there_are_none(arm_package: Package) -> None:
    shown = ashore("inspect", arm_package.path).stdout
    assert "Frozen" not in shown
    assert "Findings" not in shown


def test_inspect_works_on_a_directory_whose_name_ends_like_a_model(arm_package: Package) -> None:
    other = arm_package.path.rename(arm_package.path.with_name("arm.onnx"))
    assert machine("inspect", other)["manifest"]["name"] == "arm"


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


def test_verify_says_what_ran_and_takes_the_name_of_an_exporter(arm_package: Package) -> None:
    assert machine("verify", arm_package.path)["backend"] == "onnx"
    assert machine("verify", arm_package.path, "--backend", "onnx-dynamo")["backend"] == "onnx"
    refused = machine("verify", arm_package.path, "--backend", "jit", code=3)
    assert "has no artifact for 'torchscript'; it has ['onnx']" in refused["message"]


def test_verify_and_bench_take_a_backend_and_a_device(arm_package: Package) -> None:
    chosen = ("--backend", "openvino", "--device", "CPU")
    document = machine("verify", arm_package.path, *chosen)
    assert (document["backend"], document["passed"]) == ("openvino", True)
    document = machine("bench", arm_package.path, "--samples", 100, *chosen)
    assert document["backend"] == "openvino"
    assert "on 'openvino', 1 thread(s)" in ashore("bench", arm_package.path, "--samples", 100, *chosen).stdout
    for command in ("verify", "bench"):
        refused = ashore(command, arm_package.path, "--backend", "openvino", "--device", "npu")
        assert refused.returncode == 3
        assert "device 'npu' is not there; OpenVINO has ['CPU" in refused.stderr


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


def test_pack_finds_the_name_of_the_folder_it_stands_in(arm_package: Package) -> None:
    command = [sys.executable, "-m", "ashore", "pack", "."]
    done = subprocess.run(command, capture_output=True, text=True, cwd=arm_package.path)
    assert done.returncode == 0, done.stderr
    assert read(arm_package.path.with_name("arm.ashore")).manifest == arm_package.manifest


def test_verify_prints_json_even_where_json_has_no_number(tmp_path: Path) -> None:
    from ashore.package import Recording
    from ashore.spec import single_stage

    port = Port(dtype="float32", shape=(1, 1), finite=False)
    manifest = single_stage("inf", inputs={"x": port}, outputs={"y": port}, artifacts={"onnx": Artifact(path="a.onnx")})
    recording = Recording()
    recording.step({"x": support.f32(1)}, {"y": support.f32(np.inf)})
    files = {"a.onnx": support.model("policy (float[1,1] x) => (float[1,1] y) {\ny = Identity(x)\n}")}
    package = write(tmp_path / "p", manifest, files=files, golden=recording.golden())
    done = ashore("verify", package.path, "--json")
    document = json.loads(done.stdout, parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    assert document["mismatches"][0]["expected"] == "inf"


def test_verify_says_so_where_the_package_asks_for_a_looser_tolerance(arm_package: Package) -> None:
    result = {"backend": "onnx", "runtime": "x", "max_abs_error_stepwise": 0.0, "max_abs_error_free_running": 0.0}
    record = {"status": "passed", "steps": 6, "atol": 1e-3, "rtol": 0.0, "results": [result]}
    support.edit_manifest(arm_package.path, lambda document: document.update(verification=record))
    assert "the package itself asks for this tolerance" in ashore("verify", arm_package.path).stdout
    assert machine("verify", arm_package.path)["tolerance_from"] == "package"


def test_a_terminal_without_unicode_is_no_reason_to_crash(arm_package: Package) -> None:
    command = [sys.executable, "-m", "ashore", "bench", str(arm_package.path), "--samples", "100"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_wrong_command_line_is_exit_code_2() -> None:
    assert ashore("verfy").returncode == 2
    assert ashore("verify").returncode == 2
    assert ashore("bench", "x", "--threads", "99999999999").returncode == 2
