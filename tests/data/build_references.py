"""Writes what LeRobot computes, for the tests of the processors that shall compute the same without torch.

Run it with the wheel of LeRobot (``pip download --no-deps lerobot==0.4.4``) where torch is installed. Only the
definitions named here are taken out of it, so none of what it depends on has to be there.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from ashore.package import save_arrays

OUT = Path(__file__).parent / "lerobot.safetensors"
MODES = {"MEAN_STD": "mean_std", "MIN_MAX": "min_max", "QUANTILES": "quantiles", "QUANTILE10": "quantile10"}
RESIZES = {
    "down": ((13, 17), (7, 9)),
    "up": ((5, 6), (12, 11)),
    "wide": ((12, 640), (30, 224)),
    "same": ((6, 8), (6, 8)),
}
"""Name -> (height, width) before and after."""


def definition(wheel: zipfile.ZipFile, path: str, *names: str, **known: Any) -> Any:
    """A definition of LeRobot, or one within a class."""
    body = ast.parse(wheel.read(path)).body
    for name in names:
        (node,) = (entry for entry in body if getattr(entry, "name", None) == name)
        body = getattr(node, "body", [])
    space = {"torch": torch, "F": torch.nn.functional, "Tensor": torch.Tensor, **known}
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module([*future, node], []), path, "exec"), space)
    return space[names[-1]]


def scaled(wheel: zipfile.ZipFile, generator: np.random.Generator) -> dict[str, np.ndarray]:
    modes = Enum("NormalizationMode", [*MODES, "IDENTITY"])
    transform = definition(
        wheel,
        "lerobot/processor/normalize_processor.py",
        "_NormalizationMixin",
        "_apply_transform",
        NormalizationMode=modes,
    )
    made: dict[str, np.ndarray] = {}
    for name, shape in (("vector", (6,)), ("image", (3, 1, 1))):
        low = generator.normal(size=shape).astype(np.float32)
        stats = {
            "mean": generator.normal(size=shape).astype(np.float32),
            "std": generator.uniform(0.1, 2, size=shape).astype(np.float32),
        }
        for first, second in (("min", "max"), ("q01", "q99"), ("q10", "q90")):
            stats[first] = low
            stats[second] = (low + generator.uniform(0.1, 3, size=shape)).astype(np.float32)
        if name == "vector":  # a joint that never moved
            stats["std"][2] = 0
            for high in ("max", "q99", "q90"):
                stats[high][2] = low[2]
        values = generator.normal(size=(5, 6) if name == "vector" else (2, 3, 4, 5)).astype(np.float32)
        made |= {f"scale/{name}/{stat}": array for stat, array in stats.items()} | {f"scale/{name}/x": values}
        for mode, ours in MODES.items():
            step = SimpleNamespace(
                norm_map={"F": modes[mode]},
                eps=1e-8,
                _tensor_stats={"k": {stat: torch.from_numpy(array) for stat, array in stats.items()}},
            )
            for inverse in (False, True):
                result = transform(step, torch.from_numpy(values), "k", "F", inverse=inverse)
                made[f"scale/{name}/{ours}/{'inverse' if inverse else 'forward'}"] = result.numpy()
    return made


def ensembled(wheel: zipfile.ZipFile, generator: np.random.Generator) -> dict[str, np.ndarray]:
    ensembler = definition(wheel, "lerobot/policies/act/modeling_act.py", "ACTTemporalEnsembler")
    chunks = generator.normal(size=(15, 3, 6, 2)).astype(np.float32)
    made = {"ensemble/chunks": chunks}
    for coefficient in (0.01, -0.3, 0.0):
        online = ensembler(coefficient, 6)
        made[f"ensemble/{coefficient}"] = np.stack([online.update(torch.from_numpy(c)).numpy() for c in chunks])
    return made


def resized(wheel: zipfile.ZipFile, generator: np.random.Generator) -> dict[str, np.ndarray]:
    left_top = definition(wheel, "lerobot/policies/smolvla/modeling_smolvla.py", "resize_with_pad")
    centre = definition(wheel, "lerobot/policies/pi05/modeling_pi05.py", "resize_with_pad_torch")
    made: dict[str, np.ndarray] = {}
    for name, (before, after) in RESIZES.items():
        rows = 1 if name == "wide" else 2
        images = generator.uniform(size=(rows, 3 if rows > 1 else 1, *before)).astype(np.float32)
        tensor = torch.from_numpy(images)
        made[f"resize/{name}/x"] = images
        made[f"resize/{name}/plain"] = torch.nn.functional.interpolate(
            tensor, size=after, mode="bilinear", align_corners=False
        ).numpy()
        made[f"resize/{name}/left_top"] = left_top(tensor, after[1], after[0], pad_value=0).numpy()
        made[f"resize/{name}/centre"] = centre(tensor, *after).numpy()
    return made


if __name__ == "__main__":
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        parts = [make(wheel, generator) for make in (scaled, ensembled, resized)]
    arrays = {name: array for part in parts for name, array in part.items()}
    OUT.write_bytes(save_arrays(arrays))
