"""What to call captured tensors, and who owns them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ashore.capture.tape import Capture


def spoken(capture: Capture) -> str:
    """A captured tensor as a message names it."""
    shape = "x".join(map(str, capture.tensor.shape)) or "scalar"
    name = capture.path or f"a tensor in `{capture.line.text}`"
    return f"{name} ({str(capture.tensor.dtype).removeprefix('torch.')} {shape})"


def state_name(path: str | None, taken: Iterable[str]) -> str:
    """A name for a state, from what the code calls it."""
    path = (path or "state").replace("]", "").replace("'", "").replace('"', "")
    stem = path.split(".")[-1].strip("_") or "state"
    stem = "_".join(part for part in stem.split("[") if part) or "state"
    return unique(stem, taken)


def unique(stem: str, taken: Iterable[str]) -> str:
    """`stem`, or with a number where it is taken."""
    used, name, number = set(taken), stem, 1
    while name in used:
        number += 1
        name = f"{stem}_{number}"
    return name


def owned_tensors(modules: Iterable[Any]) -> dict[int, str]:
    """Id -> path, of every parameter and buffer of some modules."""
    modules = [module for module in modules if "_modules" in vars(module)]  # not those that were never finished
    inner = {id(child) for module in modules for child in module._modules.values()}
    found: dict[int, str] = {}
    for root in sorted(modules, key=lambda module: id(module) in inner):
        for prefix, module in root.named_modules():
            for group in (module._parameters, module._buffers):
                for name, tensor in group.items():
                    if tensor is not None:
                        path = ".".join(part for part in (type(root).__name__, prefix, name) if part)
                        found.setdefault(id(tensor), path)
    return found
