"""Plain files: names, order, opset, TorchScript that remembers, and files that are there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from actor.comparing import ATOL, Plain
from actor.test_recording import ActorCritic, Branching, Poisoned
from ashore.actor import export_policy_as_jit, export_policy_as_onnx
from ashore.actor.plain import METADATA
from ashore.errors import ExportError, InputError, PackageError

QUICK = {"validation_steps": 3}
OBS = torch.tensor([[1.0, -2.0, 3.0, -4.0, 5.0]])


def own_steps(model: Any, count: int) -> list[np.ndarray]:
    """What the model decides, step by step, with a reset in the middle."""
    made = []
    model.eval()
    if model.memory_a is not None:
        model.memory_a.hidden_states = None
    with torch.no_grad():
        for step in range(count):
            if step == count // 2:
                model.reset(torch.ones(1, dtype=torch.bool))
            made.append(model.act_inference(OBS * (step + 1) / count).numpy())
    return made


@pytest.mark.parametrize(
    ("kind", "ports"),
    [
        (None, (["obs"], ["actions"])),
        (nn.LSTM, (["obs", "h_in", "c_in"], ["actions", "h_out", "c_out"])),
        (nn.GRU, (["obs", "h_in"], ["actions", "h_out"])),
    ],
)
def test_the_names_are_those_of_the_seed(tmp_path: Path, kind: Any, ports: Any) -> None:
    model = ActorCritic(kind)
    export_policy_as_onnx(model, str(tmp_path / "made" / "here"), **QUICK)
    plain = Plain(tmp_path / "made" / "here" / "policy.onnx")
    assert (plain.inputs, plain.outputs) == ports
    plain.reset(np.array([True]))
    for step, expected in enumerate(own_steps(model, 6)):
        if step == 3:
            plain.reset(np.array([True]))
        np.testing.assert_allclose(plain.step({"obs": (OBS * (step + 1) / 6).numpy()}), expected, atol=ATOL)


def test_opset_and_what_is_inside_are_recorded_in_the_file(tmp_path: Path) -> None:
    export_policy_as_onnx(
        ActorCritic(nn.GRU), tmp_path, filename="leg.onnx", opset=17, backend="onnx-torchscript", **QUICK
    )
    model = onnx.load(str(tmp_path / "leg.onnx"))
    onnx.checker.check_model(model, full_check=True)
    note = json.loads(next(one.value for one in model.metadata_props if one.key == METADATA))
    assert note["opset"] == model.opset_import[0].version == 17
    assert note["architecture"] == "GRU + MLP"
    assert note["normalizers"][0]["formula"] == "(x - mean) / (std + 0.01)"
    assert note["verified_steps"] >= 15
    assert list(tmp_path.iterdir()) == [tmp_path / "leg.onnx"]


def test_one_row_or_any_number(tmp_path: Path) -> None:
    model = ActorCritic()
    export_policy_as_onnx(model, tmp_path, None, "one.onnx", False, **QUICK)
    export_policy_as_onnx(model, tmp_path, filename="any.onnx", dynamic_batch=True, **QUICK)
    shapes = [Plain(tmp_path / name).session.get_inputs()[0].shape for name in ("one.onnx", "any.onnx")]
    assert shapes == [[1, 5], ["batch", 5]]


@pytest.mark.parametrize("kind", [None, nn.LSTM, nn.GRU])
def test_a_torchscript_file_remembers_and_can_be_reset(tmp_path: Path, kind: Any) -> None:
    model = ActorCritic(kind)
    export_policy_as_jit(model, None, str(tmp_path), filename="policy.pt", **QUICK)
    loaded = torch.jit.load(str(tmp_path / "policy.pt"))
    for step, expected in enumerate(own_steps(model, 6)):
        if step == 3:
            loaded.reset()
        with torch.no_grad():
            np.testing.assert_allclose(loaded(OBS * (step + 1) / 6).numpy(), expected, atol=ATOL)


def test_scripts_of_legged_gym_give_the_folder_in_second_place(tmp_path: Path) -> None:
    export_policy_as_jit(ActorCritic(), str(tmp_path), **QUICK)
    assert (tmp_path / "policy.pt").exists()
    with pytest.raises(InputError, match="path: expected the folder to write the file into"):
        export_policy_as_jit(ActorCritic())


@pytest.mark.parametrize("export", [export_policy_as_onnx, export_policy_as_jit])
@pytest.mark.parametrize(("model", "error"), [(Branching, ExportError), (Poisoned, InputError)])
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, export: Any, model: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        export(model(), path=tmp_path / "made", **QUICK)
    assert not list(tmp_path.iterdir())


def test_an_export_that_fails_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(b"of yesterday")
    with pytest.raises(InputError):
        export_policy_as_onnx(Poisoned(), tmp_path, **QUICK)
    assert (tmp_path / "policy.onnx").read_bytes() == b"of yesterday"


@pytest.mark.parametrize(
    ("filename", "error", "match"),
    [
        ("policy.pt", InputError, "filename: expected a name that ends in .onnx, got 'policy.pt'"),
        ("../policy.onnx", InputError, "filename: expected a name that ends in .onnx"),
        ("there.onnx", PackageError, "is there already, and is no plain file"),
    ],
)
def test_places_that_cannot_be_are_refused(tmp_path: Path, filename: str, error: type[Exception], match: str) -> None:
    (tmp_path / "there.onnx").mkdir()
    with pytest.raises(error, match=match):
        export_policy_as_onnx(ActorCritic(), tmp_path, filename=filename, **QUICK)


def test_a_file_that_does_not_decide_as_the_actor_did_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is compared after it was written: whatever changes it on the way is seen."""
    from ashore.actor import plain

    renamed = plain._rename

    def spoiled(*given: Any) -> bytes:
        model = onnx.load_from_string(renamed(*given))
        weight = next(one for one in model.graph.initializer if len(one.dims) == 2 and one.dims[0] > 1)
        values = onnx.numpy_helper.to_array(weight) * 1.01
        weight.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float32), weight.name))
        return model.SerializeToString()

    monkeypatch.setattr(plain, "_rename", spoiled)
    with pytest.raises(ExportError, match=r"policy.onnx: actions differs from what the actor gave in step 0"):
        export_policy_as_onnx(ActorCritic(), tmp_path / "made", **QUICK)
    assert not list(tmp_path.iterdir())
