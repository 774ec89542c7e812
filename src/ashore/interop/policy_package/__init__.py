"""Directories in the format ``policy_package`` 1.0, as LeRobot's policy export and Intel's physicalai describe it.

Nothing here imports lerobot, physicalai or torch. ``onnx`` is needed only where a model file has to be joined to what
the other format does between its files: names, dtypes, masks of images.
"""

from ashore.interop.policy_package.reading import from_policy_package
from ashore.interop.policy_package.writing import Written, to_policy_package

__all__ = ["Written", "from_policy_package", "to_policy_package"]
