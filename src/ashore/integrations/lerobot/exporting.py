"""From a folder that LeRobot's training wrote to a package, with nothing added by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ashore.errors import ExportError
from ashore.integrations.lerobot.checkpoint import load_checkpoint
from ashore.integrations.lerobot.exportable import LeRobotExport, adapt
from ashore.package import Package
from ashore.staged import export_policy

Images = Literal["uint8_hwc", "float_chw"]


def export_lerobot(
    folder: str | Path,
    out: str | Path,
    backend: str = "onnx",
    *,
    images: Images = "uint8_hwc",
    guidance: bool = False,
    told: Callable[[str], object] = str,
    **options: Any,
) -> Package:
    """Export a policy that LeRobot saved, with its own processors and statistics.

    The package is compared with LeRobot's own pipeline before it is written: preprocessor, `select_action` and
    postprocessor, over more than a chunk, with a reset, and with the same noise.

    Args:
        folder: what `save_pretrained` wrote; see `ashore.integrations.lerobot.load_checkpoint`.
        out: where the package goes.
        backend: as for `ashore.staged.export_policy`.
        images: what the robot gives: ``uint8_hwc`` as cameras and LeRobot's `predict_action` have them, or
            ``float_chw``, from 0 to 1, as LeRobot's datasets have them.
        guidance: for flows: have the chunk drawn towards what is left of the one before, as LeRobot's real-time
            chunking does. The package then has no queue, and three more inputs.
        told: is told what is being done.
        options: as for `ashore.staged.export_policy`.

    Returns:
        The package.
    """
    told("loading")
    checkpoint = load_checkpoint(folder)
    found = adapt(checkpoint.policy)
    if found is None:
        raise ExportError(f"{folder}: {type(checkpoint.policy).__name__} is no policy of LeRobot")
    export = LeRobotExport(checkpoint.policy, found.kind, checkpoint.pipelines, guided=guidance)
    told(f"exporting {checkpoint.policy.config.type}")
    return export_policy(
        export,
        out,
        backend,
        example_batch=export.default_example(images),
        **{"checkpoint": checkpoint.folder / "model.safetensors", **options},
    )
