"""Directories that are damaged, hostile or vague: one clear error each, and nothing is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ashore.errors import AshoreError, PackageError
from ashore.interop.policy_package import from_policy_package, models, statistics, tokenizers
from ashore.package import save_arrays
from interop.policy_package.policy_package_cases import (
    ACT_SHAPES,
    Document,
    act_model,
    denoise,
    encoder,
    named,
    write_act,
    write_pi05,
)
from interop.policy_package.policy_package_cases import statistics as made_statistics
from support import model

Change = Callable[[Document], Any]


def refused(folder: Path, match: str) -> None:
    """One error, of our own, that names the directory; nothing beside it."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(PackageError, match=match) as caught:
        from_policy_package(folder, folder.parent / "out")
    assert str(folder) in str(caught.value)
    assert sorted(folder.parent.iterdir()) == before


def at(*path: str | int, value: Any) -> Change:
    """Set what stands at a path of a manifest."""

    def change(document: Document) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def without(*path: str | int) -> Change:
    def change(document: Document) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


RUNNER = ("model", "runner")
BEFORE, AFTER = ("model", "preprocessors"), ("model", "postprocessors")

# --- what the manifest says ------------------------------------------------------------------------------------------

ACT_MANIFESTS: dict[str, tuple[Change, str]] = {
    "another format": (
        at("format", value="lerobot_exported_policy"),
        "format: expected 'policy_package', got 'lerobot",
    ),
    "no format": (without("format"), "format: expected 'policy_package', got None"),
    "another version": (at("version", value="1.1"), "version: expected '1.0', got '1.1'"),
    "unknown key": (at("robots", value=[]), "contains unknown field `robots`"),
    "unknown key in model": (at("model", "backend", value="onnx"), r"\.model: object contains unknown field `backend`"),
    "unknown key in runner": (
        at(*RUNNER, "temporal_ensemble_coeff", value=0.01),
        "runner: object contains unknown field",
    ),
    "unknown key in processor": (
        at(*BEFORE, 0, "eps", value=0.1),
        r"preprocessors\[0\]: object contains unknown field",
    ),
    "unknown key in hardware": (at("hardware", "robots", 0, "dof", value=6), r"hardware.robots\[0\]: .*unknown field"),
    "no policy": (without("policy"), "missing required field `policy`"),
    "wrong type": (at(*RUNNER, "chunk_size", value="20"), r"runner\.chunk_size: expected `int \| null`, got `str`"),
    "unknown runner": (at(*RUNNER, "type", value="iterative"), "runner.type: unknown runner 'iterative'"),
    "no runner type": (without(*RUNNER, "type"), "runner.type: unknown runner None"),
    "misspelt runner": (at(*RUNNER, "type", value="single_pas"), "did you mean 'single_pass'"),
    "history": (at("model", "n_obs_steps", value=2), "n_obs_steps: expected 1, got 2.* keep no history"),
    "another role": (at("model", "artifacts", value={"policy": "model.onnx"}), r"artifacts: expected \['model'\]"),
    "two artifacts": (at("model", "artifacts", "extra", value="x.onnx"), r"artifacts: expected \['model'\]"),
    "unknown processor": (at(*BEFORE, 0, "type", value="normalise"), "unknown processor 'normalise'; did you mean"),
    "processor by class": (at(*BEFORE, 0, "class_path", value="os.system"), "unknown field `class_path`"),
    "processor on the wrong side": (at(*BEFORE, 0, "type", value="denormalize"), "unknown processor 'denormalize'"),
    "unknown mode": (at(*BEFORE, 0, "mode", value="max_abs"), r"preprocessors\[0\].mode: invalid enum value 'max_abs'"),
    "no features": (at(*BEFORE, 0, "features", value=[]), r"features: expected `array` of length >= 1"),
    "features left out": (without(*BEFORE, 0, "features"), "missing required field `features`"),
    "statistics not said": (without(*BEFORE, 0, "artifact"), "artifact: missing; the mode 'mean_std' needs statistics"),
    "scaled twice": (
        lambda document: document["model"]["preprocessors"].append(document["model"]["preprocessors"][0]),
        r"preprocessors\[1\]: 'observation.state' is normalised before",
    ),
    "denormalized twice": (
        lambda document: document["model"]["postprocessors"].append(document["model"]["postprocessors"][0]),
        r"postprocessors\[1\]: 'action' is denormalised before",
    ),
    "another output": (at(*AFTER, 0, "features", value=["action", "reward"]), r"features: expected \['action'\]"),
    "another chunk": (
        at(*RUNNER, "chunk_size", value=19),
        "chunk_size: is 19, and the models give actions of the shape",
    ),
    "another dim": (at(*RUNNER, "action_dim", value=15), "action_dim: is 15"),
    "too many steps": (at(*RUNNER, "n_action_steps", value=21), "n_action_steps: is 21, and a chunk has 20 actions"),
    "no steps": (at(*RUNNER, "n_action_steps", value=0), "n_action_steps: expected `int` >= 1"),
    "unknown dtype": (at("hardware", "cameras", 0, "dtype", value="bfloat16"), "invalid enum value 'bfloat16'"),
    "state of another dtype": (at("hardware", "robots", 0, "state", "dtype", value="float64"), "expected float32"),
    "two robots": (
        lambda document: document["hardware"]["robots"].append({"name": "left"}),
        r"hardware.robots: expected one, got \['main', 'left'\]",
    ),
    "another image": (at("hardware", "cameras", 0, "shape", value=[96, 96, 3]), "it is fed .*96, 96, 3"),
    "another rank": (
        at("hardware", "cameras", 0, "shape", value=[96, 96]),
        r"has the shape .*; it is fed \[1, 96, 96\]",
    ),
    "another state": (
        at("hardware", "robots", 0, "state", "shape", value=[7]),
        r"'observation.state' has the shape .*14\]; it is fed \[1, 7\]",
    ),
    "another action": (at("hardware", "robots", 0, "action", "shape", value=[7]), r"the action has the shape \[7\]"),
    "names that stand twice": (
        at("hardware", "robots", 0, "action", "order", value=["a"] * 14),
        "makes no package: .*'a' stands 14 times",
    ),
    "offsets without a state": (
        at(*AFTER, value=[{"type": "absolute_actions", "enabled": True}]),
        "expected relative_actions among the preprocessors",
    ),
    "offsets that stay offsets": (
        lambda document: document["model"]["preprocessors"].append({"type": "relative_actions", "enabled": True}),
        "it is enabled, and its counterpart is not",
    ),
    "a terminal's codes": (at("policy", "name", value="act\x1b[2J"), "policy.name: .* holds control characters"),
}


