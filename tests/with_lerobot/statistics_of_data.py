"""What a robot saw and did, made up, and its statistics as LeRobot computes them.

One joint and one action never move: real datasets have such, and their range is zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from lerobot.datasets.compute_stats import get_feature_stats

HEIGHT, WIDTH = 48, 64  # not square
CONSTANT = 0.25  # exact in float32
STILL_JOINT, STILL_ACTION = 3, 5
TASK = "pick_up the red block"

Observation = dict[str, np.ndarray]


def joints(rng: np.random.Generator, samples: int, width: int, still: int) -> np.ndarray:
    """Values of different ranges and skew, (samples, width), float32; one of them never changes."""
    centre = np.linspace(-1.5, 2.0, width)
    spread = np.linspace(0.05, 1.2, width)
    values = centre + spread * (rng.beta(2.0, 5.0, (samples, width)) - 0.3)
    values[:, still] = CONSTANT
    return values.astype(np.float32)


def images(rng: np.random.Generator, samples: int) -> np.ndarray:
    """Smooth pictures of different colours, (samples, height, width, 3), uint8."""
    coarse = rng.uniform(0, 1, (samples, 6, 8, 3)) * np.array([200.0, 120.0, 240.0]) + np.array([10.0, 60.0, 0.0])
    fine = coarse.repeat(HEIGHT // 6, 1).repeat(WIDTH // 8, 2) + rng.uniform(0, 15, (samples, HEIGHT, WIDTH, 3))
    return fine.astype(np.uint8)


def statistics(state: int, action: int, cameras: tuple[str, ...]) -> dict[str, dict[str, np.ndarray]]:
    """Statistics of every feature of a dataset, those that no policy reads among them."""
    rng = np.random.default_rng(7)
    of_data = {
        "observation.state": get_feature_stats(joints(rng, 200, state, STILL_JOINT), axis=0, keepdims=False),
        "action": get_feature_stats(joints(rng, 200, action, STILL_ACTION), axis=0, keepdims=False),
    }
    for camera in cameras:
        pixels = images(rng, 20).transpose(0, 3, 1, 2).astype(np.float64)
        of_pixels = get_feature_stats(pixels, axis=(0, 2, 3), keepdims=True)
        of_data[f"observation.images.{camera}"] = {
            key: value if key == "count" else np.squeeze(value / 255.0, axis=0) for key, value in of_pixels.items()
        }
    for key in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        of_data[key] = get_feature_stats(np.arange(200, dtype=np.float64), axis=0, keepdims=True)
    return of_data


def observations(config: Any, ticks: int, seed: int = 3) -> Iterator[Observation]:
    """What a robot sees, tick by tick: images as a camera gives them (height, width, 3) uint8, states float32."""
    rng = np.random.default_rng(seed)
    width = config.robot_state_feature.shape[0]
    for _ in range(ticks):
        seen = {key: images(rng, 1)[0] for key in config.image_features}
        yield seen | {"observation.state": joints(rng, 1, width, STILL_JOINT)[0]}
