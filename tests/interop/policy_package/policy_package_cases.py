"""Directories in that format, small, and with everything in them that its runtime does between its files."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import support
from ashore.package import save_arrays

Document = dict[str, Any]
CHUNK, DIM = 20, 14
ROWS, WIDE, TOKENS, LAYERS, HEAD = 10, 32, 16, 3, 16


def numbers(count: int, seed: int, spread: float = 1.0) -> str:
    """So many constants, as ONNX's text form has them."""
    values = np.random.default_rng(seed).uniform(-spread, spread, count)
    return ", ".join(f"{value:.4f}" for value in values)


# --- ACT -------------------------------------------------------------------------------------------------------------

ACT: Document = {
    "format": "policy_package",
    "version": "1.0",
    "policy": {"name": "act", "source": {"class_path": "lerobot.policies.act.modeling_act.ACTPolicy"}},
    "model": {
        "n_obs_steps": 1,
        "runner": {"type": "single_pass", "chunk_size": 20, "n_action_steps": 20, "action_dim": 14},
        "artifacts": {"model": "model.onnx"},
        "preprocessors": [
            {
                "type": "normalize",
                "mode": "mean_std",
                "artifact": "stats.safetensors",
                "features": ["observation.state", "observation.images.cam0"],
            }
        ],
        "postprocessors": [
            {"type": "denormalize", "mode": "mean_std", "artifact": "stats.safetensors", "features": ["action"]}
        ],
    },
    "hardware": {
        "robots": [
            {
                "name": "main",
                "state": {"shape": [14], "dtype": "float32"},
                "action": {"shape": [14], "dtype": "float32"},
            }
        ],
        "cameras": [{"name": "cam0", "shape": [3, 96, 96], "dtype": "uint8"}],
    },
    "metadata": {"created_at": "2026-05-01T11:13:00+00:00", "created_by": "lerobot.export"},
}


def act_model(rows: int = CHUNK, dim: int = DIM) -> bytes:
    text = f"""
    act (float[batch,{dim}] state, float[batch,3,96,96] cam0) => (float[n,h,d] action) {{
        pixels = Constant<value = int64[3] {{1, 2, 3}}>()
        last = Constant<value = int64[2] {{1, 2}}>()
        one = Constant<value = int64[1] {{1}}>()
        ramp = Constant<value = float[1,{rows},1] {{{numbers(rows, 1)}}}>()
        gain = Constant<value = float[1,1,{dim}] {{{numbers(dim, 2)}}}>()
        seen = ReduceMean<keepdims = 0>(cam0, pixels)
        light = Unsqueeze(seen, last)
        row = Unsqueeze(state, one)
        scaled = Mul(row, gain)
        moved = Mul(scaled, ramp)
        action = Add(moved, light)
    }}
    """
    return named(support.model(text), {"state": "observation.state", "cam0": "observation.images.cam0"})


def named(data: bytes, names: Mapping[str, str]) -> bytes:
    """A model whose values have other names: those of features, which ONNX's text form cannot say."""
    import onnx

    model = onnx.load_model_from_string(data)
    for port in model.graph.input:
        port.name = names.get(port.name, port.name)
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
    return model.SerializeToString()


def statistics(shapes: Mapping[str, tuple[int, ...]], seed: int = 5) -> dict[str, np.ndarray]:
    """Every statistic of some features."""
    rng, found = np.random.default_rng(seed), dict[str, np.ndarray]()
    for feature, shape in shapes.items():
        low = rng.uniform(-1.0, -0.2, shape)
        values = {"mean": rng.normal(size=shape), "std": rng.uniform(0.3, 2.0, shape), "min": low, "max": low + 1.7}
        values |= {"q01": low, "q99": low + rng.uniform(0.5, 2.0, shape), "q10": low / 2, "q90": low / 2 + 0.9}
        found |= {f"{feature}/{name}": value.astype(np.float32) for name, value in values.items()}
    return found


ACT_SHAPES = {"observation.state": (14,), "observation.images.cam0": (3, 1, 1), "action": (14,)}


