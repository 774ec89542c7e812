"""Who feeds whom in a LEAPP file, checked: LEAPP itself takes a missing end for zeros."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ashore.errors import PackageError, suggestion
from ashore.interop.leapp.document import Pipeline
from ashore.spec import Endpoint


class Flows:
    """The ends of a pipeline, each known to exist and to be used once."""

    def __init__(
        self, pipeline: Pipeline, inputs: Mapping[Endpoint, int], outputs: Mapping[Endpoint, int], where: str
    ) -> None:
        """Check a pipeline.

        Args:
            pipeline: as it was read.
            inputs: node input -> when its node runs.
            outputs: node output -> when its node runs.
            where: what to call the file in an error.
        """
        self._where = where
        self.inputs = self._boundary("inputs", pipeline.inputs, inputs)
        """Node inputs that the caller feeds."""

        self.outputs = self._boundary("outputs", pipeline.outputs, outputs)
        """Node outputs that the caller gets."""

        self.data = list(self._edges("data_flow", pipeline.data_flow, inputs, outputs))
        """Node output and the node input that gets it in the same run."""

        self.feedback = list(self._edges("feedback_flow", pipeline.feedback_flow, inputs, outputs))
        """Node output and the node input that gets it in the next run."""

        self._check_use(inputs, outputs)
        self._check_order(inputs, outputs)

    def _boundary(self, group: str, given: Mapping[str, list[str]], known: Mapping[Endpoint, int]) -> list[Endpoint]:
        ends = [Endpoint(node, port) for node, ports in given.items() for port in ports]
        for end in ends:
            self._check_known(f"pipeline.{group}", end, known)
        for end, count in Counter(ends).items():
            if count > 1:
                raise PackageError(f"{self._where}: pipeline.{group}: {end} stands {count} times")
        listed = set(ends)
        return [end for end in known if end in listed]

    def _edges(
        self, flow: str, given: Mapping[str, list[str]], inputs: Mapping[Endpoint, int], outputs: Mapping[Endpoint, int]
    ) -> Iterator[tuple[Endpoint, Endpoint]]:
        for source_text, targets in given.items():
            source = self._end(flow, source_text)
            self._check_known(f"pipeline.{flow}", source, outputs)
            for text in targets:
                target = self._end(flow, text)
                self._check_known(f"pipeline.{flow}", target, inputs)
                yield source, target

    def _end(self, flow: str, text: str) -> Endpoint:
        node, slash, port = text.partition("/")
        if not slash or "/" in port:
            raise PackageError(f"{self._where}: pipeline.{flow}: {text!r} is no end of a flow; expected node/port")
        return Endpoint(node, port)

    def _check_known(self, group: str, end: Endpoint, known: Mapping[Endpoint, int]) -> None:
        if end not in known:
            hint = suggestion(str(end), map(str, known))
            raise PackageError(f"{self._where}: {group}: {str(end)!r} does not exist{hint}")

    def _check_use(self, inputs: Mapping[Endpoint, int], outputs: Mapping[Endpoint, int]) -> None:
        fed = Counter([*self.inputs, *(target for _, target in (*self.data, *self.feedback))])
        for end in inputs:
            if fed[end] != 1:
                why = f"is fed {fed[end]} times" if fed[end] else "is fed by nothing, so LEAPP would take zeros for it"
                raise PackageError(f"{self._where}: pipeline: the input {end} {why}")
        used = {*self.outputs, *(source for source, _ in (*self.data, *self.feedback))}
        for end in outputs:
            if end not in used:
                raise PackageError(f"{self._where}: pipeline: the output {end} goes nowhere")

    def _check_order(self, inputs: Mapping[Endpoint, int], outputs: Mapping[Endpoint, int]) -> None:
        """LEAPP runs nodes in the order of the file and hands values on at once, whichever flow they are in."""
        for source, target in self.data:
            if outputs[source] >= inputs[target]:
                raise PackageError(
                    f"{self._where}: pipeline.data_flow: {source} -> {target}, but {target.group!r} runs first and "
                    "would get the value of the run before; list the nodes in the order they run"
                )
        for source, target in self.feedback:
            if outputs[source] < inputs[target]:
                raise PackageError(
                    f"{self._where}: pipeline.feedback_flow: {source} -> {target}, but {source.group!r} runs first, "
                    "so LEAPP's runtime would not keep the value for the next run"
                )
