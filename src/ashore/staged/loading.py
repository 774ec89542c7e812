"""Running what was exported, under the name that people's scripts already call."""

from __future__ import annotations

import os

from ashore.runtime import Policy, load


def load_exported_policy(path: str | os.PathLike[str], backend: str | None = None, device: str = "cpu") -> Policy:
    """Open a package; it has `select_action`, `predict_action_chunk` and `reset`.

    Args:
        path: a package directory, or an ``.ashore`` file.
        backend: what runs the modules, such as ``onnx`` or ``openvino``; by default what the package has.
        device: where. One that is not there is an error.
    """
    return load(path, backend=backend, device=device)