def write_act(
    folder: Path,
    change: Callable[[Document], Any] = lambda document: None,
    *,
    stats: Callable[[dict[str, np.ndarray]], Any] = lambda found: None,
    model: bytes | None = None,
) -> Path:
    """The manifest of ACT, changed; its statistics, changed; its model."""
    found = statistics(ACT_SHAPES)
    stats(found)
    files = {"artifacts/model.onnx": act_model() if model is None else model, "stats.safetensors": save_arrays(found)}
    return write(folder, ACT, change, files)


def write(folder: Path, document: Document, change: Callable[[Document], Any], files: Mapping[str, bytes]) -> Path:
    document = copy.deepcopy(document)
    change(document)
    for path, data in {**files, "manifest.json": json.dumps(document, indent=2).encode()}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


# --- PI05 ------------------------------------------------------------------------------------------------------------

JOINTS = [f"joint_{index}" for index in range(12)] + ["Left_Gripper", "right_gripper"]
PI05: Document = {
    "format": "policy_package",
    "version": "1.0",
    "policy": {"name": "pi05", "source": {"class_path": "lerobot.policies.pi05.modeling_pi05.PI05Policy"}},
    "model": {
        "n_obs_steps": 1,
        "runner": {
            "type": "kv_cache_flow",
            "num_inference_steps": 10,
            "scheduler": "euler",
            "action_dim": 32,
            "output_action_dim": 14,
            "chunk_size": 10,
            "n_action_steps": 10,
            "num_layers": 3,
            "num_kv_heads": 1,
            "head_dim": 16,
            "input_mapping": {
                "observation.images.top": "image_0",
                "observation.language.tokens": "lang_tokens",
                "observation.language.attention_mask": "lang_masks",
            },
            "state_dim": None,
        },
        "artifacts": {"encoder": "encoder.onnx", "denoise": "denoise.onnx"},
        "preprocessors": [
            {
                "type": "relative_actions",
                "enabled": True,
                "exclude_joints": ["gripper"],
                "action_names": JOINTS,
            },
            {
                "type": "normalize",
                "mode": "quantiles",
                "artifact": "stats.safetensors",
                "features": ["observation.state"],
            },
            {"type": "pi05_prepare_state", "max_state_dim": 32},
            {
                "type": "tokenize",
                "artifact": "tokenizer",
                "tokenizer_name": "google/paligemma-3b-pt-224",
                "max_length": 16,
                "padding_side": "right",
                "padding": "max_length",
                "truncation": True,
            },
        ],
        "postprocessors": [
            {"type": "denormalize", "mode": "quantiles", "artifact": "stats.safetensors", "features": ["action"]},
            {"type": "absolute_actions", "enabled": True},
        ],
    },
    "hardware": {
        "robots": [
            {
                "name": "main",
                "state": {"shape": [14], "dtype": "float32"},
                "action": {"shape": [14], "dtype": "float32", "order": JOINTS},
            }
        ],
        "cameras": [{"name": "top", "shape": [3, 8, 8], "dtype": "uint8"}],
    },
}


