"""Transformer actor-critics of the BERT form: trained a little, saved, loaded in a process of its own, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import ashore
import support
from actor.comparing import ATOL, ROWS, Pair, Plain, varied, worst_error
from actor.transformers import ReferenceOnly, TransformerActorCritic
from ashore.actor import export_policy_as_onnx

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # the fused path of a trainer
OBS, REF, ACTIONS, LENGTH = 12, 9, 3, 3


def draw(rows: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """References of varying length: none, some of it, all of it."""
    lengths = torch.randint(0, LENGTH + 1, (rows, 1), generator=generator)
    return {
        "obs": torch.randn(rows, OBS, generator=generator),
        "ref_obs": torch.randn(rows, REF, generator=generator),
        "ref_mask": torch.arange(LENGTH) < lengths,
    }


def decide(model: Any) -> Any:
    def decided(inputs: Any) -> np.ndarray:
        return model.act_inference(inputs["obs"], (inputs["ref_obs"], inputs["ref_mask"])).numpy()

    return decided


def trained(model: Any) -> Any:
    """A model that has learned something: its weights are no longer alike, and references matter where it has some."""
    optimizer, generator = torch.optim.Adam(model.actor.parameters(), lr=3e-3), torch.Generator().manual_seed(0)
    model.train()
    for _ in range(60):
        given = draw(64, generator)
        there = given["ref_mask"].float().repeat_interleave(REF // LENGTH, dim=1)
        wanted = given["obs"][:, :ACTIONS] + 0.5 * (given["ref_obs"] * there)[:, :ACTIONS]
        refs = (given["ref_obs"], given["ref_mask"]) if model.actor.ref_obs_size else None
        loss = (model.act_inference(given["obs"], refs) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def drawn_alone(rows: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Observations over three steps, without references."""
    return {"obs": torch.randn(rows, OBS, generator=generator)}


def decide_alone(model: Any) -> Any:
    return lambda inputs: model.act_inference(inputs["obs"]).numpy()


_EXPORT = """
import sys, torch
from actor.comparing import QUICK, with_file
from actor.transformers import TransformerActorCritic
from ashore.actor import export_actor
model = TransformerActorCritic(12, 9, 3)
model.load_state_dict(torch.load("model.pt", weights_only=True))
shapes = {"obs": torch.zeros(1, 12), "ref_obs": torch.zeros(1, 9), "ref_mask": torch.ones(1, 3, dtype=torch.bool)}
with_file(export_actor(model, "bert", example_obs=shapes, batch="dynamic", **QUICK))
alone = TransformerActorCritic(12, 0, 3)
alone.load_state_dict(torch.load("alone.pt", weights_only=True))
with_file(export_actor(alone, "alone", batch="dynamic", **QUICK))
"""


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, Any]:
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    model = trained(TransformerActorCritic(OBS, REF, ACTIONS))
    torch.save(model.state_dict(), folder / "model.pt")
    torch.save(trained(TransformerActorCritic(OBS, 0, ACTIONS)).state_dict(), folder / "alone.pt")
    places = [str(Path(__file__).parents[1]), str(Path(ashore.__file__).parents[1])]
    done = support.run_python(f"import os, sys; sys.path[:0] = {places!r}; os.chdir({str(folder)!r}){_EXPORT}")
    assert done.returncode == 0, done.stderr
    return Pair(ashore.package.read(folder / "bert"), folder / "bert.onnx"), model.eval()


@pytest.mark.parametrize("rows", [1, ROWS])
def test_package_and_file_decide_as_a_transformer_over_observations_alone_does(
    rows: int, bert: tuple[Pair, Any]
) -> None:
    folder = bert[0].file.parent
    model = TransformerActorCritic(OBS, 0, ACTIONS).eval()
    model.load_state_dict(torch.load(folder / "alone.pt", weights_only=True))
    pair = Pair(ashore.package.read(folder / "alone"), folder / "alone.onnx")
    assert Plain(pair.file).inputs == ["obs"]
    assert varied(decide_alone(model), drawn_alone) > 0.3
    assert worst_error(pair, drawn_alone, decide_alone(model), lambda _: None, rows) <= ATOL


@pytest.mark.parametrize("rows", [1, ROWS])
def test_package_and_file_decide_as_the_transformer_does(rows: int, bert: tuple[Pair, Any]) -> None:
    pair, model = bert
    assert varied(decide(model), draw) > 0.3
    assert worst_error(pair, draw, decide(model), lambda _: None, rows) <= ATOL


