"""A directory becomes a package that computes what is published of the format, and tells what that leaves open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ashore
from ashore.interop.policy_package import from_policy_package
from ashore.package import Package, read
from ashore.spec import NOISE, TEXT
from interop.policy_package.policy_package_cases import (
    DIM,
    JOINTS,
    ROWS,
    WIDE,
    Document,
    act_model,
    denoise,
    encoder,
    write_act,
    write_pi05,
)
from interop.policy_package.published import Published
from support import model

CALLS, RESETS = 25, (7, 8, 16)
TASKS = (
    "pick up the cube",
    "pick the red cube",
    "up",
    "pick up the red blue green cube the the the the the the the the the",
)


def observations(seed: int = 0, **shapes: tuple[int, ...]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(CALLS)]


def act_observations() -> list[dict[str, Any]]:
    return observations(**{"observation.state": (1, DIM), "observation.images.cam0": (1, 3, 96, 96)})


def pi05_observations() -> list[dict[str, Any]]:
    found = observations(**{"observation.state": (1, DIM), "observation.images.top": (1, 3, 8, 8)})
    return [one | {"task": TASKS[index % len(TASKS)]} for index, one in enumerate(found)]


def compare(folder: Path, package: Package, given: list[dict[str, Any]], *, noisy: bool = False) -> list[np.ndarray]:
    """Both decide on the same observations, with the same resets; what a package does not take is left out for it."""
    policy, published, actions = ashore.load(package), Published(folder), list[np.ndarray]()
    rng = np.random.default_rng(9)
    for index, observation in enumerate(given):
        if index in RESETS:
            policy.reset()
            published.reset()
        more = {"noise": rng.standard_normal((1, ROWS, WIDE)).astype(np.float32)} if noisy else {}
        own = {name: value for name, value in observation.items() if name in policy.inputs}
        action = policy.select_action(own, **more)
        expected = published.select_action(observation, **more)
        np.testing.assert_allclose(action[0], expected, rtol=1e-5, atol=1e-5, err_msg=f"call {index}")
        chunk = policy.predict_action_chunk(own, **more)
        wanted = published.predict_action_chunk(observation, **more)
        np.testing.assert_allclose(np.atleast_3d(chunk).reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)
        actions.append(action)
    assert len(np.unique(np.stack(actions))) > CALLS, "actions that never change prove nothing"
    return actions


def findings(package: Package) -> dict[str, str]:
    return {finding.name: finding.message for finding in package.manifest.findings}


# --- ACT -------------------------------------------------------------------------------------------------------------


def test_act_computes_what_is_published(tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    package = from_policy_package(folder, tmp_path / "package")
    compare(folder, package, act_observations())
    assert read(tmp_path / "package").manifest == package.manifest


def test_what_the_manifest_says_is_in_the_package(tmp_path: Path) -> None:
    manifest = from_policy_package(write_act(tmp_path / "act"), tmp_path / "package.ashore").manifest
    assert manifest.name == "act"
    state, image = manifest.inputs["observation.state"], manifest.inputs["observation.images.cam0"]
    assert (state.dtype, state.shape, image.dtype, image.shape) == ("float32", (1, 14), "float32", (1, 3, 96, 96))
    assert image.kind == "sensor/image/rgb"
    assert (manifest.outputs["action"].shape, manifest.outputs["action"].kind) == ((1, 14), "action")
    assert manifest.runner.type == "action_queue"
    assert manifest.verification is not None
    assert manifest.verification.status == "skipped"
    assert manifest.provenance.created_at == "2026-05-01T11:13:00+00:00"
    assert manifest.metadata["policy_package"]["policy"]["source"]["class_path"].endswith("ACTPolicy")
    scales = [one.processor for one in manifest.stages.values() if one.processor and "normalize" in one.processor.type]
    assert [one.params["eps"] for one in scales] == [1e-8, 1e-8, 0.0]


def test_what_act_leaves_open_is_a_finding(tmp_path: Path) -> None:
    found = findings(from_policy_package(write_act(tmp_path / "act"), tmp_path / "package"))
    assert sorted(found) == ["image_range", "temporal_ensemble"]
    assert "['observation.images.cam0'] are resized and what range they have" in found["image_range"]


def set_modes(before: str, after: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["model"]["preprocessors"][0]["mode"] = before
        document["model"]["postprocessors"][0]["mode"] = after

    return change


@pytest.mark.parametrize("after", ["mean_std", "min_max", "quantiles", "quantile10", "identity"])
@pytest.mark.parametrize("before", ["mean_std", "min_max", "quantiles", "quantile10", "identity"])
def test_every_mode_scales_as_published(before: str, after: str, tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act", set_modes(before, after))
    compare(folder, from_policy_package(folder, tmp_path / "package"), act_observations()[:9])


def test_a_standard_mode_is_mean_std(tmp_path: Path) -> None:
    package = from_policy_package(write_act(tmp_path / "act", set_modes("standard", "standard")), tmp_path / "package")
    plain = from_policy_package(write_act(tmp_path / "plain"), tmp_path / "plain_package")
    assert package.manifest.stages == plain.manifest.stages


def test_mixed_modes_scale_each_feature_once(tmp_path: Path) -> None:
    """The neighbour's own runtime scales all of them once for every entry."""

    def change(document: Document) -> None:
        (spec,) = document["model"]["preprocessors"]
        image = {**spec, "mode": "min_max", "features": ["observation.images.cam0"]}
        document["model"]["preprocessors"] = [{**spec, "features": ["observation.state"]}, image]

    folder = write_act(tmp_path / "act", change)
    package = from_policy_package(folder, tmp_path / "package")
    assert sum("normalize" in name for name in package.manifest.stages) == 3
    compare(folder, package, act_observations()[:9])