@pytest.mark.parametrize("case", ACT_MANIFESTS)
def test_a_vague_manifest_is_refused(case: str, tmp_path: Path) -> None:
    change, match = ACT_MANIFESTS[case]
    refused(write_act(tmp_path / "act", change), match)


PI05_MANIFESTS: dict[str, tuple[Change, str]] = {
    "another scheduler": (at(*RUNNER, "scheduler", value="heun"), "scheduler: expected 'euler', got 'heun'"),
    "other layers": (at(*RUNNER, "num_layers", value=18), "num_layers: is 18, and the encoder gives 3"),
    "no action dim": (without(*RUNNER, "action_dim"), "missing required field `action_dim`"),
    "another action dim": (at(*RUNNER, "action_dim", value=31), r"'x_t' has the shape .*; it is fed \[1, 10, 31\]"),
    "more than there is": (
        at(*RUNNER, "output_action_dim", value=33),
        "output_action_dim: is 33, and an action has 32",
    ),
    "two features for one": (
        at(*RUNNER, "input_mapping", "observation.images.wrist", value="image_0"),
        "'image_0' is fed by .*; expected one feature",
    ),
    "mapped away": (
        at(*RUNNER, "input_mapping", value={"observation.images.top": "image_0", "lang_masks": "masks"}),
        "calls 'lang_masks' 'masks', so the input 'lang_masks' gets nothing",
    ),
    "no steps": (at(*RUNNER, "num_inference_steps", value=0), "num_inference_steps: expected `int` >= 1"),
    "two denoisers": (at("model", "artifacts", "model", value="encoder.onnx"), r"expected \['denoise', 'encoder'\]"),
    "no length of tokens": (without(*BEFORE, 3, "max_length"), "missing required field `max_length`"),
    "another length of tokens": (
        at(*BEFORE, 3, "max_length", value=20),
        r"'lang_tokens' has the shape .* fed \[1, 20\]",
    ),
    "tokens of any length": (
        at(*BEFORE, 3, "padding", value="longest"),
        "padding: expected 'max_length', got 'longest'",
    ),
    "another side": (at(*BEFORE, 3, "padding_side", value="both"), "invalid enum value 'both'"),
    "the tokenizer elsewhere": (at(*BEFORE, 3, "artifact", value="../tokenizer"), "no empty, '.' or '..' part"),
    "an absolute tokenizer": (at(*BEFORE, 3, "artifact", value="/etc"), "a path is relative to the package"),
    "no tokenizer": (at(*BEFORE, 3, "artifact", value="words"), "'words/tokenizer.json' is missing"),
    "only one is enabled": (at(*AFTER, 1, "enabled", value=False), "it is enabled, and its counterpart is not"),
    "nothing is an offset": (
        at(*BEFORE, 0, "exclude_joints", value=["joint", "gripper"]),
        "exclude_joints names all actions, so none is an offset",
    ),
    "two states": (
        lambda document: document["model"]["preprocessors"].append({"type": "relative_actions", "enabled": True}),
        r"preprocessors\[4\]: there is one before",
    ),
    "no hardware": (without("hardware"), "hardware: says nothing of 'observation.state', so its length is not known"),
    "fewer elements than an action": (
        at("hardware", "robots", 0, "state", "shape", value=[13]),
        "actions have 14 elements, and 'observation.state' has 13",
    ),
}


