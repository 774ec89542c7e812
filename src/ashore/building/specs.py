"""Processors in words, as policies and LeRobot's packages list them, to stages of a pipeline.

A spec has a ``type``, mostly ``features``, and parameters. Each feature that it touches becomes a stage of its own, so
nothing is applied twice, and what touches nothing is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ashore.building.pipeline import Kept, Pipeline, zeros
from ashore.errors import ExportError, suggestion
from ashore.spec import Port, State

ProcessorSpec: TypeAlias = Mapping[str, Any]
"""A processor in words: its ``type``, the ``features`` it works on, and its parameters."""

_MEANT = ("type", "features", "artifact", "enabled")


def apply(pipeline: Pipeline, spec: ProcessorSpec) -> None:
    """Add what a spec describes to a pipeline."""
    kind = spec.get("type")
    if not isinstance(kind, str):
        raise ExportError(f"a processor needs a type; got {dict(spec)}")
    if spec.get("enabled", True) is False:
        return
    if kind in _SPECIAL:
        _SPECIAL[kind](pipeline, dict(spec))
        return
    _each(pipeline, kind, spec)


def _each(pipeline: Pipeline, kind: str, spec: ProcessorSpec) -> None:
    """A processor with one input and one output, once for each feature."""
    params = {key: value for key, value in spec.items() if key not in _MEANT}
    assets = [spec["artifact"]] if "artifact" in spec else []
    for feature in _features(spec):
        before = pipeline.port(feature)
        made, own = _RESULTS[kind](before, dict(params)) if kind in _RESULTS else (before, params)
        if kind in ("normalize", "denormalize"):
            own = {"mode": "mean_std", **own, "statistics": own.get("statistics", feature)}
        pipeline.process(kind, {"x": feature}, {"y": (feature, made)}, params=own, assets=assets)


def _features(spec: ProcessorSpec) -> Sequence[str]:
    features = spec.get("features")
    if not isinstance(features, Sequence) or isinstance(features, str) or not features:
        raise ExportError(f"processor {spec.get('type')!r}: expected the features that it works on, got {features!r}")
    return features


# --- what becomes of a port ------------------------------------------------------------------------------------------


def _changed(port: Port, **fields: Any) -> Port:
    return msgspec.structs.replace(port, **fields)


def _padded(port: Port, params: dict[str, Any]) -> tuple[Port, dict[str, Any]]:
    size = params.pop("size")
    return _changed(port, shape=(*port.shape[:-1], size), element_names=None, unit=None), params


def _trimmed(port: Port, params: dict[str, Any]) -> tuple[Port, dict[str, Any]]:
    if not params.get("trim"):
        return port, params
    size = params.pop("size")
    return _changed(port, shape=(*port.shape[:-1], size), element_names=None), params


def _sliced(port: Port, params: dict[str, Any]) -> tuple[Port, dict[str, Any]]:
    shape = (port.shape[0], *params.pop("shape"))
    return _changed(port, shape=shape, element_names=None), {"start": [0, *params.pop("start")], **params}


def _resized(port: Port, params: dict[str, Any]) -> tuple[Port, dict[str, Any]]:
    height, width = params.pop("height"), params.pop("width")
    return _changed(port, shape=(*port.shape[:-2], height, width)), params


def _converted(port: Port, params: dict[str, Any]) -> tuple[Port, dict[str, Any]]:
    shape = port.shape
    if params.get("layout", "hwc") == "hwc":
        shape = (*shape[:-3], shape[-1], *shape[-3:-1])
    return _changed(port, dtype="float32", shape=shape), params


_RESULTS: Mapping[str, Callable[[Port, dict[str, Any]], tuple[Port, dict[str, Any]]]] = {
    "denormalize": _trimmed,
    "pad": _padded,
    "slice": _sliced,
    "resize": _resized,
    "resize_with_pad": _resized,
    "image": _converted,
}
"""Type -> what a port becomes, and the parameters that are left once its shape is said."""


# --- several inputs, or states ---------------------------------------------------------------------------------------


def _rename(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    """Nothing is computed: a feature has another name from here on."""
    for before, after in spec["features"].items():
        pipeline.rename(before, after)


def _history(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    for feature in _features(spec):
        frame = pipeline.port(feature)
        window = State(dtype=frame.dtype, shape=(frame.shape[0], spec["steps"], *frame.shape[1:]), role="history")
        filled = State(dtype="int64", shape=(1,), role="counter")
        pipeline.process(
            "history",
            {"frame": feature},
            {"window_next": (feature, Port(dtype=frame.dtype, shape=window.shape, finite=frame.finite))},
            kept={
                "window": Kept("window_next", window, zeros(window)),
                "filled": Kept("filled_next", filled, zeros(filled)),
            },
        )


def _temporal_ensemble(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    for feature in _features(spec):
        chunk = pipeline.port(feature)
        rows, horizon, dim = chunk.shape
        average = State(dtype="float32", shape=(rows, _length(horizon) - 1, dim), role="filter")
        decided = State(dtype="int64", shape=(1,), role="counter")
        pipeline.process(
            "temporal_ensemble",
            {"chunk": feature},
            {"action": (feature, _changed(chunk, shape=(rows, dim), element_names=None))},
            params={"coefficient": float(spec["coefficient"])},
            kept={
                "average": Kept("average_next", average, zeros(average)),
                "decided": Kept("decided_next", decided, zeros(decided)),
            },
        )


def _action_queue(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    for feature in _features(spec):
        chunk = pipeline.port(feature)
        rows, _, dim = chunk.shape
        queue = State(dtype=chunk.dtype, shape=(rows, spec["n_action_steps"], dim), role="memory")
        left = State(dtype="int64", shape=(1,), role="counter")
        pipeline.process(
            "action_queue",
            {"chunk": feature},
            {"action": (feature, _changed(chunk, shape=(rows, dim), element_names=None))},
            kept={"queue": Kept("queue_next", queue, zeros(queue)), "left": Kept("left_next", left, zeros(left))},
        )


def _length(dim: int | str) -> int:
    if not isinstance(dim, int):
        raise ExportError(f"expected a horizon of a fixed length, got {dim!r}")
    return dim


def _relative(kind: str, target: str) -> Callable[[Pipeline, dict[str, Any]], None]:
    def add(pipeline: Pipeline, spec: dict[str, Any]) -> None:
        for feature in _features({"features": ["action"], **spec}):
            before = pipeline.port(feature)
            state = spec.get("state", "observation.state")
            pipeline.process(
                kind,
                {"actions": feature, "state": f"raw:{state}" if f"raw:{state}" in pipeline.features else state},
                {target: (feature, before)},
                params={"mask": [bool(one) for one in spec["mask"]]},
            )

    return add


def _prompt(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    params = {key: value for key, value in spec.items() if key not in (*_MEANT, "text", "state", "width")}
    text = spec.get("text", "task")
    before = pipeline.port(text)
    made = _changed(before, shape=(before.shape[0], spec.get("width", 2048)))
    inputs = {"task": text} | ({"state": spec["state"]} if spec.get("state") else {})
    pipeline.process("prompt", inputs, {"prompt": (text, made)}, params=params)


def _tokenize(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    named = ("text", "tokens", "mask")
    params = {key: value for key, value in spec.items() if key not in (*_MEANT, *named)}
    text = spec.get("text", "task")
    shape = (pipeline.port(text).shape[0], spec["max_length"])
    pipeline.process(
        "tokenize",
        {"text": text},
        {
            "tokens": (spec.get("tokens", "observation.language.tokens"), Port(dtype="int64", shape=shape)),
            "mask": (spec.get("mask", "observation.language.attention_mask"), Port(dtype="bool", shape=shape)),
        },
        params=params,
        assets=[spec["artifact"]],
    )


def _output(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    """Nothing is computed: the value that a feature has here is an output of the package too."""
    (feature,) = _features(spec)
    pipeline.add_output(spec["name"], feature)


_SPECIAL: Mapping[str, Callable[[Pipeline, dict[str, Any]], None]] = {
    "rename": _rename,
    "output": _output,
    "history": _history,
    "temporal_ensemble": _temporal_ensemble,
    "action_queue": _action_queue,
    "relative_actions": _relative("relative_actions", "relative"),
    "absolute_actions": _relative("absolute_actions", "absolute"),
    "prompt": _prompt,
    "tokenize": _tokenize,
}


def touched(spec: ProcessorSpec) -> list[str]:
    """The features that a spec needs to be there."""
    features = spec.get("features") or []
    found = list(features)
    found += [spec[key] for key in ("text", "state") if isinstance(spec.get(key), str)]
    if spec.get("type") in ("prompt", "tokenize") and "text" not in spec:
        found.append("task")
    return found


def unknown_feature(name: str, known: Sequence[str]) -> ExportError:
    """A feature that nobody gives."""
    return ExportError(f"nothing gives {name!r}{suggestion(name, known, f'; there are {sorted(known)}')}")
