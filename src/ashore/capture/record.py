"""The simplest door: run your code inside ``with ashore.record(...)`` and say what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ashore.capture.contract import PortInfo
from ashore.capture.export import export
from ashore.capture.nesting import each
from ashore.capture.options import ExportOptions, check_name
from ashore.capture.session import Session
from ashore.package import Package

NODE = "policy"


class Recorder:
    """Marks steps and declares tensors; made by `record`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        """What was recorded, for whoever looks at it before it is exported."""
        self.package: Package | None = None
        """The package, once the recording is over."""

    def step(self) -> _StepMark:
        """Mark the beginning of a step. Use it as ``with rec.step():`` to mark its end too."""
        self.session.begin_step()
        return _StepMark(self.session)

    def reset(self) -> None:
        """Mark that an episode ends. Call it before your code resets itself."""
        self.session.mark_reset()

    def input(self, name: str, value: Any, **meaning: Any) -> Any:
        """Declare an input: a tensor, or a dict or list of tensors. Gives it back, to be used from here on."""
        self._begin()
        return each(
            name,
            value,
            lambda port, tensor: self.session.declare_input((NODE, port), tensor, PortInfo.of(port, meaning)),
        )

    def output(self, name: str, value: Any, **meaning: Any) -> Any:
        """Declare an output."""
        self._begin()
        return each(
            name,
            value,
            lambda port, tensor: self.session.declare_output((NODE, port), tensor, PortInfo.of(port, meaning)),
        )

    def state(self, name: str, value: Any, **meaning: Any) -> Any:
        """Declare a state."""
        self._begin()
        return each(
            name,
            value,
            lambda port, tensor: self.session.declare_state((NODE, port), tensor, PortInfo.of(port, meaning)),
        )

    def _begin(self) -> None:
        if not self.session.open:
            self.session.begin_step()


class _StepMark:
    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.session.end_step()


@contextmanager
def record(name: str, out: str | Path = ".", **options: Any) -> Iterator[Recorder]:
    """Record a policy pipeline from running code, and write its package when the block ends.

    Args:
        name: of the package.
        out: the folder it goes into: the package lies at ``out/name``.
        options: see `ashore.capture.options.ExportOptions`.
    """
    check_name(name)
    settings = ExportOptions.of(options)
    session = Session()
    session.nodes = [NODE]
    recorder = Recorder(session)
    session.start()
    try:
        yield recorder
    finally:
        session.stop()
    recorder.package = export(session, name, Path(out) / name, settings)