@pytest.mark.parametrize("case", PI05_MANIFESTS)
def test_a_vague_manifest_of_a_flow_is_refused(case: str, tmp_path: Path) -> None:
    change, match = PI05_MANIFESTS[case]
    refused(write_pi05(tmp_path / "pi05", change), match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "is no JSON that can be read"),
        ("[]", "format: expected 'policy_package', got 'list'"),
        ('{"format": "policy_package", "format": "policy_package"}', "the key 'format' stands twice"),
        ('{"format": NaN}', "nan is no JSON number|NaN is no JSON number"),
        ('{"format": 1e999}', "1e999 is no JSON number"),
        ("[" * 100_000, "is no JSON that can be read"),
        ('{"format": "policy_package", "version": 1.0}', "version: expected '1.0', got 1.0"),
        (" " * ((1 << 20) + 1), "is longer than 1048576 bytes"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, match: str, tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    (folder / "manifest.json").write_text(text)
    refused(folder, match)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    (folder / "manifest.json").write_bytes(b'{"format": "\xff"}')
    refused(folder, "is no JSON that can be read")


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("../model.onnx", "'../model.onnx': a path has no empty, '.' or '..' part"),
        ("/etc/passwd", "a path is relative to the package"),
        ("C:\\model.onnx", "a path is relative to the package"),
        ("sub//model.onnx", "no empty, '.' or '..' part"),
        ("other.onnx", "'artifacts/other.onnx' is missing"),
        ("model.xml", "'model.xml': expected an .onnx file"),
        ("folder.onnx", "'artifacts/folder.onnx' is not a plain file"),
    ],
)
def test_a_model_lies_in_its_place(path: str, match: str, tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act", at("model", "artifacts", "model", value=path))
    (folder / "artifacts" / "folder.onnx").mkdir()
    (tmp_path / "model.onnx").write_bytes(act_model())
    refused(folder, match)


@pytest.mark.parametrize("path", ["manifest.json", "artifacts/model.onnx", "artifacts", "stats.safetensors"])
def test_nothing_is_read_through_a_link(path: str, tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    (folder / path).rename(tmp_path / "elsewhere")
    (folder / path).symlink_to(tmp_path / "elsewhere")
    refused(folder, "is a link; a directory is read only where it lies")


@pytest.mark.parametrize("path", ["tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"])
def test_no_tokenizer_is_read_through_a_link(path: str, tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05")
    (folder / path).rename(tmp_path / "elsewhere")
    (folder / path).symlink_to(tmp_path / "elsewhere")
    refused(folder, "is a link; a directory is read only where it lies")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    (folder / "stats.safetensors").unlink()
    os.mkfifo(folder / "stats.safetensors")
    refused(folder, "is not a plain file")


def test_there_has_to_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="there is nothing here; expected a directory with manifest.json"):
        from_policy_package(tmp_path / "none", tmp_path / "out")
    with pytest.raises(PackageError, match="cannot be a path|there is nothing here"):
        from_policy_package(tmp_path / "no\0ne", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "'manifest.json' is missing")


@pytest.mark.parametrize(
    ("module", "name", "value", "match"),
    [
        (models, "MAX_MODEL_BYTES", 1000, "'artifacts/encoder.onnx' is longer than 1000 bytes"),
        (statistics, "MAX_STATISTICS_BYTES", 100, "'stats.safetensors' is longer than 100 bytes"),
        (tokenizers, "MAX_TOKENIZER_BYTES", 100, "tokenizer.json: is longer than 100 bytes"),
    ],
)
def test_files_have_a_greatest_length(
    module: Any, name: str, value: int, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    refused(write_pi05(tmp_path / "pi05"), match)


# --- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda found: found.pop("observation.state/std"), "stats.safetensors holds no 'observation.state/std'"),
        (lambda found: found.pop("action/mean"), "stats.safetensors holds no 'action/mean'"),
        (lambda found: found["action/max"].__setitem__(3, np.nan), "'action/max' holds NaN or an infinity"),
        (lambda found: found["action/q01"].__setitem__(0, np.inf), "'action/q01' holds NaN or an infinity"),
        (
            lambda found: found.update({"action/mean": np.zeros(14)}),
            "'action/mean' is float64; expected float32",
        ),
        (
            lambda found: found.update({"action/mean": np.zeros(13, np.float32)}),
            r"'action/mean' has the shape \[13\], and 'action/std' has \[14\]",
        ),
        (
            lambda found: found.update({f"action/{name}": np.ones(15, np.float32) for name in ("mean", "std")}),
            "statistics of 15 elements for 'action', which has 14",
        ),
        (
            lambda found: found.update(
                {f"observation.state/{name}": np.ones(1, np.float32) for name in ("mean", "std")}
            ),
            r"normalize.observation.state: .* is float32 \[1\]; expected float32 and the last axes",
        ),
        (
            lambda found: found.update({"observation.state/std": np.full(14, -1e-8, np.float32)}),
            "give a scale of 0 or infinity",
        ),
    ],
)
def test_bad_statistics_are_refused(change: Callable[[Any], Any], match: str, tmp_path: Path) -> None:
    refused(write_act(tmp_path / "act", stats=change), match)


@pytest.mark.parametrize(
    ("data", "match"), [(b"", "not a readable safetensors file"), (b"\xff" * 40, "not a readable")]
)
def test_damaged_statistics_are_refused(data: bytes, match: str, tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    (folder / "stats.safetensors").write_bytes(data)
    refused(folder, match)


def test_statistics_lie_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "stats.safetensors").write_bytes(save_arrays(made_statistics(ACT_SHAPES)))
    folder = write_act(tmp_path / "act", at(*BEFORE, 0, "artifact", value="../stats.safetensors"))
    refused(folder, "no empty, '.' or '..' part")
    folder = write_act(tmp_path / "act", at(*BEFORE, 0, "artifact", value="gone.safetensors"))
    refused(folder, "'gone.safetensors' is missing")


# --- tokenizers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({}, "neither tokenizer_config.json nor special_tokens_map.json in 'tokenizer' says the pad_token"),
        ({"pad_token": "<nothing>"}, "tokenizer/tokenizer.json has no token '<nothing>', which is the pad_token"),
        ({"pad_token": {"content": 7}}, "says the pad_token"),
        ({"pad_token": "<pad>", "truncation_side": "middle"}, "expected 'left' or 'right', got 'middle'"),
    ],
)
def test_a_tokenizer_says_what_fills_up(config: dict[str, Any], match: str, tmp_path: Path) -> None:
    refused(write_pi05(tmp_path / "pi05", config=config), match)