def test_the_ports_are_those_of_the_seed(bert: tuple[Pair, Any]) -> None:
    plain = Plain(bert[0].file)
    assert (plain.inputs, plain.outputs) == (["obs", "ref_obs", "ref_mask"], ["actions"])


def test_a_reference_that_is_masked_is_no_reference(bert: tuple[Pair, Any]) -> None:
    """All masked must be exactly what the model decides without any, whatever lies in the masked numbers."""
    pair, model = bert
    given = draw(1, torch.Generator().manual_seed(7))
    none = np.zeros((1, LENGTH), np.bool_)
    with torch.no_grad():
        alone = model.act_inference(given["obs"]).numpy()
    for scale in (0.0, 1.0, 1e4):
        inputs = {"obs": given["obs"].numpy(), "ref_obs": scale * given["ref_obs"].numpy(), "ref_mask": none}
        np.testing.assert_allclose(Plain(pair.file).step(inputs), alone, rtol=0, atol=ATOL)
        np.testing.assert_allclose(ashore.load(pair.package).step(inputs)["actions"], alone, rtol=0, atol=ATOL)


def test_references_matter_where_they_are_not_masked(bert: tuple[Pair, Any]) -> None:
    """Else a graph without them would pass."""
    plain, given = Plain(bert[0].file), draw(1, torch.Generator().manual_seed(7))
    inputs = {name: value.numpy() for name, value in given.items()} | {"ref_mask": np.ones((1, LENGTH), np.bool_)}
    assert np.abs(plain.step(inputs) - plain.step({**inputs, "ref_obs": -inputs["ref_obs"]})).max() > 0.1


def test_where_everything_is_masked_nothing_is_nan(tmp_path: Path) -> None:
    """Nothing but masked tokens: torch gives zeros as it trains, and NaN where it is fused; the file gives zeros."""
    torch.manual_seed(1)
    model = TransformerActorCritic(OBS, REF, ACTIONS, ReferenceOnly).eval()
    export_policy_as_onnx(
        model, tmp_path, example_obs=draw(1, torch.Generator()), dynamic_batch=True, validation_steps=5
    )
    plain, generator = Plain(tmp_path / "policy.onnx"), torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(20):
        given = draw(ROWS, generator)
        seen |= set(given["ref_mask"].sum(dim=1).tolist())
        expected = model.act_inference(given["obs"], (given["ref_obs"], given["ref_mask"])).detach().numpy()
        made = plain.step({name: value.numpy() for name, value in given.items()})
        assert np.isfinite(made).all()
        np.testing.assert_allclose(made, expected, rtol=0, atol=ATOL)
    assert seen == {0, 1, 2, 3}


def test_the_usage_example_of_the_seed_runs_with_only_its_import_changed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    trained_policy = TransformerActorCritic(OBS, REF, ACTIONS)
    obs_normalizer = torch.nn.BatchNorm1d(OBS, affine=False)  # any module will do
    with torch.no_grad():
        obs_normalizer(torch.randn(64, OBS) * 2.0 + 1.0)

    from ashore.actor import export_policy_as_onnx

    # Export trained policy
    export_policy_as_onnx(
        actor_critic=trained_policy,
        path="./exported_models",
        normalizer=obs_normalizer,
        filename="robot_policy.onnx",
        verbose=True,
    )
    plain = Plain(tmp_path / "exported_models" / "robot_policy.onnx")
    assert plain.inputs == ["obs", "ref_obs", "ref_mask"]
    assert [tuple(one.shape) for one in plain.session.get_inputs()] == [(1, OBS), (1, REF), (1,)]
    given = draw(1, torch.Generator().manual_seed(0)) | {"ref_mask": torch.ones(1, dtype=torch.bool)}
    assert trained_policy.training
    assert obs_normalizer.training
    with torch.no_grad():
        obs = obs_normalizer.eval()(given["obs"])
        expected = trained_policy.eval().act_inference(obs, (given["ref_obs"], given["ref_mask"])).numpy()
    made = plain.step({name: value.numpy() for name, value in given.items()})
    np.testing.assert_allclose(made, expected, rtol=0, atol=ATOL)
    assert list(tmp_path.rglob("*")) == [
        tmp_path / "exported_models",
        tmp_path / "exported_models" / "robot_policy.onnx",
    ]
    onnx.checker.check_model(str(tmp_path / "exported_models" / "robot_policy.onnx"), full_check=True)
