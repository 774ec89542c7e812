"""Checkpoints of RSL-RL, trained on pendulums: what their own inference call decides, and what packages decide."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from actor.comparing import ATOL, QUICK, ROWS, Pair, Plain, recorded_error, refusing, varied, with_file, worst_error
from ashore.integrations.trainers import Source, export_checkpoint, open_checkpoint
from integrations.actors.pendulum import GOOD, picture, played, trajectory

CHECKPOINTS = Path(__file__).parent / "actors" / "checkpoints"
OBS = {"obs": (3,)}
IMAGE = {"policy": (3,), "camera": (1, 8, 8)}
FIVE = ["rsl5_mlp", "rsl5_lstm", "rsl5_gru", "rsl5_std", "rsl5_student", "rsl5_cnn"]
THREE = ["rsl3_mlp", "rsl3_std", "rsl3_lstm", "rsl3_student", "rsl3_cnn"]
IMAGES = {"rsl5_cnn", "rsl3_cnn"}
STATES = {
    "rsl5_lstm": ["h", "c"],
    "rsl5_gru": ["h"],
    "rsl5_student": ["h"],
    "rsl3_lstm": ["h", "c"],
    "rsl3_student": ["h"],
}


def source(name: str, **more: Any) -> Source:
    obs = IMAGE if name in IMAGES else {}
    return Source(CHECKPOINTS / f"{name}.pt", config=CHECKPOINTS / f"{name}.json", obs=obs, **more)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    folder, made = tmp_path_factory.mktemp("packages"), dict[str, Pair]()

    def export(name: str) -> Pair:
        if name not in made:
            made[name] = with_file(export_checkpoint("rsl_rl", source(name), folder / name, batch="dynamic", **QUICK))
        return made[name]

    return export


def own_model(name: str) -> Any:
    """The model as RSL-RL itself makes it of its configuration and its checkpoint."""
    from rsl_rl.utils import resolve_callable
    from tensordict import TensorDict

    settings = json.loads((CHECKPOINTS / f"{name}.json").read_text())
    role = "student" if "student" in settings else "actor"
    config = copy.deepcopy(settings[role])
    groups = TensorDict({"policy": torch.zeros(1, 3), "camera": torch.zeros(1, 1, 8, 8)}, batch_size=[1])
    made: Any = resolve_callable(config.pop("class_name"))
    model = made(groups, settings["obs_groups"], role, 1, **config)
    model.load_state_dict(torch.load(CHECKPOINTS / f"{name}.pt", weights_only=True)[f"{role}_state_dict"])
    return model.eval()


def draw(name: str) -> Any:
    def drawn(rows: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        obs = torch.randn(rows, 3, generator=generator) * torch.tensor([0.7, 0.7, 3.0])
        if name != "rsl5_cnn":
            return {"obs": obs}
        return {"policy": obs, "camera": torch.rand(rows, 1, 8, 8, generator=generator)}

    return drawn


def own_call(model: Any) -> Callable[[Any], Any]:
    from tensordict import TensorDict

    def decide(inputs: Any) -> Any:
        groups = {"policy" if name == "obs" else name: value for name, value in inputs.items()}
        made = model(TensorDict(groups, batch_size=[len(next(iter(groups.values())))]))
        return made.clamp(-1.0, 1.0).numpy()  # clip_actions of the runner's configuration

    return decide


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", FIVE)
def test_package_and_file_decide_as_the_model_does(name: str, rows: int, exported: Callable[[str], Pair]) -> None:
    model = own_model(name)
    assert varied(own_call(model), draw(name)) > 0.05
    model.reset()

    def reset(dones: torch.Tensor) -> None:
        model.reset(None if dones.all() else dones)

    assert worst_error(exported(name), draw(name), own_call(model), reset, rows) <= ATOL


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("name", THREE)
def test_package_and_file_decide_as_version_3_did(name: str, rows: int, exported: Callable[[str], Pair]) -> None:
    """RSL-RL 3 cannot live beside 5: what it decided lies beside its checkpoint, with the script that wrote it."""
    expected = np.load(CHECKPOINTS / f"{name}.npz")[f"actions_{rows}"]
    assert expected.std() > 0.05
    path = trajectory(100, rows, seed=rows)
    inputs = ({"obs": obs.numpy()} | ({"camera": picture(obs).numpy()} if name in IMAGES else {}) for obs in path.obs)
    assert recorded_error(exported(name), inputs, path.dones.numpy(), expected) <= ATOL


@pytest.mark.parametrize(
    "name", ["rsl5_mlp", "rsl5_lstm", "rsl5_gru", "rsl5_student", "rsl5_cnn", "rsl3_mlp", "rsl3_lstm"]
)
def test_it_was_trained(name: str, exported: Callable[[str], Pair]) -> None:
    """The pendulum swings up and stays there."""
    assert played(exported(name).package) > GOOD


@pytest.mark.parametrize("name", [*FIVE, *THREE])
def test_hidden_states_are_states_of_the_package_and_ports_of_the_file(
    name: str, exported: Callable[[str], Pair]
) -> None:
    package, file = exported(name)
    states = STATES.get(name, [])
    assert list(package.manifest.states) == states
    assert [one for one in Plain(file).inputs if one.endswith("_in")] == [f"{one}_in" for one in states]
    assert Plain(file).outputs == ["actions", *(f"{one}_out" for one in states)]


@pytest.mark.parametrize("name", [*FIVE, *THREE])
def test_the_normaliser_travels_with_formula_and_digest(name: str, exported: Callable[[str], Pair]) -> None:
    about = exported(name).package.manifest.metadata["actor"]
    (one,) = about["normalizers"]
    assert one["formula"] == "(x - mean) / (std + 0.01)"
    assert len(one["sha256"]) == 64
    assert one["effect"] > 1e-3
    assert about["clip_actions"] == [-1.0, 1.0]


def test_the_architecture_is_that_of_the_checkpoint_whatever_the_configuration_says(
    exported: Callable[[str], Pair],
) -> None:
    kinds = {name: exported(name).package.manifest.metadata["actor"]["architecture"] for name in (*FIVE, *THREE)}
    assert kinds == {
        "rsl5_mlp": "MLP", "rsl5_lstm": "LSTM + MLP", "rsl5_gru": "GRU + MLP", "rsl5_std": "MLP",
        "rsl5_student": "GRU + MLP", "rsl5_cnn": "CNN + MLP", "rsl3_mlp": "MLP", "rsl3_std": "MLP",
        "rsl3_lstm": "LSTM + MLP", "rsl3_student": "GRU + MLP", "rsl3_cnn": "CNN + MLP",
    }  # fmt: skip


def test_versions_and_digest_of_the_checkpoint_are_recorded(exported: Callable[[str], Pair]) -> None:
    provenance = exported("rsl5_mlp").package.manifest.provenance
    assert provenance is not None
    assert provenance.tools["rsl-rl-lib"].startswith("5.")
    assert provenance.checkpoint is not None


# --- what is refused --------------------------------------------------------------------------------------------------


def changed(tmp_path: Path, name: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Source:
    """A checkpoint and its configuration, changed."""
    loaded = torch.load(CHECKPOINTS / f"{name}.pt", weights_only=True)
    settings = json.loads((CHECKPOINTS / f"{name}.json").read_text())
    change(loaded, settings)
    torch.save(loaded, tmp_path / "m.pt")
    (tmp_path / "m.json").write_text(json.dumps(settings))
    return Source(tmp_path / "m.pt", config=tmp_path / "m.json", obs=IMAGE if name in IMAGES else {})


def refused(tmp_path: Path, given: Source, match: str) -> None:
    with refusing(tmp_path, match):
        export_checkpoint("rsl_rl", given, tmp_path / "package", **QUICK)


def test_missing_keys_are_named(tmp_path: Path) -> None:
    given = changed(tmp_path, "rsl5_mlp", lambda loaded, _: loaded["actor_state_dict"].pop("mlp.2.bias"))
    refused(tmp_path, given, r"m.pt: its weights are not those of this MLPModel: missing: mlp.2.bias")


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path: Path) -> None:
    def other(_: Any, settings: dict[str, Any]) -> None:
        settings["actor"] |= {"class_name": "MLPModel"}
        settings["actor"].pop("cnn_cfg")

    given = changed(tmp_path, "rsl5_cnn", other)
    given = Source(given.checkpoint, config=given.config, obs={"policy": (3,)})
    refused(tmp_path, given, r"of this MLPModel: not known: cnns.camera.0.weight.* of another shape: mlp.0.weight is")


def test_a_critic_is_no_actor(tmp_path: Path) -> None:
    def only_critic(loaded: dict[str, Any], _: Any) -> None:
        del loaded["actor_state_dict"]

    refused(tmp_path, changed(tmp_path, "rsl5_mlp", only_critic), "expected a checkpoint of RSL-RL, with actor_state")

    def critic_of_3(loaded: dict[str, Any], _: Any) -> None:
        state = loaded["model_state_dict"]
        loaded["model_state_dict"] = {key: value for key, value in state.items() if key.startswith("critic")}

    refused(
        tmp_path, changed(tmp_path, "rsl3_mlp", critic_of_3), r"there is no actor in it: .* got \['critic.0.weight'"
    )


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    given = changed(
        tmp_path, "rsl5_lstm", lambda loaded, _: loaded["actor_state_dict"]["mlp.0.weight"][0].fill_(np.nan)
    )
    refused(tmp_path, given, r"mlp.0.weight: 16 of \d+ values are not finite; the training diverged")


@pytest.mark.parametrize("name", ["rsl5_mlp", "rsl3_mlp"])
def test_an_empty_observation_group_is_refused(name: str, tmp_path: Path) -> None:
    def empty(_: Any, settings: dict[str, Any]) -> None:
        settings["obs_groups"] = {"actor": [], "policy": [], "critic": ["policy"]}

    refused(tmp_path, changed(tmp_path, name, empty), "no observation group for the (actor|policy); nothing could be")


def test_a_shape_without_elements_is_refused(tmp_path: Path) -> None:
    given = Source(CHECKPOINTS / "rsl5_mlp.pt", config=CHECKPOINTS / "rsl5_mlp.json", obs={"policy": (0,)})
    refused(tmp_path, given, r"obs policy=\[0\]: an observation group cannot be empty")


class Evil:
    """Runs code when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_with_code_in_it_is_refused_before_it_runs(tmp_path: Path) -> None:
    given = changed(tmp_path, "rsl5_mlp", lambda loaded, _: loaded.update(infos=Evil(tmp_path / "ran")))
    refused(tmp_path, given, r"m.pt: it holds more than tensors, and reading it could run code .*--trust")
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_without_configuration_says_what_is_missing(tmp_path: Path) -> None:
    shutil.copy(CHECKPOINTS / "rsl5_mlp.pt", tmp_path / "m.pt")
    refused(tmp_path, Source(tmp_path / "m.pt"), r"which activation lies between them; say with config=… \(--config\)")