def test_the_token_that_fills_up_may_stand_elsewhere(tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05", config={})
    (folder / "tokenizer" / "special_tokens_map.json").write_text(json.dumps({"pad_token": {"content": "<bos>"}}))
    package = from_policy_package(folder, tmp_path / "out")
    processor = package.manifest.stages["tokenize.observation.language.tokens"].processor
    assert processor is not None
    assert processor.params["pad_id"] == 1


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "is no JSON that can be read"),
        ("[]", "expected an object, got list"),
        ('{"model": {"vocab": {"<pad>": 0}}}', "not a tokenizer that can be used"),
        ('{"model": {"vocab": [["<pad>", 0.5], 7, []]}}', "not a tokenizer that can be used"),
    ],
)
def test_a_damaged_tokenizer_is_refused(text: str, match: str, tmp_path: Path) -> None:
    folder = write_pi05(tmp_path / "pi05")
    (folder / "tokenizer" / "tokenizer.json").write_text(text)
    with pytest.raises(AshoreError, match=match):
        from_policy_package(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- models ----------------------------------------------------------------------------------------------------------

STATE = {"state": "observation.state"}
SMALL = "act (float[batch,14] state) => ({}) {{\n    {}\n}}"
NO_PROCESSORS = at("model", "preprocessors", value=None)


@pytest.mark.parametrize(
    ("outputs", "nodes", "match"),
    [
        (
            "float[batch,14] actions",
            "actions = Neg(state)",
            r"expected the output 'action' and no other, got \['actions'\]",
        ),
        (
            "float[batch,14] action, float[batch,14] more",
            "action = Neg(state)\n    more = Neg(action)",
            r"and no other, got \['action', 'more'\]",
        ),
        ("int64[batch,14] action", "action = Cast<to = 7>(state)", r"'action' is int64 \[1, 14\]; expected float32"),
        (
            "float[n,d] action",
            "action = Transpose<perm = [1, 0]>(state)",
            r"\[14, 1\]; expected float32 \[1, chunk, dim\]",
        ),
    ],
)
def test_a_model_that_gives_something_else_is_refused(outputs: str, nodes: str, match: str, tmp_path: Path) -> None:
    data = named(model(SMALL.format(outputs, nodes)), STATE)
    refused(write_act(tmp_path / "act", NO_PROCESSORS, model=data), match)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "ONNX Runtime refuses it|not a readable ONNX file"),
        (b"\x80\x04\x95", "not a readable ONNX file|ONNX Runtime refuses it"),
        (act_model()[:-40], "refuses it|not a readable"),
    ],
)
def test_a_damaged_model_is_refused(data: bytes, match: str, tmp_path: Path) -> None:
    refused(write_act(tmp_path / "act", model=data), match)


