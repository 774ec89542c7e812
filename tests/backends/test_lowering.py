from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from ashore.backends.lowering import lower
from ashore.errors import ManifestError
from ashore.package import save_arrays
from ashore.processors import PROCESSORS, Apply, build
from ashore.spec import Stage
from processing import LEROBOT, Arrays, count, port, run, stage, text

B = "batch"
STATISTICS = save_arrays(
    {key.removeprefix("scale/"): array for key, array in LEROBOT.items() if key.startswith("scale/")}
)
GENERATOR = np.random.default_rng(7)


def scaling(kind: str, mode: str, feature: str) -> Stage:
    ports = port(B, *LEROBOT[f"scale/{feature}/x"].shape[1:])
    eps = 0.0 if (kind, mode) == ("denormalize", "mean_std") else 1e-8
    return stage(kind, {"x": ports}, {"y": ports}, ("stats",), mode=mode, statistics=feature, eps=eps)


def one(kind: str, before: Any, after: Any, **params: Any) -> Stage:
    return stage(kind, {"v1": before}, {"v3": after}, **params)  # names that values of a graph could have


def relative(kind: str, *horizon: int) -> Stage:
    actions = port(B, *horizon, 3)
    mask = [True, False, True]
    return stage(kind, {"actions": actions, "state": port(B, 3)}, {kind.removesuffix("_actions"): actions}, mask=mask)


STATELESS: dict[str, Stage] = {
    **{
        f"{kind}-{mode}-{feature}": scaling(kind, mode, feature)
        for kind in ("normalize", "denormalize")
        for mode in ("mean_std", "min_max", "quantiles", "quantile10")
        for feature in ("vector", "image")
    },
    "denormalize-trim": stage(
        "denormalize",
        {"x": port(B, 4, 9)},
        {"y": port(B, 4, 6)},
        ("s",),
        mode="min_max",
        statistics="vector",
        trim=True,
    ),
    "image": one("image", port(B, 4, 5, 3, dtype="uint8"), port(B, 3, 4, 5)),
    "image-window": one("image", port(B, 2, 4, 5, 3, dtype="uint8"), port(B, 2, 3, 4, 5), range=[-1, 1]),
    "image-float": one("image", port(B, 3, 4, 5), port(B, 3, 4, 5), layout="chw", range=[0, 255]),
    "resize": one("resize", port(B, 3, 13, 17), port(B, 3, 7, 20)),
    "resize-width": one("resize", port(B, 3, 13, 17), port(B, 3, 13, 640)),
    "resize-window": one("resize", port(B, 2, 1, 13, 17), port(B, 2, 1, 7, 20)),
    "resize_with_pad": one("resize_with_pad", port(B, 3, 13, 17), port(B, 3, 9, 9), value=-1),
    "resize_with_pad-center": one(
        "resize_with_pad", port(B, 3, 13, 17), port(B, 3, 40, 30), value=-1, align="center", clip=[0.25, 0.5]
    ),
    "pad": one("pad", port(B, 2, 3), port(B, 2, 8), value=0.5),
    "pad-int": one("pad", port(B, 3, dtype="int64"), port(B, 8, dtype="int64"), value=-1),
    "slice": one("slice", port(B, 8, 6), port(B, 3, 2), start=[0, 1, 0]),
    **{f"{kind}-{len(h)}": relative(kind, *h) for kind in ("relative_actions", "absolute_actions") for h in ((), (4,))},
}

COUNTERS = [B, 1]


def history(counter: Any, dtype: str = "float32", n: int = 3) -> Stage:
    window, filled = port(B, n, 2, 4, dtype=dtype), count(counter)
    inputs = {"frame": port(B, 2, 4, dtype=dtype), "window": window, "filled": filled}
    return stage("history", inputs, {"window_next": window, "filled_next": filled})


def ensemble(counter: Any) -> Stage:
    average, decided = port(B, 5, 2), count(counter)
    inputs = {"chunk": port(B, 6, 2), "average": average, "decided": decided}
    outputs = {"action": port(B, 2), "average_next": average, "decided_next": decided}
    return stage("temporal_ensemble", inputs, outputs, coefficient=0.05)


