"""The one-file form: one ONNX file that Exploy's controller runs tick after tick.

Nothing here imports the ``exploy`` package or torch. Writing and reading such files needs ``onnx``; running one needs
neither (see `ashore.environment.session`).
"""

from ashore.interop.exploy.reading import from_exploy
from ashore.interop.exploy.writing import Written, to_exploy

__all__ = ["Written", "from_exploy", "to_exploy"]