def test_weights_outside_the_file_are_refused(tmp_path: Path) -> None:
    made = onnx.load_model_from_string(act_model())
    weight = onnx.numpy_helper.from_array(np.ones(4, np.float32), "weight")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../secret")
    made.graph.initializer.append(weight)
    refused(
        write_act(tmp_path / "act", model=made.SerializeToString()), "keeps weights outside the file, in '../../secret'"
    )


def test_a_length_that_nobody_says_is_refused(tmp_path: Path) -> None:
    text = "act (float[batch,wide] state) => (float[batch,wide] action) {\n    action = Neg(state)\n}"

    def change(document: Document) -> None:
        NO_PROCESSORS(document)
        del document["hardware"]

    folder = write_act(tmp_path / "act", change, model=named(model(text), STATE))
    refused(folder, "nothing says how long axis 1 is; expected it in hardware")


def test_a_batch_that_is_not_one_is_refused(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        NO_PROCESSORS(document)
        del document["hardware"]

    data = named(model(SMALL.format("float[4,14] action", "action = Neg(state)").replace("batch", "4")), STATE)
    refused(write_act(tmp_path / "act", change, model=data), r"\[4, 14\]; expected one row, for one robot")


def test_a_model_that_does_not_run_is_refused(tmp_path: Path) -> None:
    text = """
    act (float[batch,14] state) => (float[batch,one] action) {
        place = Constant<value = int64[1] {99}>()
        action = Gather<axis = 1>(state, place)
    }
    """
    folder = write_act(tmp_path / "act", NO_PROCESSORS, model=named(model(text), STATE))
    refused(folder, "cannot be run on inputs of the shapes")


FLOWS: dict[str, tuple[dict[str, bytes], Change, str]] = {
    "another cache": (
        {"denoise": denoise().replace(b"past_key_1", b"past_kex_1")},
        lambda document: None,
        "nothing feeds 'past_kex_1'",
    ),
    "something is left over": (
        {"denoise": denoise(), "encoder": encoder().replace(b"past_value_2", b"rest_value_2"[:12])},
        lambda document: None,
        "nothing feeds 'past_value_2'",
    ),
    "another velocity": ({"denoise": denoise(velocity="flow")}, lambda document: None, "expected one output, 'v_t' or"),
    "another sample": (
        {"denoise": denoise().replace(b"x_t", b"y_t")},
        lambda document: None,
        "expected an input 'x_t'",
    ),
    "a state of another length": (
        {"denoise": denoise(state=32)},
        lambda document: (
            document["model"]["runner"]["input_mapping"].update({"observation.state": "state"}),
            document["model"]["runner"].update(state_dim=14),
        ),
        "state_dim: is 14, and 'state' has the shape",
    ),
    "floats for tokens": (
        {},
        lambda document: document["model"]["preprocessors"].__setitem__(
            3,
            {
                "type": "normalize",
                "mode": "mean_std",
                "artifact": "stats.safetensors",
                "features": ["observation.language.tokens"],
            },
        ),
        "'lang_tokens' is int64; it is fed float32, which would be cut|holds no 'observation.language.tokens/mean'",
    ),
}


@pytest.mark.parametrize("case", FLOWS)
def test_models_that_do_not_belong_together_are_refused(case: str, tmp_path: Path) -> None:
    files, change, match = FLOWS[case]
    refused(write_pi05(tmp_path / "pi05", change, models=files), match)


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    folder = write_act(tmp_path / "act")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(PackageError, match="is there already and is not a package"):
        from_policy_package(folder, tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "kept"


def test_a_flipped_byte_never_passes_for_another_error(tmp_path: Path) -> None:
    """Whatever stands in the manifest, it is read or refused by an error of our own."""
    folder = write_pi05(tmp_path / "pi05")
    text, rng = (folder / "manifest.json").read_bytes(), np.random.default_rng(3)
    for _ in range(60):
        damaged = bytearray(text)
        for place in rng.integers(0, len(text), 3):
            damaged[place] = rng.integers(32, 127)
        (folder / "manifest.json").write_bytes(bytes(damaged))
        try:
            from_policy_package(folder, tmp_path / "out")
        except AshoreError:
            continue
        shutil.rmtree(tmp_path / "out")