def test_a_joint_that_never_moved_is_scaled_as_published(tmp_path: Path) -> None:
    def still(found: dict[str, np.ndarray]) -> None:
        found["action/q99"][3] = found["action/q01"][3]
        found["observation.state/q99"][5] = found["observation.state/q01"][5]

    folder = write_act(tmp_path / "act", set_modes("quantiles", "quantiles"), stats=still)
    policy = ashore.load(from_policy_package(folder, tmp_path / "package"))
    published = Published(folder)
    for observation in act_observations()[:3]:
        np.testing.assert_allclose(
            policy.predict_action_chunk(observation)[0], published.predict_action_chunk(observation), rtol=1e-4
        )


def test_fewer_actions_than_a_chunk_has_are_executed(tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act", lambda document: document["model"]["runner"].update(n_action_steps=3))
    package = from_policy_package(folder, tmp_path / "package")
    actions = compare(folder, package, act_observations())
    assert len({action.tobytes() for action in actions[:3]}) == 3


def test_padded_actions_are_cut_to_their_statistics(tmp_path: Path) -> None:
    def shorten(found: dict[str, np.ndarray]) -> None:
        for name in [name for name in found if name.startswith("action/")]:
            found[name] = found[name][:6]

    def change(document: Document) -> None:
        document["hardware"]["robots"][0]["action"]["shape"] = [6]

    folder = write_act(tmp_path / "act", change, stats=shorten)
    package = from_policy_package(folder, tmp_path / "package")
    assert package.manifest.outputs["action"].shape == (1, 6)
    compare(folder, package, act_observations())


def test_statistics_that_change_nothing_are_no_stage(tmp_path: Path) -> None:
    def neutral(found: dict[str, np.ndarray]) -> None:
        found["observation.state/mean"][:], found["observation.state/std"][:] = 0, 1

    folder = write_act(tmp_path / "act", stats=neutral)
    package = from_policy_package(folder, tmp_path / "package")
    assert "normalize.observation.state" not in package.manifest.stages
    assert "'observation.state' are those of values that are scaled already" in findings(package)["nothing_to_scale"]
    compare(folder, package, act_observations()[:9])


def test_names_of_the_hardware_are_names_of_elements(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        for side in ("state", "action"):
            document["hardware"]["robots"][0][side]["order"] = JOINTS

    manifest = from_policy_package(write_act(tmp_path / "act", change), tmp_path / "package").manifest
    assert manifest.inputs["observation.state"].element_names == (None, tuple(JOINTS))
    assert manifest.outputs["action"].element_names == (None, tuple(JOINTS))


def test_without_hardware_lengths_are_those_of_the_model(tmp_path: Path) -> None:
    fixed = act_model().replace(b"batch", b"rows!")  # another name for the batch
    folder = write_act(tmp_path / "act", lambda document: document.pop("hardware"), model=fixed)
    package = from_policy_package(folder, tmp_path / "package")
    assert package.manifest.inputs["observation.images.cam0"].shape == (1, 3, 96, 96)
    compare(folder, package, act_observations()[:9])


def test_a_model_that_gives_one_action_has_no_queue(tmp_path: Path) -> None:
    text = "act (float[batch,14] state) => (float[batch,14] action) {\n    action = Add(state, state)\n}"

    def change(document: Document) -> None:
        document["model"]["runner"] = {"type": "single_pass"}
        document["model"]["preprocessors"] = None
        document["policy"] = {"name": "one step: no chunk"}

    from interop.policy_package.policy_package_cases import named

    folder = write_act(tmp_path / "act", change, model=named(model(text), {"state": "observation.state"}))
    package = from_policy_package(folder, tmp_path / "package")
    assert (package.manifest.runner.type, package.manifest.states) == ("single_pass", {})
    assert package.manifest.name == "one_step__no_chunk"
    compare(folder, package, observations(**{"observation.state": (1, DIM)}))


def test_a_feature_that_no_model_takes_is_left_out_and_told(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["model"]["preprocessors"][0]["features"].append("observation.effort")

    package = from_policy_package(write_act(tmp_path / "act", change), tmp_path / "package")
    assert "observation.effort" not in package.manifest.inputs
    assert findings(package)["unread_feature"].startswith("'observation.effort' is prepared, and no model takes it")


# --- PI05 ------------------------------------------------------------------------------------------------------------


def test_pi05_computes_what_is_published(tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05")
    package = from_policy_package(folder, tmp_path / "package")
    compare(folder, package, pi05_observations(), noisy=True)
    manifest = package.manifest
    assert set(manifest.inputs) == {"observation.state", "observation.images.top", "task", "noise"}
    assert (manifest.inputs["task"].kind, manifest.inputs["noise"].kind) == (TEXT, NOISE)
    assert manifest.outputs["action"].element_names == (None, tuple(JOINTS))
    assert manifest.stages["absolute_actions.action"].processor is not None
    assert manifest.stages["absolute_actions.action"].processor.params["mask"] == [True] * 12 + [False] * 2


def test_what_pi05_leaves_open_is_a_finding(tmp_path: Path) -> None:
    found = findings(from_policy_package(write_pi05(tmp_path / "pi05"), tmp_path / "package"))
    assert sorted(found) == ["image_range", "tokenizer_as_saved", "unread_feature"]
    assert "'observation.state' is prepared, and no model takes it" in found["unread_feature"]
    assert "as GemmaTokenizerFast" in found["tokenizer_as_saved"]


def test_another_number_of_steps_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05")
    policy, published = ashore.load(from_policy_package(folder, tmp_path / "package")), Published(folder)
    noise, observation = np.ones((1, ROWS, WIDE), np.float32), pi05_observations()[0]
    for steps in (3, 1):
        np.testing.assert_allclose(
            policy.predict_action_chunk(observation, noise=noise, num_steps=steps)[0],
            published.predict_action_chunk(observation, noise=noise, num_steps=steps),
            rtol=1e-5,
            atol=1e-5,
        )


def map_state(document: Document) -> None:
    document["model"]["runner"]["input_mapping"]["observation.state"] = "state"
    document["model"]["runner"]["state_dim"] = 32


@pytest.mark.parametrize("where", ["encoder", "denoise", "both"])
def test_a_state_is_scaled_filled_up_and_fed_to_the_models(where: str, tmp_path: Path) -> None:
    models = {
        "encoder": encoder(state=32 if where != "denoise" else None),
        "denoise": denoise(state=32 if where != "encoder" else None),
    }
    folder = write_pi05(tmp_path / "pi05", map_state, models=models)
    package = from_policy_package(folder, tmp_path / "package")
    assert {"normalize.observation.state", "pad.observation.state"} <= package.manifest.stages.keys()
    assert "unread_feature" not in findings(package)
    compare(folder, package, pi05_observations(), noisy=True)


@pytest.mark.parametrize(
    "models",
    [
        {"encoder": encoder("bool")},
        {"encoder": encoder("int64")},
        {"denoise": denoise("float")},
        {"denoise": denoise(velocity="velocity")},
    ],
    ids=["bool masks", "int64 masks", "float prefix", "velocity"],
)
def test_dtypes_and_names_differ_as_the_runtime_lets_them(models: dict[str, bytes], tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05", models=models)
    compare(folder, from_policy_package(folder, tmp_path / "package"), pi05_observations()[:12], noisy=True)


def set_spec(side: str, index: int, **changes: Any) -> Callable[[Document], None]:
    return lambda document: document["model"][side][index].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        set_spec("preprocessors", 3, padding_side="left"),
        set_spec("preprocessors", 0, exclude_joints=["JOINT_1", "left"]),
        set_spec("preprocessors", 0, exclude_joints=[]),
        set_spec("preprocessors", 0, action_names=JOINTS[:13]),
        set_spec("preprocessors", 0, action_names=None),
    ],
    ids=["left", "token in name", "all", "too few names", "no names"],
)
def test_processors_do_what_their_parameters_say(change: Callable[[Document], None], tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05", change)
    given = pi05_observations()[:12]
    compare(folder, from_policy_package(folder, tmp_path / "package"), given, noisy=True)


def test_the_state_that_is_added_is_the_one_at_its_place(tmp_path: Path) -> None:
    """`relative_actions` after `normalize` remembers the scaled state."""

    def change(document: Document) -> None:
        before = document["model"]["preprocessors"]
        before[0], before[1] = before[1], before[0]

    folder = write_pi05(tmp_path / "pi05", change)
    package = from_policy_package(folder, tmp_path / "package")
    assert "normalize.observation.state" in package.manifest.stages
    compare(folder, package, pi05_observations()[:12], noisy=True)


def test_disabled_offsets_need_no_state(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["model"]["preprocessors"][0]["enabled"] = False
        document["model"]["postprocessors"][1]["enabled"] = False

    folder = write_pi05(tmp_path / "pi05", change)
    package = from_policy_package(folder, tmp_path / "package")
    assert "observation.state" not in package.manifest.inputs
    compare(folder, package, pi05_observations()[:12], noisy=True)


def test_a_longer_state_is_added_as_far_as_actions_go(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["hardware"]["robots"][0]["state"]["shape"] = [16]

    folder = write_pi05(tmp_path / "pi05", change)
    (folder / "stats.safetensors").exists()
    package = from_policy_package(folder, tmp_path / "package")
    assert package.manifest.inputs["observation.state"].shape == (1, 16)
    policy, published = ashore.load(package), Published(folder)
    del published.model["preprocessors"][1]  # its statistics are those of fourteen elements; nobody reads what it makes
    noise = np.ones((1, ROWS, WIDE), np.float32)
    for observation in pi05_observations()[:3]:
        observation["observation.state"] = np.arange(16, dtype=np.float32)[None]
        np.testing.assert_allclose(
            policy.predict_action_chunk(observation, noise=noise)[0],
            published.predict_action_chunk(observation, noise=noise),
            rtol=1e-5,
            atol=1e-5,
        )


def test_without_a_tokenizer_tokens_are_inputs(tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05", lambda document: document["model"]["preprocessors"].pop(3))
    package = from_policy_package(folder, tmp_path / "package")
    assert package.manifest.inputs["observation.language.tokens"].dtype == "int64"
    given = pi05_observations()[:12]
    for index, one in enumerate(given):
        del one["task"]
        one["observation.language.tokens"] = np.full((1, 16), index % 7, np.int64)
        one["observation.language.attention_mask"] = (np.arange(16)[None] < index).astype(np.float32)
    compare(folder, package, given, noisy=True)
