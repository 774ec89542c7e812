"""What that format's own runtime computes, said again in numpy from what is published of it.

It shares nothing with Ashore's conversion. In one thing it does what training does and not what that runtime does: a
feature is scaled once, however many entries there are.
"""

from __future__ import annotations

import json
import re
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import safetensors.numpy
from tokenizers import Tokenizer

NUMPY = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}
PAIRS = {
    "mean_std": ("mean", "std"),
    "min_max": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
}


class Published:
    """A directory, run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = json.loads((folder / "manifest.json").read_text())["model"]
        self.runner = self.model["runner"]
        self.sessions = {
            role: onnxruntime.InferenceSession(folder / "artifacts" / name, providers=["CPUExecutionProvider"])
            for role, name in self.model["artifacts"].items()
        }
        self.decisions = 0
        self.reset()

    def reset(self) -> None:
        self.queue: deque[np.ndarray] = deque()
        self.raw: np.ndarray | None = None

    def select_action(self, observation: dict[str, Any], noise: np.ndarray | None = None) -> np.ndarray:
        if not self.queue:
            chunk = self.predict_action_chunk(observation, noise=noise)
            self.queue.extend(chunk[: self.runner.get("n_action_steps", len(chunk))])
        return self.queue.popleft()

    def predict_action_chunk(
        self, observation: dict[str, Any], noise: np.ndarray | None = None, num_steps: int | None = None
    ) -> np.ndarray:
        self.decisions += 1
        data = dict(observation)
        for spec in self.model.get("preprocessors") or ():
            getattr(self, spec["type"])(data, spec)
        action = self.single_pass(data) if self.runner["type"] == "single_pass" else self.flow(data, noise, num_steps)
        out = {"action": action}
        for spec in self.model.get("postprocessors") or ():
            getattr(self, spec["type"])(out, spec)
        return out["action"]

    # --- processors --------------------------------------------------------------------------------------------------

    def statistics(self, spec: dict[str, Any], feature: str) -> tuple[np.ndarray, np.ndarray]:
        found = safetensors.numpy.load_file(self.folder / spec["artifact"])
        first, second = PAIRS[spec.get("mode", "mean_std")]
        return found[f"{feature}/{first}"], found[f"{feature}/{second}"]

    def normalize(self, data: dict[str, Any], spec: dict[str, Any]) -> None:
        for feature in spec["features"]:
            if feature not in data or spec.get("mode") == "identity":
                continue
            low, high = self.statistics(spec, feature)
            if spec.get("mode", "mean_std") == "mean_std":
                data[feature] = (data[feature] - low) / (high + np.float32(1e-8))
            else:
                width = np.where(high == low, np.float32(1e-8), high - low)
                data[feature] = 2 * (data[feature] - low) / width - 1

    def denormalize(self, data: dict[str, Any], spec: dict[str, Any]) -> None:
        for feature in spec["features"]:
            if spec.get("mode") == "identity":
                continue
            low, high = self.statistics(spec, feature)
            value = data[feature][..., : len(low)]
            if spec.get("mode", "mean_std") == "mean_std":
                data[feature] = value * high + low
            else:
                data[feature] = (value + 1) / 2 * np.where(high == low, np.float32(1e-8), high - low) + low

    def relative_actions(self, data: dict[str, Any], spec: dict[str, Any]) -> None:
        self.raw, self.relative = data["observation.state"].copy(), spec

    def absolute_actions(self, data: dict[str, Any], spec: dict[str, Any]) -> None:
        if not spec["enabled"]:
            return
        assert self.raw is not None
        names = [name.lower() for name in self.relative.get("action_names") or []]
        words = [word.lower() for word in self.relative.get("exclude_joints") or []]
        for index in range(data["action"].shape[-1]):
            if index < len(names) and any(word in names[index] for word in words):
                continue
            data["action"][..., index] += self.raw[0, index]

    def pi05_prepare_state(self, data: dict[str, Any], spec: dict[str, Any]) -> None:
        state = data["observation.state"]
        missing = spec["max_state_dim"] - state.shape[-1]
        if missing > 0:
            data["observation.state"] = np.concatenate([state, np.zeros((1, missing), np.float32)], axis=-1)

    def tokenize(self, data: dict[str, Any], spec: dict[str, Any]) -> None:
        folder = self.folder / spec["artifact"]
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text())
        length = spec["max_length"]
        tokenizer.enable_truncation(length)
        pad = tokenizer.token_to_id(settings["pad_token"])
        tokenizer.enable_padding(direction=spec["padding_side"], pad_id=pad, length=length)
        found = tokenizer.encode(data.pop("task"))
        data["observation.language.tokens"] = np.array([found.ids], np.int64)
        data["observation.language.attention_mask"] = np.array([found.attention_mask], np.bool_)

    # --- runners -----------------------------------------------------------------------------------------------------

    def run(self, role: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        session = self.sessions[role]
        inputs = {port.name: given[port.name].astype(NUMPY[port.type]) for port in session.get_inputs()}
        outputs = [port.name for port in session.get_outputs()]
        return dict(zip(outputs, session.run(outputs, inputs), strict=True))

    def single_pass(self, data: dict[str, np.ndarray]) -> np.ndarray:
        action = self.run("model", {name: value.astype(np.float32) for name, value in data.items()})["action"]
        return action[0] if action.ndim == 3 else action

    def flow(self, data: dict[str, np.ndarray], noise: np.ndarray | None, num_steps: int | None) -> np.ndarray:
        names = self.runner.get("input_mapping") or {}
        given = {
            names.get(name, name): value.astype(np.int64 if names.get(name) == "lang_tokens" else np.float32)
            for name, value in data.items()
        }
        for name in [name for name in given if re.fullmatch(r"image_\d+", name)]:
            given.setdefault(name.replace("image_", "img_mask_"), np.ones(1, np.float32))
        encoded = self.run("encoder", given)
        context = {name: value for name, value in encoded.items() if name.startswith("past_")}
        context["prefix_pad_mask"] = encoded.get("prefix_pad_mask", next(iter(encoded.values())))
        if "state" in given:
            context["state"] = given["state"]
        assert noise is not None
        x, count = noise.astype(np.float32), num_steps or self.runner["num_inference_steps"]
        for step in range(count):
            time = np.full(1, 1.0 + step * (-1.0 / count), np.float32)
            results = self.run("denoise", {"x_t": x, "timestep": time, **context})
            x = x + (-1.0 / count) * results.get("v_t", results.get("velocity"))
        return x[..., : self.runner.get("output_action_dim", x.shape[-1])][0]