def encoder(masks: str = "float", state: int | None = None) -> bytes:
    """Keys and values of three layers, from an image, its mask, and tokens with theirs."""
    past = [f"past_{part}_{layer}" for layer in range(LAYERS) for part in ("key", "value")]
    outputs = ", ".join(f"float[batch,1,p,16] {name}" for name in past)
    lines: list[str] = []
    for layer in range(LAYERS):
        lines += [
            f"row{layer} = Constant<value = float[1,1,1,16] {{{numbers(HEAD, 10 + layer)}}}>()",
            f"past_key_{layer} = Mul(words, row{layer})",
            f"past_value_{layer} = Add(past_key_{layer}, light)",
        ]
    more = f", float[batch,{state}] state" if state else ""
    told = "pose = ReduceSum<keepdims = 1>(state, one)" if state else "pose = Identity(shown)"
    return support.model(f"""
    encode (float[batch,3,8,8] image_0, bool[batch] img_mask_0, int64[batch,16] lang_tokens,
            {masks}[batch,16] lang_masks{more}) => (bool[batch,p] prefix_pad_mask, {outputs}) {{
        one = Constant<value = int64[1] {{1}}>()
        pixels = Constant<value = int64[3] {{1, 2, 3}}>()
        ends = Constant<value = int64[2] {{1, 3}}>()
        last = Constant<value = int64[2] {{2, 3}}>()
        half = Constant<value_float = 0.5>()
        tenth = Constant<value_float = 0.1>()
        mean = ReduceMean<keepdims = 0>(image_0, pixels)
        there = Cast<to = 1>(img_mask_0)
        lit = Mul(mean, there)
        shown = Unsqueeze(lit, one)
        {told}
        both = Add(shown, pose)
        light = Unsqueeze(both, last)
        ids = Cast<to = 1>(lang_tokens)
        kept = Cast<to = 1>(lang_masks)
        spoken = Mul(ids, kept)
        quiet = Mul(spoken, tenth)
        words = Unsqueeze(quiet, ends)
        prefix_pad_mask = Greater(kept, half)
        {"        ".join(line + chr(10) for line in lines)}
    }}
    """)


def denoise(mask: str = "bool", velocity: str = "v_t", state: int | None = None) -> bytes:
    """A velocity of the sample, the time, and all that the encoder gave."""
    past = [f"past_{part}_{layer}" for layer in range(LAYERS) for part in ("key", "value")]
    inputs = ", ".join(f"float[batch,1,16,16] {name}" for name in past)
    sums = [f"sum{index} = ReduceMean<keepdims = 0>({name}, rest)" for index, name in enumerate(past)]
    total = ", ".join(f"sum{index}" for index in range(len(past)))
    more = f", float[batch,{state}] state" if state else ""
    told = "pose = ReduceMean<keepdims = 0>(state, one)" if state else "pose = Identity(context)"
    return support.model(f"""
    denoise (float[batch,10,32] x_t, float[batch] timestep, {mask}[batch,16] prefix_pad_mask, {inputs}{more})
        => (float[batch,10,32] {velocity}) {{
        one = Constant<value = int64[1] {{1}}>()
        rest = Constant<value = int64[3] {{1, 2, 3}}>()
        last = Constant<value = int64[2] {{1, 2}}>()
        gain = Constant<value = float[1,1,32] {{{numbers(WIDE, 30)}}}>()
        {"        ".join(line + chr(10) for line in sums)}
        context = Sum({total})
        {told}
        kept = Cast<to = 1>(prefix_pad_mask)
        count = ReduceMean<keepdims = 0>(kept, one)
        known = Add(context, count)
        posed = Add(known, pose)
        timed = Mul(posed, timestep)
        column = Unsqueeze(timed, last)
        pulled = Mul(x_t, gain)
        {velocity} = Add(pulled, column)
    }}
    """)


WORDS = ["<pad>", "<bos>", "<unk>", "pick", "up", "the", "red", "cube"]


def tokenizer_json() -> bytes:
    """A tokenizer of a few words, which puts one in front of every text."""
    made = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(WORDS[:3])
    made.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return made.to_str().encode()


PI05_SHAPES = {"observation.state": (14,), "action": (14,)}


def write_pi05(
    folder: Path,
    change: Callable[[Document], Any] = lambda document: None,
    *,
    models: Mapping[str, bytes] = {},
    config: Mapping[str, Any] | None = None,
) -> Path:
    """The manifest of PI05, changed; its models."""
    settings = {"tokenizer_class": "GemmaTokenizerFast", "pad_token": "<pad>"} if config is None else config
    files = {
        "artifacts/encoder.onnx": models.get("encoder") or encoder(),
        "artifacts/denoise.onnx": models.get("denoise") or denoise(),
        "stats.safetensors": save_arrays(statistics(PI05_SHAPES)),
        "tokenizer/tokenizer.json": tokenizer_json(),
        "tokenizer/tokenizer_config.json": json.dumps(settings).encode(),
    }
    return write(folder, PI05, change, files)
