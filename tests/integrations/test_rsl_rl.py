"""Checkpoints of RSL-RL: what is read, what is refused, and what they say about their network."""

from __future__ import annotations

import itertools
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from ashore.errors import InputError
from ashore.integrations.rsl_rl import RslRlActor, fit_actor, load_policy, read_checkpoint


class Evil:
    """Runs code when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_checkpoint_is_read(tmp_path: Path) -> None:
    torch.save({"actor_state_dict": {"mlp.0.weight": torch.ones(2, 3)}, "iter": 3, "infos": None}, tmp_path / "m.pt")
    found = read_checkpoint(tmp_path / "m.pt")
    assert found["iter"] == 3
    assert torch.equal(found["actor_state_dict"]["mlp.0.weight"], torch.ones(2, 3))


def test_a_checkpoint_that_would_run_code_is_refused_before_it_does(tmp_path: Path) -> None:
    path, trace = tmp_path / "m.pt", tmp_path / "was_here"
    torch.save({"actor_state_dict": OrderedDict(), "infos": Evil(trace)}, path)
    with pytest.raises(InputError, match=r"m.pt: it holds more than tensors, and reading it could run code .*--trust"):
        read_checkpoint(path)
    assert not trace.exists()
    read_checkpoint(path, trust=True)
    assert trace.exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 and then nothing"])
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(content)
    with pytest.raises(InputError, match="m.pt: "):
        read_checkpoint(path)


@pytest.mark.parametrize("content", [{"weights": {}}, [1, 2], torch.ones(2)])
def test_a_file_of_torch_that_is_no_checkpoint_is_refused(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "m.pt")
    with pytest.raises(InputError, match="expected a checkpoint of RSL-RL, with actor_state_dict or model_state_dict"):
        read_checkpoint(tmp_path / "m.pt")


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="m.pt: there is no such checkpoint"):
        read_checkpoint(tmp_path / "m.pt")


def weights(*sizes: int, recurrent: torch.nn.Module | None = None, normalized: bool = False) -> dict[str, torch.Tensor]:
    """What the state of an actor of RSL-RL has, for layers of some sizes."""
    layers = list(itertools.pairwise(sizes))
    found = {f"mlp.{2 * place}.weight": torch.zeros(wide, narrow) for place, (narrow, wide) in enumerate(layers)}
    if recurrent is not None:
        found |= {f"rnn.rnn.{name}": value for name, value in recurrent.state_dict().items()}
    return found | ({"obs_normalizer._mean": torch.zeros(1, 5)} if normalized else {})


def test_a_configuration_that_fits_is_left_alone() -> None:
    config = {"class_name": "MLPModel", "hidden_dims": (64, 32), "obs_normalization": False}
    assert fit_actor(config, weights(5, 64, 32, 1)) == []
    assert config == {"class_name": "MLPModel", "hidden_dims": (64, 32), "obs_normalization": False}


def test_layers_and_normalisation_are_those_of_the_weights() -> None:
    config: dict[str, Any] = {"hidden_dims": (128, 128), "obs_normalization": False}
    said = fit_actor(config, weights(5, 64, 32, 1, normalized=True))
    assert config == {"hidden_dims": [64, 32], "obs_normalization": True}
    assert said == [
        "obs_normalization: False in the configuration, True in the checkpoint",
        "hidden_dims: (128, 128) in the configuration, [64, 32] in the checkpoint",
    ]


@pytest.mark.parametrize(("kind", "make"), [("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU)])
def test_a_recurrent_network_is_known_by_its_weights(kind: str, make: type[torch.nn.Module]) -> None:
    config: dict[str, Any] = {"class_name": "MLPModel", "hidden_dims": [32], "obs_normalization": False}
    said = fit_actor(config, weights(8, 32, 1, recurrent=make(5, 8, num_layers=2)))
    assert config["class_name"] == "RNNModel"
    assert (config["rnn_type"], config["rnn_hidden_dim"], config["rnn_num_layers"]) == (kind, 8, 2)
    assert len(said) == 4


def test_a_network_without_recurrence_makes_a_recurrent_configuration_a_plain_one() -> None:
    config: dict[str, Any] = {"class_name": "rsl_rl.models.RNNModel", "rnn_type": "lstm", "hidden_dims": [32]}
    fit_actor(config, weights(8, 32, 1))
    assert (config["class_name"], config["rnn_type"]) == ("MLPModel", None)


class Policy:
    """What a runner gives: says twice what it sees of a group, and remembers it."""

    obs_groups = ("actor",)
    obs_groups_2d = ("camera", "actor")

    def __init__(self) -> None:
        self.hidden: Any = None

    def __call__(self, obs: Any) -> torch.Tensor:
        self.hidden = obs["actor"]
        return 2.0 * obs["actor"]

    def reset(self, dones: torch.Tensor) -> None:
        self.hidden[dones] = 0.0

    def get_hidden_state(self) -> Any:
        return self.hidden


def test_an_actor_has_the_groups_of_vectors_and_of_images_once() -> None:
    assert RslRlActor(Policy()).groups == ["actor", "camera"]


def test_an_actor_clips_its_actions_where_the_wrapper_does() -> None:
    obs = {"actor": torch.tensor([[-3.0, 0.1, 3.0]])}
    torch.testing.assert_close(RslRlActor(Policy())(obs), torch.tensor([[-6.0, 0.2, 6.0]]))
    torch.testing.assert_close(RslRlActor(Policy(), clip_actions=0.5)(obs), torch.tensor([[-0.5, 0.2, 0.5]]))


def test_an_actor_forgets_the_rows_that_are_done() -> None:
    actor = RslRlActor(Policy())
    assert actor.get_state() is None
    actor({"actor": torch.ones(2, 1)})
    actor.reset(torch.tensor([False, True]))
    (state,) = actor.get_state() or ()
    assert state.tolist() == [[1.0], [0.0]]


# --- runners ----------------------------------------------------------------------------------------------------------

TRAINED = Path(__file__).parent / "actors" / "checkpoints"


class Pendulums:
    """What a runner of RSL-RL asks of an environment before anything is run."""

    num_envs, num_actions, max_episode_length, device = 2, 1, 100, "cpu"
    cfg: ClassVar[dict[str, Any]] = {}

    def get_observations(self) -> Any:
        from tensordict import TensorDict

        return TensorDict({"policy": torch.zeros(2, 3)}, batch_size=[2])


def runner(name: str) -> Any:
    """A runner with new weights, as the checkpoint of a name was trained by."""
    from rsl_rl import runners

    torch.manual_seed(5)
    kind = "DistillationRunner" if "student" in name else "OnPolicyRunner"
    return getattr(runners, kind)(Pendulums(), json.loads((TRAINED / f"{name}.json").read_text()), device="cpu")


@pytest.mark.parametrize("name", ["rsl5_mlp", "rsl5_student"])
def test_a_runner_gives_the_policy_that_was_trained(name: str) -> None:
    checkpoint = TRAINED / f"{name}.pt"
    saved = next(value for key, value in read_checkpoint(checkpoint).items() if key.startswith(("actor", "student")))
    policy = load_policy(runner(name), checkpoint, read_checkpoint(checkpoint))
    assert saved.keys() <= policy.state_dict().keys()
    for key, value in policy.state_dict().items():
        assert torch.equal(value, saved[key]), key


@pytest.mark.parametrize(
    ("name", "other", "held", "trains"),
    [("rsl5_mlp", "rsl5_student", "student", "actor"), ("rsl5_student", "rsl5_mlp", "actor", "student")],
)
def test_weights_that_a_runner_would_pass_over_are_refused(name: str, other: str, held: str, trains: str) -> None:
    """RSL-RL loads what its algorithm knows of what is asked for, and says nothing of the rest."""
    checkpoint = TRAINED / f"{other}.pt"
    with pytest.raises(InputError, match=rf"{other}.pt: it holds the weights of a {held}, the runner of the task .*"):
        load_policy(runner(name), checkpoint, read_checkpoint(checkpoint))


def test_weights_of_another_width_are_refused(tmp_path: Path) -> None:
    saved = torch.load(TRAINED / "rsl5_mlp.pt", weights_only=True)
    saved["actor_state_dict"]["mlp.0.weight"] = torch.zeros(32, 7)
    torch.save(saved, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"(?s)other.pt: its weights do not fit the task: .*size mismatch for mlp.0"):
        load_policy(runner("rsl5_mlp"), tmp_path / "other.pt", read_checkpoint(tmp_path / "other.pt"))


def test_a_checkpoint_of_an_earlier_version_is_refused_where_the_runner_does_not_read_it(tmp_path: Path) -> None:
    torch.save({"model_state_dict": {"actor.0.weight": torch.zeros(1, 3)}, "iter": 0, "infos": None}, tmp_path / "m.pt")
    with pytest.raises(InputError, match="m.pt: OnPolicyRunner finds no actor_state_dict in it"):
        load_policy(runner("rsl5_mlp"), tmp_path / "m.pt", read_checkpoint(tmp_path / "m.pt"))