def queue(counter: Any) -> Stage:
    waiting, left = port(B, 3, 2), count(counter)
    inputs = {"chunk": port(B, 6, 2), "queue": waiting, "left": left}
    return stage("action_queue", inputs, {"action": port(B, 2), "queue_next": waiting, "left_next": left})


STATEFUL: dict[str, Stage] = {
    f"{made.processor.type}-{counter}-{index}": made
    for counter in COUNTERS
    for index, made in enumerate(
        (history(counter), history(counter, "uint8"), history(counter, n=1), ensemble(counter), queue(counter))
    )
    if made.processor
}


def session(made: Stage) -> Apply:
    model = lower(made, lambda _: STATISTICS)
    assert model is not None
    opened = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = list(made.outputs)
    return lambda inputs: dict(zip(names, opened.run(names, dict(inputs)), strict=True))


def values(made: Stage, rows: int) -> Arrays:
    drawn: Arrays = {}
    for name, spec in made.inputs.items():
        shape = [rows if dim == B else dim for dim in spec.shape]
        if spec.dtype.startswith("float"):
            drawn[name] = GENERATOR.uniform(size=shape).astype(spec.dtype)
        else:
            drawn[name] = GENERATOR.integers(0, 200, shape).astype(spec.dtype)
    return drawn


def agree(graph: Arrays, numpy: Arrays, where: str = "") -> None:
    assert graph.keys() == numpy.keys()
    for name, wanted in numpy.items():
        assert graph[name].dtype == wanted.dtype, f"{where} {name}"
        np.testing.assert_array_equal(graph[name], wanted)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", STATELESS)
def test_a_graph_computes_what_numpy_does(name: str, rows: int) -> None:
    made = STATELESS[name]
    given = values(made, rows)
    agree(session(made)(given), build("here", made, lambda _: STATISTICS)(given))


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", STATEFUL)
def test_a_graph_with_states_stays_with_numpy_through_episodes(name: str, rows: int) -> None:
    made = STATEFUL[name]
    drawn = values(made, rows)
    states = {key: np.zeros_like(value) for key, value in drawn.items() if f"{key}_next" in made.outputs}
    inputs = [{key: value for key, value in values(made, rows).items() if key not in states} for _ in range(11)]
    resets = {4: [0], 8: slice(None)} if 1 not in [len(state) for state in states.values()] else {8: slice(None)}
    graph, numpy = (run(apply, states, inputs, resets) for apply in (session(made), build("here", made, _nothing)))
    for tick, (one_tick, other) in enumerate(zip(graph, numpy, strict=True)):
        agree(one_tick, other, f"tick {tick}")


def _nothing(path: str) -> bytes:
    raise AssertionError(path)


def test_every_processor_has_a_graph_but_those_of_text() -> None:
    lowered = {made.processor.type for made in (*STATELESS.values(), *STATEFUL.values()) if made.processor}
    assert set(PROCESSORS) - lowered == {"prompt", "tokenize"}
    made = stage("prompt", {"task": text(4)}, {"prompt": text(8)}, newline=True)
    assert lower(made, _nothing) is None
    assert lower(one("pad", port(B, 3, dtype="int16"), port(B, 4, dtype="int16")), _nothing) is None


def test_a_graph_has_the_ports_of_its_stage_and_a_symbolic_batch() -> None:
    model = lower(STATELESS["image"], _nothing)
    assert model is not None
    (given,) = model.graph.input
    assert given.name == "v1"
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 4, 5, 3]
    assert given.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    assert [output.name for output in model.graph.output] == ["v3"]


def test_a_stage_that_is_refused_has_no_graph() -> None:
    with pytest.raises(ManifestError, match="the processor 'slice': it takes all of"):
        lower(one("slice", port(B, 3), port(B, 3), start=[0, 0]), _nothing)
