"""The stage that a loop runs, and how it is tied to the stage that runs it.

Of the ports of a body, the loop knows three: the sample and the time, which it writes, and the prediction, which it
reads. Every other input is context: it has the name of an input of the stage that has the runner, and is bound to that
very array, so that a cache of keys and values is never copied, however many steps there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from ashore.errors import ManifestError
from ashore.package import Array
from ashore.runtime.backend import Session
from ashore.runtime.memory import aligned_zeros
from ashore.spec import BATCH, Port, Stage, concrete

_SAMPLE_DTYPES = ("float32", "float16")
T = TypeVar("T")


class Body(NamedTuple):
    """A stage that a runner runs, opened."""

    name: str
    stage: Stage
    session: Session


class Names(NamedTuple):
    """What a loop calls the ports that it knows."""

    sample: str
    time: str
    prediction: str
    noise: str
    """The input of the stage with the runner that the sample starts from."""


class Denoiser(NamedTuple):
    """A body, bound to the buffers of one loop."""

    prediction: Array
    """What a run leaves, float32."""

    run: Callable[[float], object]
    """Evaluates the body at a time, on the sample as it is."""


def parse(where: str, stage: Stage, kind: type[T]) -> T:
    """The params of a stage's runner, strictly."""
    params = stage.runner.params if stage.runner else {}
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: runner.params: {error}") from None


def only(where: str, bodies: Sequence[Body]) -> Body:
    """The one stage that a loop of one body runs."""
    if len(bodies) != 1:
        raise ManifestError(
            f"{where}: runner.stages: expected the one stage of the loop, got {[body.name for body in bodies]}"
        )
    return bodies[0]