def test_the_configuration_is_found_where_simulators_write_it(tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    settings = json.loads((CHECKPOINTS / "rsl5_mlp.json").read_text())
    settings["actor"]["hidden_dims"] = tuple(settings["actor"]["hidden_dims"])
    (tmp_path / "params" / "agent.yaml").write_text(yaml.dump(settings) + "odd: !!python/name:os.system ''\n")
    shutil.copy(CHECKPOINTS / "rsl5_mlp.pt", tmp_path / "model_60.pt")
    assert open_checkpoint("rsl_rl", Source(tmp_path / "model_60.pt")).inputs["obs"].shape == (1, 3)


@pytest.mark.parametrize(("name", "which"), [("rsl5_cnn", r"\['policy', 'camera'\]"), ("rsl3_cnn", r"\['camera'\]")])
def test_images_need_their_shapes(name: str, which: str, tmp_path: Path) -> None:
    given = Source(CHECKPOINTS / f"{name}.pt", config=CHECKPOINTS / f"{name}.json")
    refused(tmp_path, given, rf"it reads images, and does not say how large they are; .*{which}")


@pytest.mark.parametrize(
    ("obs", "match"),
    [
        ({"policy": (4,), "camera": (1, 8, 8)}, r"it reads 3 numbers beside its images, and obs says \{'policy': 4\}"),
        ({"camera": (8, 8)}, r"obs camera: expected channels, height and width, got \[8, 8\]"),
        ({"camera": (2, 8, 8)}, r"weights are not those of this Legacy: .*actor_cnns.camera.0.weight"),
    ],
)
def test_shapes_that_the_weights_are_not_made_for_are_refused(
    obs: dict[str, tuple[int, ...]], match: str, tmp_path: Path
) -> None:
    given = Source(CHECKPOINTS / "rsl3_cnn.pt", config=CHECKPOINTS / "rsl3_cnn.json", obs=obs)
    refused(tmp_path, given, match)


def test_convolutions_without_their_settings_are_refused(tmp_path: Path) -> None:
    given = changed(tmp_path, "rsl3_cnn", lambda _, settings: settings["policy"].pop("actor_cnn_cfg"))
    refused(tmp_path, given, r"m.json: the configuration has no actor_cnn_cfg, the checkpoint has images")


@pytest.mark.parametrize("limit", [-1.0, 0, True, "one", float("nan")])
def test_a_limit_of_actions_that_is_none_is_refused(limit: Any, tmp_path: Path) -> None:
    given = changed(tmp_path, "rsl5_mlp", lambda _, settings: settings.update(clip_actions=limit))
    refused(tmp_path, given, r"m.json: clip_actions: expected a positive limit in the configuration, or none, got")


@pytest.mark.parametrize(
    ("name", "role", "class_name", "match"),
    [
        ("rsl5_mlp", "actor", "Nothing", "m.json: there is no class 'Nothing'"),
        ("rsl5_mlp", "actor", "os.system", "m.json: expected a class made from Module, got 'os.system'"),
        ("rsl5_mlp", "actor", "subprocess.Popen", "m.json: expected a class made from Module, got 'subprocess.Popen'"),
        (
            "rsl3_mlp",
            "policy",
            "mine.ActorCriticWithGates",
            "the policy is a 'mine.ActorCriticWithGates', which cannot",
        ),
    ],
)
def test_classes_that_are_none_of_a_network_are_refused(
    name: str, role: str, class_name: str, match: str, tmp_path: Path
) -> None:
    """The weights of another class may have the same names, and a configuration may name anything."""
    given = changed(tmp_path, name, lambda _, settings: settings[role].update(class_name=class_name))
    refused(tmp_path, given, match)


def test_a_distribution_that_is_none_is_refused(tmp_path: Path) -> None:
    def other(loaded: dict[str, Any], settings: dict[str, Any]) -> None:
        settings["actor"]["distribution_cfg"]["class_name"] = "os.system"
        del loaded["actor_state_dict"]["distribution.std_param"]

    refused(tmp_path, changed(tmp_path, "rsl5_mlp", other), "expected a class made from Module, got 'os.system'")


def test_the_configuration_of_another_version_is_refused(tmp_path: Path) -> None:
    given = Source(CHECKPOINTS / "rsl5_mlp.pt", config=CHECKPOINTS / "rsl3_mlp.json")
    refused(tmp_path, given, "rsl3_mlp.json: the configuration has no 'actor', the checkpoint has")
    given = Source(CHECKPOINTS / "rsl3_mlp.pt", config=CHECKPOINTS / "rsl5_mlp.json")
    refused(tmp_path, given, "rsl5_mlp.json: the configuration has no 'policy', as those of RSL-RL 2 and 3 have")
