"""LEAPP directories that are broken, or made to do harm."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import support
from ashore.errors import AshoreError
from ashore.interop.leapp import from_leapp, to_leapp
from ashore.interop.leapp.document import PortNote
from ashore.interop.leapp.ports import describe, understand
from ashore.package.tensors import load_arrays, save_arrays
from interop.leapp_cases import write_graph


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory as LEAPP would have written it, without Ashore's notes."""
    to_leapp(write_graph(tmp_path / "package"), tmp_path / "graph")
    edit(tmp_path / "graph", _without_notes)
    from_leapp(tmp_path / "graph", tmp_path / "fine")
    return tmp_path / "graph"


def edit(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = directory / "graph.yaml"
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def _without_notes(document: dict[str, Any]) -> None:
    del document["pipeline"]["configs"]["ashore"]
    for model in document["models"].values():
        for port in (*model["inputs"], *model["outputs"]):
            port.pop("ashore", None)


def refuse_reading(source: Path, message: str) -> None:
    out = source.parent / "refused"
    with pytest.raises(AshoreError) as caught:
        from_leapp(source, out)
    assert message in str(caught.value), str(caught.value)
    assert not out.exists()


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set the value at a path of keys, the last of `path`; None takes the key out."""
    *keys, last, value = path

    def change(document: Any) -> None:
        for key in keys:
            document = document[key]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return change


Z = ("models", "z")
BROKEN = {
    "an unknown top key": (put("more", 1), "expected the keys ['models', 'pipeline', 'system information']"),
    "no pipeline": (put("pipeline", None), "expected the keys"),
    "a newer version": (put("system information", "leapp config version", "1.4"), "has LEAPP config version '1.4'"),
    "a newer major version": (put("system information", "leapp config version", "2.0"), "config version '2.0'"),
    "no version": (put("system information", "leapp config version", None), "has LEAPP config version 'None'"),
    "no models": (put("models", {}), "models: there is none"),
    "an unknown key of a model": (put(*Z, "more", 1), "models.z: object contains unknown field `more`"),
    "an unknown parameter": (put(*Z, "parameters", "more", 1), "models.z.parameters: object contains unknown field"),
    "an unknown key of the pipeline": (put("pipeline", "more", 1), "pipeline: object contains unknown field `more`"),
    "no digest": (put(*Z, "parameters", "sha256sum", None), "missing required field `sha256sum`"),
    "a wrong sha256": (
        put(*Z, "parameters", "sha256sum", "0" * 64),
        "'z.onnx' is not what was exported: sha256sum says",
    ),
    "a wrong md5": (put(*Z, "parameters", "md5sum", "0" * 32), "'z.onnx' is not what was exported: md5sum says"),
    "an unknown backend": (put(*Z, "parameters", "backend", "trt"), "backend: 'trt' is none of ['jit', 'onnx', 'pt2']"),
    "warp kernels": (put(*Z, "parameters", "warp_segments", 1), "the model calls Warp kernels"),
    "a file elsewhere": (put(*Z, "parameters", "model_path", "../z.onnx"), "a path has no empty, '.' or '..' part"),
    "an absolute path": (put(*Z, "parameters", "model_path", "/etc/passwd"), "a path is relative to the package"),
    "a missing file": (put(*Z, "parameters", "model_path", "no.onnx"), "model_path: 'no.onnx' is missing"),
    "a directory": (put(*Z, "parameters", "model_path", "folder"), "'folder' is not a plain file"),
    "a file of another kind": (put(*Z, "parameters", "backend", "jit"), "is no TorchScript file"),
    "another file of another kind": (put(*Z, "parameters", "backend", "pt2"), "is no exported program"),
    "initial values elsewhere": (put("pipeline", "initial_values", "../x.safetensors"), "'..' part"),
    "initial values that are no arrays": (
        put("pipeline", "initial_values", "z.onnx"),
        "not a readable safetensors file",
    ),
    "no initial values": (put("pipeline", "initial_values", None), "there is none for a/h_in, so LEAPP would start"),
    "a flow from nowhere": (
        put("pipeline", "data_flow", {"z/q": ["a/z"]}),
        "pipeline.data_flow: 'z/q' does not exist; did you mean 'z/",
    ),
    "a flow to nowhere": (put("pipeline", "data_flow", "z/z", ["a/q"]), "pipeline.data_flow: 'a/q' does not exist"),
    "a flow from an input": (put("pipeline", "data_flow", "z/b", ["a/z"]), "data_flow: 'z/b' does not exist"),
    "a flow without a slash": (
        put("pipeline", "data_flow", "z", ["a/z"]),
        "'z' is no end of a flow; expected node/port",
    ),
    "a flow with two slashes": (put("pipeline", "data_flow", "z/z", ["a/z/z"]), "'a/z/z' is no end of a flow"),
    "an input fed twice": (put("pipeline", "data_flow", "z/z", ["a/z", "a/z"]), "the input a/z is fed 2 times"),
    "an input fed by nothing": (put("pipeline", "inputs", "a", None), "the input a/x is fed by nothing"),
    "an unknown input": (put("pipeline", "inputs", "a", ["x", "q"]), "pipeline.inputs: 'a/q' does not exist"),
    "an input twice": (put("pipeline", "inputs", "a", ["x", "x"]), "pipeline.inputs: a/x stands 2 times"),
    "an output that goes nowhere": (put("pipeline", "outputs", "a", None), "the output a/y goes nowhere"),
    "an unknown output": (put("pipeline", "outputs", "q", ["q"]), "pipeline.outputs: 'q/q' does not exist"),
    "a feedback that is none": (
        lambda d: (put("pipeline", "feedback_flow", "z/z", ["a/z"])(d), put("pipeline", "data_flow", {})(d)),
        "feedback_flow: z/z -> a/z, but 'z' runs first",
    ),
    "nodes in the wrong order": (
        lambda d: d.update(models=dict(reversed(d["models"].items()))),
        "data_flow: z/z -> a/z, but 'a' runs first",
    ),
    "a cycle": (
        lambda d: (
            put("pipeline", "data_flow", "a/y", ["z/b"])(d),
            put("pipeline", "inputs", "z", ["a"])(d),
        ),
        "data_flow: a/y -> z/b, but 'z' runs first",
    ),
    "a port without a shape": (put(*Z, "inputs", 0, "shape", None), "models.z.inputs: 'shape' is missing"),
    "a port twice": (lambda d: d["models"]["z"]["inputs"].append(d["models"]["z"]["inputs"][0]), "'b' stands twice"),
    "a name that is a number": (put(*Z, "inputs", 0, "name", 3), "3 is no name for a port"),
    "a name with a slash": (put(*Z, "inputs", 0, "name", "a/b"), "'a/b' is no name for a port"),
    "a dtype that only LEAPP has": (put(*Z, "inputs", 0, "dtype", "bfloat16"), "has dtype 'bfloat16'"),
    "an open shape": (put(*Z, "inputs", 0, "shape", [1, "n"]), "has shape [1, 'n']; expected a list of lengths"),
    "a negative length": (put(*Z, "inputs", 0, "shape", [1, -3]), "expected a positive length"),
    "a shape that the model does not have": (put(*Z, "inputs", 0, "shape", [1, 4]), "the artifact has [1, 3]"),
    "a dtype that the model does not have": (
        put(*Z, "inputs", 0, "dtype", "float64"),
        "the artifact has tensor(float)",
    ),
    "a type that is no tensor": (put(*Z, "inputs", 0, "type", "string"), "is of type 'string'; expected 'tensor'"),
    "ports in another order": (
        lambda d: d["models"]["z"]["inputs"].reverse(),
        "its inputs are ['seen', 'a', 'b'], and those of its model are ['b', 'a', 'seen'], in that order",
    ),
    "a port too few": (lambda d: d["models"]["z"]["inputs"].pop(), "and those of its model are ['b', 'a', 'seen']"),
    "too few names": (put(*Z, "inputs", 0, "element_names", [["p", "q"]]), "do not fit shape [1, 3]"),
    "too many axes": (put(*Z, "inputs", 0, "element_names", [None, None, ["p", "q", "r"]]), "do not fit shape [1, 3]"),
    "names that are numbers": (put(*Z, "inputs", 0, "element_names", [[1, 2, 3]]), "expected a list of names"),
    "names that are nothing": (put(*Z, "inputs", 0, "element_names", 7), "element_names: expected a list, got 7"),
    "a kind that is no text": (put(*Z, "inputs", 0, "kind", [1]), "kind: expected text, got [1]"),
    "a frequency of zero": (put("pipeline", "configs", "frequency", 0), "expected a number above 0 in Hz, got 0"),
    "a frequency in words": (put("pipeline", "configs", "frequency", "fast"), "expected a number above 0 in Hz"),
    "a frequency without end": (
        put("pipeline", "configs", "frequency", float("inf")),
        "expected a number above 0 in Hz",
    ),
    "a number that JSON does not have": (put("pipeline", "configs", "gain", float("nan")), "nan is no JSON number"),
    "a node with a bad name": (
        lambda d: d["models"].update({"in/out": {**d["models"]["z"], "inputs": [], "outputs": []}}),
        "its inputs are []",
    ),
    "a note that is none": (put(*Z, "inputs", 0, "ashore", {"more": 1}), "'b': ashore: object contains unknown field"),
    "a note at the wrong end": (put(*Z, "inputs", 0, "ashore", {"output": "b"}), "note output='b' does not fit"),
    "a note of a state that is none": (
        put(*Z, "inputs", 0, "ashore", {"state": {"name": "s", "role": "memory"}}),
        "does not fit the pipeline",
    ),
    "one name for two inputs that differ": (
        lambda d: (
            put(*Z, "inputs", 0, "ashore", {"input": "same"})(d),
            put(*Z, "inputs", 1, "ashore", {"input": "same"})(d),
        ),
        "two inputs would be called 'same', and they differ",
    ),
    "one name for two states that differ": (
        lambda d: (
            put(*Z, "inputs", 2, "ashore", {"state": {"name": "s", "role": "memory"}})(d),
            put("models", "a", "inputs", 2, "ashore", {"state": {"name": "s", "role": "memory"}})(d),
        ),
        "two states would be called 's', and they differ",
    ),
    "a note of a package with a bad name": (
        put("pipeline", "configs", "ashore", {"name": "../x"}),
        "'../x' is not made of letters",
    ),
    "a timing that contradicts the frequency": (
        put("pipeline", "configs", "ashore", {"name": "x", "timing": {"policy_dt_s": 0.02}}),
        "but ashore.timing says 0.02 s",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(name: str, directory: Path) -> None:
    change, message = BROKEN[name]
    (directory / "folder").mkdir()
    edit(directory, change)
    refuse_reading(directory, message)


def deep(count: int) -> str:
    return "[" * count + "]" * count


HOSTILE = {
    "an object": ("models: !!python/object/apply:os.system ['touch /tmp/owned']", "tagged 'tag:yaml.org,2002:python/"),
    "a binary": ("models: !!binary aGk=", "tagged 'tag:yaml.org,2002:binary'"),
    "a set": ("models: !!set {a, b}", "tagged 'tag:yaml.org,2002:set'"),
    "a date": ("models: 2020-01-01", "tagged 'tag:yaml.org,2002:timestamp'"),
    "a merge": ("a: &a {b: 1}\nc:\n  <<: *a", "a key that is no text"),
    "a key twice": ("models: {}\nmodels: {}", "line 2: the key 'models' stands twice"),
    "a key that is a list": ("? [a]\n: 1", "a key that is no text"),
    "a number as a key": ("1: 2", "a key that is no text"),
    "an alias of itself": ("a: &a [*a]", "an alias refers to a value that it is part of"),
    "many aliases": (
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
        "stands for more than 200000 values",
    ),
    "lists without end": (deep(100_000), "is nested too deep"),
    "a number without end": (f"a: {'9' * 10_000}", "holds a value that cannot be read"),
    "two documents": ("a: 1\n---\nb: 2", "is no YAML that can be read"),
    "no YAML": ("a: [1", "is no YAML that can be read"),
    "control characters": ("a: \x00", "is no YAML that can be read"),
    "nothing": ("", "expected `object`, got `null`"),
    "a list": ("[1, 2]", "expected `object`, got `array`"),
    "too much": ("a: 1 #" + "x" * (1 << 20), "is longer than 1048576 bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused(name: str, directory: Path) -> None:
    text, message = HOSTILE[name]
    (directory / "graph.yaml").write_text(text)
    refuse_reading(directory, message)


def test_text_that_is_no_utf8_is_refused(directory: Path) -> None:
    (directory / "graph.yaml").write_bytes(b"a: \xff")
    refuse_reading(directory, "is no UTF-8 text")


def test_links_are_refused(directory: Path) -> None:
    (directory / "z.onnx").rename(directory.parent / "z.onnx")
    (directory / "z.onnx").symlink_to(directory.parent / "z.onnx")
    refuse_reading(directory, "'z.onnx' is a link")
    (directory / "z.onnx").unlink()
    (directory.parent / "models").mkdir()
    (directory.parent / "z.onnx").rename(directory.parent / "models" / "z.onnx")
    (directory / "models").symlink_to(directory.parent / "models")
    edit(directory, put(*Z, "parameters", "model_path", "models/z.onnx"))
    refuse_reading(directory, "'models/z.onnx' is a link")
    (directory / "graph.yaml").rename(directory.parent / "graph.yaml")
    (directory / "graph.yaml").symlink_to(directory.parent / "graph.yaml")
    refuse_reading(directory, "is a link")


def test_a_pipe_is_refused_and_not_waited_for(directory: Path) -> None:
    (directory / "z.onnx").unlink()
    os.mkfifo(directory / "z.onnx")
    refuse_reading(directory, "'z.onnx' is not a plain file")


def test_a_directory_without_one_yaml_file_is_refused(directory: Path, tmp_path: Path) -> None:
    refuse_reading(tmp_path / "nowhere", "there is nothing here; expected a LEAPP directory or its .yaml file")
    (tmp_path / "empty").mkdir()
    refuse_reading(tmp_path / "empty", "expected one .yaml file here, found none")
    shutil.copytree(directory, tmp_path / "two")
    shutil.copy(tmp_path / "two" / "graph.yaml", tmp_path / "two" / "other.yaml")
    refuse_reading(tmp_path / "two", "found graph.yaml, other.yaml; name the one to read")
    from_leapp(tmp_path / "two" / "other.yaml", tmp_path / "q")


def change_initial(directory: Path, change: Callable[[dict[str, np.ndarray]], Any]) -> None:
    path = directory / "graph_initial_values.safetensors"
    arrays = load_arrays(path.read_bytes(), "")
    change(arrays)
    path.write_bytes(save_arrays(arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("a/h_in"), "there is none for a/h_in"),
        (lambda arrays: arrays.update({"a/x": support.f32(1, 2, 3)}), "'a/x' is there, but is not fed back"),
        (lambda arrays: arrays.update({"a/h_in": support.f32(1, 2)}), "expected shape [1, 3], got [1, 2]"),
        (lambda arrays: arrays.update({"a/h_in": np.ones((1, 3))}), "expected dtype float32, got float64"),
        (lambda arrays: arrays.update({"a/h_in": support.f32(1, 2, np.nan)}), "holds NaN or an infinity"),
    ],
)
def test_initial_values_that_do_not_fit_are_refused(change: Any, message: str, directory: Path) -> None:
    change_initial(directory, change)
    refuse_reading(directory, message)


NAMES: tuple[tuple[tuple[int, ...], Any, Any], ...] = (
    ((1, 3), ["p", "q", "r"], (None, ("p", "q", "r"))),
    ((1, 3), [["p", "q", "r"]], (None, ("p", "q", "r"))),
    ((1, 3), [None, ["p", "q", "r"]], (None, ("p", "q", "r"))),
    ((1, 1), ["p"], (None, ("p",))),
    ((1, 1), "p", (None, ("p",))),
    ((1, 1), [["p"], ["q"]], (("p",), ("q",))),
    ((2, 3), [["p", "q"]], (("p", "q"), None)),
    ((1, 2, 3), [["p", "q"], ["r", "s", "t"]], (None, ("p", "q"), ("r", "s", "t"))),
    ((2,), ["p", "q"], (("p", "q"),)),
    ((2,), [None], None),
)


@pytest.mark.parametrize(("shape", "given_names", "expected"), NAMES)
def test_names_go_to_the_axes_they_fit_and_come_back(shape: tuple[int, ...], given_names: Any, expected: Any) -> None:
    raw = {"name": "x", "dtype": "float32", "shape": list(shape), "type": "tensor", "element_names": given_names}
    port = understand(raw, "test", []).port
    assert port.element_names == expected
    again = describe("x", port, PortNote())
    assert understand(again, "test", []).port == port


def test_fewer_names_than_axes_are_placed_only_where_they_fit_one_way(directory: Path) -> None:
    edit(directory, put(*Z, "inputs", 0, "element_names", ["p", "q", "r"]))
    manifest = from_leapp(directory, directory.parent / "out").manifest
    assert manifest.inputs["b"].element_names == (None, ("p", "q", "r"))
    for group in ("inputs", "outputs"):
        for index in range(2):
            edit(directory, put(*Z, group, index, "shape", [3, 3]))
    refuse_reading(directory, "fit more than one way shape [3, 3]; give one entry per axis")


# --- torch files -----------------------------------------------------------------------------------------------------


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/owned",)


def swap_model(directory: Path, data: bytes, backend: str) -> None:
    """Put other bytes in the place of a model, with the digests that they have."""
    (directory / "z.onnx").write_bytes(data)
    parameters = {
        "model_path": "z.onnx",
        "md5sum": hashlib.md5(data).hexdigest(),
        "sha256sum": hashlib.sha256(data).hexdigest(),
        "backend": backend,
    }
    edit(directory, put("models", "z", "parameters", parameters))


def test_a_pickle_is_no_torchscript_file(directory: Path) -> None:
    stream = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, stream)
    swap_model(directory, stream.getvalue(), "jit")
    refuse_reading(directory, "is no TorchScript file but a pickle")
    swap_model(directory, pickle.dumps(Payload()), "jit")
    refuse_reading(directory, "is no TorchScript file")


def program() -> dict[str, bytes]:
    """The files of an exported program."""
    stream = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(3, 3), (torch.zeros(1, 3),)), stream)
    with zipfile.ZipFile(stream) as archive:
        return {entry.filename.partition("/")[2]: archive.read(entry) for entry in archive.infolist()}


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(f"top/{name}", data)
    return stream.getvalue()


WEIGHTS = "data/weights/model_weights_config.json"
SAMPLE = "data/sample_inputs/model.pt"


def with_pickled_weights(files: dict[str, bytes]) -> None:
    config = json.loads(files[WEIGHTS])
    next(iter(config["config"].values()))["use_pickle"] = True
    files[WEIGHTS] = json.dumps(config).encode()


PROGRAMS: dict[str, tuple[Callable[[dict[str, bytes]], Any], str]] = {
    "pickled weights": (with_pickled_weights, "asks for weights to be unpickled"),
    "a pickle among the inputs": (
        lambda files: files.update({SAMPLE: zipped({"data.pkl": pickle.dumps(Payload(), 2)})}),
        "its pickle would import 'posix system'",
    ),
    "a pickle of another protocol": (
        lambda files: files.update({SAMPLE: zipped({"data.pkl": pickle.dumps(Payload(), 4)})}),
        "its pickle would import 'STACK_GLOBAL'",
    ),
    "a bare pickle": (lambda files: files.update({SAMPLE: pickle.dumps(Payload())}), "is no exported program"),
    "inputs of another kind": (
        lambda files: files.update({SAMPLE: zipped({"x": b""})}),
        "not what torch saves tensors",
    ),
    "native code": (lambda files: files.update({"data/aotinductor/m.so": b""}), "holds 'data/aotinductor/m.so'"),
    "an object": (lambda files: files.update({"data/constants/custom_obj_0": b""}), "which is no plain tensor"),
    "no program": (lambda files: files.pop("models/model.json"), "is no exported program"),
    "an old one": (
        lambda files: files.update({"serialized_exported_program.json": b""}),
        "was written by a torch that pickled its weights",
    ),
    "broken weights": (lambda files: files.update({WEIGHTS: b"{"}), "is no exported program"),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_program_that_would_unpickle_is_refused(name: str, directory: Path) -> None:
    files, (change, message) = program(), PROGRAMS[name]
    change(files)
    swap_model(directory, zipped(files), "pt2")
    refuse_reading(directory, message)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_compressed_program_is_refused(directory: Path) -> None:
    swap_model(directory, zipped(program(), zipfile.ZIP_DEFLATED), "pt2")
    refuse_reading(directory, "is compressed")


# --- anything at all -------------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything in a document."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a/z", "z/z", "h"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_the_file_is_a_package_or_an_ashore_error(data: st.DataObject, directory: Path) -> None:
    original = (directory / "graph.yaml").read_text()
    document = yaml.safe_load(original)
    for _ in range(data.draw(st.integers(1, 2))):
        *path, last = data.draw(st.sampled_from(list(places(document))))
        part = document
        for key in path:
            part = part[key]
        if isinstance(part, dict) and data.draw(st.booleans()):
            del part[last]
        else:
            part[last] = copy.deepcopy(data.draw(JSON))
    (directory / "graph.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    try:
        from_leapp(directory, directory.parent / "fuzzed")
    except AshoreError:
        pass
    finally:
        (directory / "graph.yaml").write_text(original)