class Ties:
    """A body and the stage that runs it, once their ports are known to fit."""

    def __init__(self, where: str, stage: Stage, body: Body, names: Names, time_dtypes: Sequence[str]) -> None:
        self._where = where
        self._stage = stage
        self._body = body
        self.names = names
        self._check_names()
        self.shape = self._sample().shape
        """Of the sample, with the batch axis still symbolic."""

        self._check_time(time_dtypes)
        self._expect(f"{where}: input", stage.inputs, names.noise, self.shape)
        self.output = self._only_output()
        """The output of the stage with the runner: the last sample."""

    def check(self, own: Mapping[str, Port]) -> None:
        """Raise `ManifestError` if an input of either stage is fed by nothing, read by nothing, or of another form.

        Args:
            own: the inputs of the stage with the runner that the loop itself reads, the noise left out.
        """
        inputs, body = self._stage.inputs, self._body
        for name, port in own.items():
            self._expect(f"{self._where}: input", inputs, name, port.shape, port.dtype)
        written = {self.names.sample, self.names.time}
        for name, port in body.stage.inputs.items():
            if name in written:
                if name in inputs:
                    raise ManifestError(
                        f"{self._where}: input {name!r} has the name of what the loop itself writes into "
                        f"{body.name!r}; give the two different names"
                    )
            elif name not in inputs:
                raise ManifestError(
                    f"{self._where}: nothing feeds the input {name!r} of {body.name!r}; expected an input of that "
                    f"name here, got {sorted(inputs)}"
                )
            else:
                self._expect(f"{self._where}: input", inputs, name, port.shape, port.dtype)
        idle = sorted(inputs.keys() - own.keys() - body.stage.inputs.keys() - {self.names.noise})
        if idle:
            raise ManifestError(
                f"{self._where}: nothing reads the input {idle[0]!r}; {body.name!r} takes "
                f"{sorted(body.stage.inputs)}, and the loop {sorted({self.names.noise, *own})}"
            )

    def denoiser(self, sample: Array, inputs: Mapping[str, Array]) -> Denoiser:
        """Bind the body.

        Args:
            sample: the array, float32, that the loop keeps its sample in.
            inputs: the inputs of the stage with the runner, which give the context.
        """
        spec, names = self._body.stage, self.names
        batch = sample.shape[self.shape.index(BATCH)] if BATCH in self.shape else 1
        place = {
            name: aligned_zeros(port.dtype, concrete(port.shape, batch))
            for name, port in (*spec.inputs.items(), *spec.outputs.items())
            if name in names[:3]
        }
        if place[names.sample].dtype == sample.dtype:
            place[names.sample] = sample
        read = {name: place[name] if name in place else inputs[name] for name in spec.inputs}
        call = self._body.session.bind(read, {names.prediction: place[names.prediction]})
        result = place[names.prediction]
        prediction = result if result.dtype == np.float32 else aligned_zeros("float32", result.shape)
        before = None if place[names.sample] is sample else partial(np.copyto, place[names.sample], sample, "same_kind")
        after = None if prediction is result else partial(np.copyto, prediction, result)
        return Denoiser(prediction, _evaluation(place[names.time].fill, before, call, after))

    def _check_names(self) -> None:
        inputs, outputs, names = self._body.stage.inputs, self._body.stage.outputs, self.names
        if names.sample == names.time:
            raise ManifestError(f"{self._where}: runner.params: sample and time are both {names.time!r}")
        for name in (names.sample, names.time):
            if name not in inputs:
                raise ManifestError(
                    f"{self._where}: expected an input {name!r} of {self._body.name!r}, got {sorted(inputs)}"
                )
        if list(outputs) != [names.prediction]:
            raise ManifestError(
                f"{self._where}: expected {names.prediction!r} and no other output of {self._body.name!r}, "
                f"got {sorted(outputs)}"
            )

    def _sample(self) -> Port:
        body, names = self._body, self.names
        port, prediction = body.stage.inputs[names.sample], body.stage.outputs[names.prediction]
        for name, one in ((names.sample, port), (names.prediction, prediction)):
            if one.dtype not in _SAMPLE_DTYPES:
                raise ManifestError(
                    f"{self._where}: {name!r} of {body.name!r}: expected float32 or float16, got {one.dtype}"
                )
        if not port.shape:
            raise ManifestError(f"{self._where}: {names.sample!r} of {body.name!r}: expected at least one axis, got []")
        if prediction.shape != port.shape:
            raise ManifestError(
                f"{self._where}: {names.prediction!r} of {body.name!r}: expected the shape of {names.sample!r}, "
                f"{list(port.shape)}, got {list(prediction.shape)}"
            )
        return port

    def _check_time(self, dtypes: Sequence[str]) -> None:
        """One number, or one for each row of the batch."""
        name = self.names.time
        port = self._body.stage.inputs[name]
        where = f"{self._where}: {name!r} of {self._body.name!r}"
        if port.dtype not in dtypes:
            raise ManifestError(f"{where}: expected {' or '.join(dtypes)}, got {port.dtype}")
        if any(dim not in (1, self.shape[0]) for dim in port.shape) or sum(dim != 1 for dim in port.shape) > 1:
            raise ManifestError(
                f"{where}: expected one number, or one for each of the {self.shape[0]!r} rows, "
                f"got shape {list(port.shape)}"
            )

    def _only_output(self) -> str:
        outputs = self._stage.outputs
        if len(outputs) != 1:
            raise ManifestError(f"{self._where}: expected one output, the last sample, got {sorted(outputs)}")
        ((name, _),) = outputs.items()
        self._expect(f"{self._where}: output", outputs, name, self.shape)
        return name

    def _expect(
        self, where: str, ports: Mapping[str, Port], name: str, shape: tuple[Any, ...], dtype: str = "float32"
    ) -> None:
        port = ports.get(name)
        if port is None:
            raise ManifestError(f"{where} {name!r} is missing; expected {dtype} {list(shape)}, got {sorted(ports)}")
        if (port.dtype, port.shape) != (dtype, shape):
            raise ManifestError(
                f"{where} {name!r}: expected {dtype} {list(shape)}, got {port.dtype} {list(port.shape)}"
            )


def _evaluation(
    fill: Callable[[float], object],
    before: Callable[[], object] | None,
    call: Callable[[], object],
    after: Callable[[], object] | None,
) -> Callable[[float], object]:
    """Write the time, and cross the border of precision where the body has one."""

    def run(time: float) -> None:
        fill(time)
        if before is not None:
            before()
        call()
        if after is not None:
            after()

    return run
