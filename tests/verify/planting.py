"""A good package of a walker, and faults to plant in it as a broken tool or a careless person would."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import support
from ashore.package import Package, load_arrays, read, save_arrays, unpack
from ashore.verify import Examination, examine

STORED = Path(__file__).parents[1] / "data" / "walker" / "walker.ashore"


def walker(out: Path) -> Package:
    """The good package, as a directory."""
    return unpack(read(STORED), out)


def model_of(package: Package) -> onnx.ModelProto:
    return onnx.load_from_string(package.read("artifacts/policy.onnx"))


def change_model(package: Package, change: Callable[[onnx.ModelProto], object]) -> Package:
    """Change the ONNX file, and seal the package again."""
    model = model_of(package)
    change(model)
    onnx.checker.check_model(model)
    support.change_file(package.path, "artifacts/policy.onnx", model.SerializeToString())
    return read(package.path)


def change_weight(package: Package, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Package:
    """Change one weight of the ONNX file."""

    def edit(model: onnx.ModelProto) -> None:
        weight = weight_of(model, name)
        value = np.ascontiguousarray(change(numpy_helper.to_array(weight).copy()))
        weight.CopyFrom(numpy_helper.from_array(value, name))

    return change_model(package, edit)


def weight_of(model: onnx.ModelProto, name: str) -> Any:
    (found,) = (one for one in model.graph.initializer if one.name == name)
    return found


def reader_of(model: onnx.ModelProto, operation: str, value: str) -> Any:
    """The only operation of its kind that reads a value."""
    (found,) = (node for node in model.graph.node if node.op_type == operation and value in node.input)
    return found


def change_state(package: Package, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Package:
    """Change the initial value of a state."""
    arrays = load_arrays(package.read("state.safetensors"), "state")
    support.change_file(package.path, "state.safetensors", save_arrays({**arrays, name: change(arrays[name])}))
    return read(package.path)


def change_contract(package: Package, change: Callable[[dict[str, Any]], object]) -> Package:
    """Change the manifest, and seal it again."""
    support.edit_manifest(package.path, change)
    return read(package.path)


def forget_contract(package: Package) -> Package:
    """The same package, as an older Ashore would have written it: the rollout carries no contract."""
    arrays = load_arrays(package.read("golden.safetensors"), "golden")
    support.change_file(package.path, "golden.safetensors", save_arrays(arrays))
    return read(package.path)


def told(package: Package, **options: Any) -> tuple[Examination, str]:
    """What a verification finds, and everything that it says."""
    found = examine(package, **options)
    messages = [mismatch.message for one in found.backends for mismatch in one.replay.mismatches]
    messages += [f"{problem.severity}: {problem.message}" for problem in found.problems]
    return found, "\n".join(messages)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
