"""A policy under the names that scripts written for LEAPP use: ``node/port`` keys, torch tensors or numpy arrays."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ashore.errors import InputError, PackageError, suggestion
from ashore.package import Array, read
from ashore.runtime.backend import BACKENDS
from ashore.runtime.loading import load
from ashore.runtime.policy import Policy
from ashore.spec import Manifest, concrete

_ODD = re.compile(r"[^A-Za-z0-9_.-]")
"""What a node's name cannot have as the name of a stage."""


class InferenceManager:
    """Runs a package. Tensors are taken and given as torch tensors if any of them is one, else as numpy arrays.

    Unlike `ashore.load` it opens whatever artifacts the stages have, also those of torch: use it for packages of your
    own.

    Args:
        model_path: a package, or the ``.yaml`` that LEAPP would have written into its folder.
    """

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        self._package = read(_folder(Path(model_path)))
        self._manifest = self._package.manifest
        self.policy: Policy = load(self._package, backend=_backends(self._manifest))
        self._inputs = _keys(self._manifest, "inputs")
        self._outputs = _keys(self._manifest, "outputs")
        self._set: dict[str, Array] = {}

    def run_policy(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Decide.

        Args:
            inputs: ``node/port``, or the name of a package input -> tensor. All of them, but for those that
                `set_input_value` set.

        Returns:
            ``node/port`` -> tensor.
        """
        torch, given, tensors = sys.modules.get("torch"), dict[str, Array](), False
        for key, value in inputs.items():
            name = self._inputs.get(key) or self._name(key)
            if name in given:
                raise InputError(f"input {name!r} is given twice, once as {key!r}")
            if torch is not None and isinstance(value, torch.Tensor):
                tensors, value = True, value.numpy(force=True)
            given[name] = value
        outputs = self.policy.step({**self._set, **given} if self._set else given)
        self._set = {}
        if torch is None or not tensors:
            return {key: outputs[name] for key, name in self._outputs.items()}
        return {key: torch.from_numpy(outputs[name]) for key, name in self._outputs.items()}

    __call__ = run_policy

    def reset(self) -> None:
        """Start an episode."""
        self.policy.reset()
        self._set = {}

    @property
    def inputs(self) -> list[str]:
        """The inputs, as ``node/port``."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[str]:
        """The outputs, as ``node/port``."""
        return list(self._outputs)

    @property
    def feedback_inputs(self) -> list[str]:
        """The stage inputs that states feed, as ``node/port``."""
        return [wire.target for wire in self._manifest.wires if wire.source.startswith("states/")]

    def set_input_value(self, node_name: str, input_name: str, value: Any) -> None:
        """Set what an input is in the next decision, or what a state holds now."""
        key = f"{node_name}/{input_name}"
        fed = {wire.target: wire.source.partition("/")[2] for wire in self._manifest.wires}
        if key in self.feedback_inputs:
            self.policy.restore({**self.policy.state(), fed[key]: _to_array(value)})
        else:
            self._set[self._name(key)] = _to_array(value)

    def get_mock_input(self) -> dict[str, Any]:
        """Random inputs of the right shapes; torch tensors where torch is loaded."""
        generator = np.random.default_rng()
        made = {key: _random(generator, self._manifest, name) for key, name in self._inputs.items()}
        return {key: _to_tensor(value) for key, value in made.items()} if "torch" in sys.modules else made

    def _name(self, key: str) -> str:
        """The package input that a key means."""
        if key in self._inputs:
            return self._inputs[key]
        if key in self._manifest.inputs:
            return key
        node, _, port = key.rpartition("/")
        if port in self._manifest.inputs and _ODD.sub("_", node) in self._manifest.stages:
            return port
        raise InputError(f"input {key!r} is unknown{suggestion(key, self._inputs, f'; there are {self.inputs}')}")


def _folder(path: Path) -> Path:
    """The package that a path means."""
    if path.suffix not in (".yaml", ".yml"):
        return path
    if (path.parent / "manifest.json").is_file():
        return path.parent
    if path.is_file():
        raise PackageError(f"{path}: this was written by LEAPP; use ashore convert --from leapp {path.parent} PACKAGE")
    raise PackageError(f"{path}: there is no package in {path.parent}")


def _backends(manifest: Manifest) -> dict[str, str]:
    """For every stage, the first backend it has an artifact for."""
    return {
        name: next((backend for backend in BACKENDS if backend in stage.artifacts), "onnx")
        for name, stage in manifest.stages.items()
        if stage.processor is None
    }


def _keys(manifest: Manifest, group: str) -> dict[str, str]:
    """``node/port`` -> the name of the package input or output."""
    found: dict[str, str] = {}
    for name in getattr(manifest, group):
        ends = [
            wire.target if group == "inputs" else wire.source for wire in manifest.wires if _joins(wire, group, name)
        ]
        stage = ends[0].partition("/")[0]
        found[name if name.startswith(f"{stage}/") else f"{stage}/{name}"] = name
    return found


def _joins(wire: Any, group: str, name: str) -> bool:
    return (wire.source if group == "inputs" else wire.target) == f"{group}/{name}"


def _to_array(value: Any) -> Array:
    torch = sys.modules.get("torch")
    return value.numpy(force=True) if torch is not None and isinstance(value, torch.Tensor) else value


def _to_tensor(value: Array) -> Any:
    return sys.modules["torch"].from_numpy(value)


def _random(generator: np.random.Generator, manifest: Manifest, name: str) -> Array:
    port = manifest.inputs[name]
    shape, dtype = concrete(port.shape, 1), np.dtype(port.dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)
