"""Lets torchvision's Python part be imported beside a build of torch its compiled part was not made for.

torchvision on the package index is compiled for CUDA. Beside a CPU build of torch its library does not load, and
`import torchvision` stops at "operator torchvision::nms does not exist". The networks and the transforms need no
compiled operator: it is enough that the schemas exist. tools/setup_lerobot.sh puts this file into the environment it
makes, with a .pth file that imports it, so that every program started there can import torchvision.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
OPERATORS = ("torchvision::nms", "torchvision::qnms")


class DefineBeforeImport(MetaPathFinder):
    """Defines the operators when torchvision is first imported, and not before: importing torch takes a second."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Find nothing; only see the name go by."""
        if fullname != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        for operator in OPERATORS:
            torch.library.define(operator, SCHEMA)


sys.meta_path.insert(0, DefineBeforeImport())
