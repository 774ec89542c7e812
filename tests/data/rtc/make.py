"""Records what LeRobot's own real-time chunking computes, for `tests/runtime/loops/test_guidance.py`.

    pip install torch==2.13.0 numpy safetensors
    pip download --no-deps lerobot==0.4.4 -d wheel && unzip wheel/lerobot-0.4.4-py3-none-any.whl -d wheel
    python make.py wheel

Only the module of the processor is imported, with the packages around it left empty: the rest of LeRobot is not needed.
"""

from __future__ import annotations

import itertools
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = Path(__file__).parent
SHAPE = (1, 8, 3)
SCHEDULES = ("linear", "exp", "ones", "zeros")
EXTENTS = (
    # delay, horizon, rows of the old chunk, its width
    (2, 6, 8, 3),
    (0, 6, 8, 3),
    (3, 10, 8, 3),
    (2, 6, 4, 3),
    (5, 6, 3, 3),
    (7, 4, 8, 3),
    (2, 3, 8, 2),
    (1, 2, 1, 3),
)
TIMES = (1.0, 0.999, 0.7, 0.5, 0.1, 1e-3, 0.0)


def processor(wheel: Path) -> tuple[type, type, type]:
    for name in ("lerobot", "lerobot.configs", "lerobot.policies", "lerobot.policies.rtc"):
        package = types.ModuleType(name)
        package.__path__ = [str(wheel / name.replace(".", "/"))]
        sys.modules[name] = package
    from lerobot.configs.types import RTCAttentionSchedule
    from lerobot.policies.rtc.configuration_rtc import RTCConfig
    from lerobot.policies.rtc.modeling_rtc import RTCProcessor

    return RTCAttentionSchedule, RTCConfig, RTCProcessor


def velocity(x: torch.Tensor, time: float, context: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * context + torch.tensor(time, dtype=torch.float32))


def main(wheel: Path) -> None:
    schedules, config, rtc = processor(wheel)
    generator = torch.Generator().manual_seed(7)
    cases, arrays = [], {}
    for index, (schedule, (delay, horizon, rows, width)) in enumerate(itertools.product(SCHEDULES, EXTENTS)):
        most, steps = (10.0, 10) if index % 2 else (3.5, 7)
        one = rtc(
            config(
                prefix_attention_schedule=schedules[schedule.upper()],
                max_guidance_weight=most,
                execution_horizon=horizon,
            )
        )
        noise = torch.randn(SHAPE, generator=generator)
        context = torch.randn((1, 1, SHAPE[2]), generator=generator)
        old = torch.randn((1, rows, width), generator=generator)
        x, step = noise, -1.0 / steps
        for count in range(steps):  # as in `sample_actions` of pi0, pi05 and smolvla
            time = 1.0 + count * step
            x = x + step * one.denoise_step(
                x_t=x,
                prev_chunk_left_over=old,
                inference_delay=delay,
                time=time,
                original_denoise_step_partial=lambda value, time=time, context=context: velocity(value, time, context),
            )
        single = [
            one.denoise_step(
                x_t=noise,
                prev_chunk_left_over=old,
                inference_delay=delay,
                time=time,
                original_denoise_step_partial=lambda value, time=time, context=context: velocity(value, time, context),
            )
            for time in TIMES
        ]
        recorded = {
            "noise": noise,
            "context": context,
            "old": old,
            "actions": x,
            "guided": torch.stack(single),
            "weights": one.get_prefix_weights(delay, min(horizon, rows), SHAPE[1]),
        }
        arrays |= {f"{index}/{name}": np.ascontiguousarray(value.numpy()) for name, value in recorded.items()}
        cases.append(
            {
                "schedule": schedule,
                "delay": delay,
                "horizon": horizon,
                "rows": rows,
                "width": width,
                "max_weight": most,
                "num_steps": steps,
            }
        )
    save_file(arrays, HERE / "reference.safetensors")
    document = {"lerobot": "0.4.4", "torch": torch.__version__, "times": TIMES, "cases": cases}
    (HERE / "cases.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
