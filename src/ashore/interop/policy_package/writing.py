"""From a package to a directory of that format, whose own runtime computes the same.

What was written is read back, and the golden rollout of the package is replayed with it, before it is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ashore.errors import ExportError
from ashore.interop.folders import check_free, place_folder
from ashore.interop.policy_package.document import (
    ACTION,
    FORMAT,
    IMAGES,
    STATE,
    VERSION,
    About,
    Camera,
    Hardware,
    Identity,
    Robot,
    Tensor,
    plain,
)
from ashore.interop.policy_package.glue import renamed
from ashore.interop.policy_package.proving import Proof
from ashore.interop.policy_package.reading import ABOUT, MANIFEST
from ashore.interop.policy_package.recognising import Recognised, recognise
from ashore.interop.policy_package.statistics import EPS
from ashore.interop.policy_package.tokenizers import config_of
from ashore.package import Array, Package, load_arrays, save_arrays
from ashore.processors.normalize import STATISTICS
from ashore.spec import Manifest, Port, Stage

_STATISTICS = "stats.safetensors"
_TOKENIZER = "tokenizer"


class Written(NamedTuple):
    """A directory, and what is in it."""

    path: Path
    size: int
    """Bytes of all files."""

    runner: str
    inputs: dict[str, str]
    """What a robot gives -> the input of a model that it goes into, the task and the raw state left out."""

    replayed_steps: int
    """How many steps of the golden rollout agreed, replayed by what was read back; 0 where the package has none."""

    max_abs_error: float


def to_policy_package(package: Package, out: str | os.PathLike[str]) -> Written:
    """Write a package as a policy_package directory.

    Args:
        package: one model that gives an action or a queued chunk, or an encoder and an Euler flow from 1 to 0; before
            them at most ``normalize``, ``pad`` and ``tokenize``, behind them ``denormalize`` and ``absolute_actions``.
        out: the directory to create; an empty one may be there.

    Returns:
        Where it is, and what was proven about it.

    Raises:
        ExportError: the format cannot express the package; every reason is named. Nothing was written.
    """
    target = Path(out)
    check_free(target)
    writer = _Writer(package, recognise(package))
    contents = writer.contents()
    proof = Proof(package)
    place_folder(target, contents, proof.check)
    return Written(
        target, sum(map(len, contents.values())), writer.runner, writer.inputs, proof.steps, proof.max_abs_error
    )


class _Writer:
    def __init__(self, package: Package, found: Recognised) -> None:
        self._package, self._found, self._manifest = package, found, package.manifest
        self.runner = "single_pass" if found.body is None else "kv_cache_flow"
        self.inputs = {fed.feature: port for port, fed in found.fed.items()}
        problems = [*found.problems]
        if not problems:
            problems += self._problems()
        if problems:
            raise ExportError(
                f"{package.path}: a policy_package cannot express this package:\n  " + "\n  ".join(problems)
            )

    def contents(self) -> dict[str, bytes]:
        """Path -> bytes of every file of the directory."""
        files = self._models()
        if statistics := self._statistics():
            files[_STATISTICS] = save_arrays(statistics)
        before, after = self._before(files), self._after()
        model: dict[str, Any] = {
            "n_obs_steps": 1,
            "runner": self._runner(),
            "artifacts": {role: f"{role}.onnx" for role in self._roles()},
        }
        model |= {"preprocessors": before} if before else {}
        model |= {"postprocessors": after} if after else {}
        policy, hardware, about = self._about()
        document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "policy": plain(policy)}
        document |= {"model": model}
        document |= {"hardware": plain(hardware)} if hardware != Hardware() else {}
        document |= {"metadata": plain(about)}
        files[MANIFEST] = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        return files

    # --- what cannot be said -----------------------------------------------------------------------------------------

    def _problems(self) -> Iterator[str]:
        stages = self._manifest.stages
        for role, name in self._roles().items():
            artifact = stages[name].artifacts.get("onnx")
            if artifact is None or artifact.data:
                yield f"stage {name!r}: expected an ONNX artifact of one file for {role!r}"
        modes: set[str] = set()
        for name in sorted({name for fed in self._found.fed.values() for name in fed.stages} | {*self._found.after}):
            yield from self._processor_problems(name, modes)
        if len(modes) > 1:
            yield (
                f"features are normalised by {sorted(modes)}; that format's runtime scales each of them once for every "
                f"mode, so only one can be written"
            )
        kinds = [self._kind(name) for name in self._found.after]
        for kind in sorted(set(kinds)):
            if kinds.count(kind) > 1:
                yield f"there are {kinds.count(kind)} stages {kind!r} behind the models; expected one"
        yield from self._chunk_problems()

    def _processor_problems(self, name: str, modes: set[str]) -> Iterator[str]:
        kind, stage, params = self._kind(name), self._manifest.stages[name], self._params(name)
        if kind in ("normalize", "denormalize"):
            (port,) = stage.outputs.values()
            exact = 0.0 if kind == "denormalize" and params["mode"] == "mean_std" else EPS
            if params.get("eps", 1e-8) != exact:
                yield f"stage {name!r} has eps {params.get('eps', 1e-8)}; that format's runtime has {exact}"
            if port.dtype != "float32":
                yield f"stage {name!r} scales {port.dtype}; a policy_package has statistics in float32"
            if kind == "normalize":
                modes.add(params["mode"])
        if kind == "pad" and params.get("value", 0.0) != 0.0:
            yield f"stage {name!r} pads with {params['value']}; a policy_package pads with 0"
        if kind == "tokenize" and params.get("add_special_tokens", True) is not True:
            yield f"stage {name!r} adds no special tokens; that format's runtime always does"

    def _chunk_problems(self) -> Iterator[str]:
        (action,) = self._manifest.outputs.values()
        queue, chunk = self._found.queue, self._chunk()
        if action.dtype != "float32" or len(action.shape) not in (2, 3) or action.shape[0] not in (1, "batch"):
            yield f"the action is {action.dtype} {list(action.shape)}; expected float32 [1, dim]"
        elif queue is None and len(chunk.shape) == 3:
            yield (
                f"each decision gives a chunk {list(chunk.shape)}, and no stage is an action_queue; that format's "
                f"runtime executes a chunk action by action"
            )

    # --- files -------------------------------------------------------------------------------------------------------

    def _roles(self) -> dict[str, str]:
        found = self._found
        return {"model": found.model} if found.body is None else {"encoder": found.model, "denoise": found.body}

    def _models(self) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for role, name in self._roles().items():
            data = self._package.read(self._manifest.stages[name].artifacts["onnx"].path)
            if role == "model":
                (output,) = self._manifest.stages[name].outputs
                names = {port: fed.feature for port, fed in self._found.fed.items()}
                data = renamed(data, names, {output: ACTION}, f"{self._package.path}: stage {name!r}")
            files[f"artifacts/{role}.onnx"] = data
        return files

    def _statistics(self) -> dict[str, Array]:
        """The statistics that are used, under the names of their features."""
        found: dict[str, Array] = {}
        scaled = [(fed.feature, name) for fed in self._found.fed.values() for name in fed.stages]
        for feature, name in (*scaled, *((ACTION, name) for name in self._found.after)):
            stage = self._manifest.stages[name]
            if self._kind(name) not in ("normalize", "denormalize") or stage.processor is None:
                continue
            params = self._params(name)
            arrays = load_arrays(self._package.read(stage.processor.assets[0]), stage.processor.assets[0])
            for statistic in STATISTICS[params["mode"]]:
                found[f"{feature}/{statistic}"] = arrays[f"{params['statistics']}/{statistic}"]
        return found

    # --- the manifest ------------------------------------------------------------------------------------------------

    def _before(self, files: dict[str, bytes]) -> list[dict[str, Any]]:
        specs: list[dict[str, Any]] = [
            {"type": "relative_actions", "enabled": True, **self._masked(self._params(name)["mask"])}
            for name in self._found.after
            if self._kind(name) == "absolute_actions"
        ]
        chains = list(dict.fromkeys((fed.feature, fed.stages) for fed in self._found.fed.values()))
        scaled = {feature: name for feature, stages in chains for name in stages if self._kind(name) == "normalize"}
        if scaled:
            (mode,) = {self._params(name)["mode"] for name in scaled.values()}
            specs.append({"type": "normalize", "mode": mode, "artifact": _STATISTICS, "features": sorted(scaled)})
        others = dict.fromkeys(name for _, stages in chains for name in stages if self._kind(name) != "normalize")
        for name in sorted(others, key=lambda name: self._kind(name) != "pad"):
            stage = self._manifest.stages[name]
            if self._kind(name) == "pad":
                (port,) = stage.outputs.values()
                specs.append({"type": "pi05_prepare_state", "max_state_dim": port.shape[-1]})
            else:
                specs.append(self._tokenizer(stage, files))
        return specs

    def _tokenizer(self, stage: Stage, files: dict[str, bytes]) -> dict[str, Any]:
        if stage.processor is None:
            return {}
        params, asset = stage.processor.params, stage.processor.assets[0]
        data = self._package.read(asset)
        side = params.get("padding_side", "right")
        files[f"{_TOKENIZER}/tokenizer.json"] = data
        files[f"{_TOKENIZER}/tokenizer_config.json"] = config_of(
            data,
            params["pad_id"],
            side,
            params.get("truncation_side", "right"),
            params["max_length"],
            f"{self._package.path}: {asset}",
        )
        return {
            "type": "tokenize",
            "artifact": _TOKENIZER,
            "max_length": params["max_length"],
            "padding_side": side,
            "padding": "max_length",
            "truncation": params.get("truncation", False),
        }

    def _masked(self, mask: list[bool]) -> dict[str, Any]:
        """Names and words with which that format's runtime finds a mask: those of the action, if they are apart."""
        if all(mask):
            return {"exclude_joints": []}
        (port,) = self._manifest.outputs.values()
        said = port.element_names[-1] if port.element_names else None
        made = tuple(f"action_{index:04d}" for index in range(len(mask)))
        for names in (said, made):
            if names is None or len(names) != len(mask):
                continue
            words = [name for name, offset in zip(names, mask, strict=True) if not offset]
            if [not any(word.lower() in name.lower() for word in words) for name in names] == list(mask):
                return {"exclude_joints": words, "action_names": list(names)}
        raise ExportError(f"{self._package.path}: no names can be found for the mask {mask}")

    def _after(self) -> list[dict[str, Any]]:
        specs: list[dict[str, Any]] = []
        for name in self._found.after:
            if self._kind(name) == "absolute_actions":
                specs.append({"type": "absolute_actions", "enabled": True})
            else:
                mode = self._params(name)["mode"]
                specs.append({"type": "denormalize", "mode": mode, "artifact": _STATISTICS, "features": [ACTION]})
        return specs

    def _runner(self) -> dict[str, Any]:
        found, chunk = self._found, self._chunk()
        rows = int(chunk.shape[1]) if len(chunk.shape) == 3 else 1
        steps = rows
        if found.queue is not None:
            steps = int(self._manifest.stages[found.queue].inputs["queue"].shape[1])
        if found.body is None or found.generate is None:
            said = {"type": "single_pass", "chunk_size": rows, "n_action_steps": steps}
            return {**said, "action_dim": int(chunk.shape[-1])}
        sample, generate = self._manifest.stages[found.body].inputs["x_t"], self._manifest.stages[found.generate]
        trimmed = self._manifest.stages[found.trim].outputs if found.trim else generate.outputs
        (kept,) = trimmed.values()
        keys = [port for name, port in generate.inputs.items() if name.startswith("past_key_")]
        cache: dict[str, Any] = {"num_layers": len(keys)} if keys else {}
        if keys and len(keys[0].shape) == 4:
            cache |= {"num_kv_heads": keys[0].shape[1], "head_dim": keys[0].shape[-1]}
        state = generate.inputs.get("state")
        return {
            "type": "kv_cache_flow",
            "num_inference_steps": generate.runner.params["num_steps"] if generate.runner else 0,
            "scheduler": "euler",
            "action_dim": int(sample.shape[-1]),
            "output_action_dim": int(kept.shape[-1]),
            "chunk_size": int(sample.shape[1]),
            "n_action_steps": steps,
            **cache,
            "input_mapping": {fed.feature: port for port, fed in found.fed.items() if fed.feature != port},
            "state_dim": None if state is None else int(state.shape[-1]),
        }

    def _chunk(self) -> Port:
        """The actions that the models give."""
        name = self._found.generate or self._found.model
        (port,) = self._manifest.stages[name].outputs.values()
        return port

    def _about(self) -> tuple[Identity, Hardware, About]:
        """What a package that comes from such a directory kept of it; else what it says itself."""
        from ashore import __version__

        manifest = self._manifest
        kept = manifest.metadata.get(ABOUT)
        try:
            said: dict[str, Any] = dict(kept) if isinstance(kept, dict) else {}
            policy = msgspec.convert(said.get("policy", {"name": manifest.name}), Identity)
            hardware = msgspec.convert(said.get("hardware") or {}, Hardware)
            about = msgspec.convert(said.get("metadata") or {}, About)
        except msgspec.ValidationError as error:
            raise ExportError(f"{self._package.path}: metadata.{ABOUT}: {error}") from error
        about = About(
            created_at=about.created_at or manifest.provenance.created_at,
            created_by=about.created_by or f"ashore {__version__}",
        )
        return policy, hardware if hardware != Hardware() else _hardware(manifest), about

    def _kind(self, name: str) -> str:
        processor = self._manifest.stages[name].processor
        return processor.type if processor is not None else ""

    def _params(self, name: str) -> dict[str, Any]:
        processor = self._manifest.stages[name].processor
        return processor.params if processor is not None else {}


def _hardware(manifest: Manifest) -> Hardware:
    """The robot and the cameras, as far as the inputs say them."""
    (action,) = manifest.outputs.values()
    state = manifest.inputs.get(STATE)
    cameras = tuple(
        Camera(name=name.removeprefix(IMAGES), shape=tuple(map(int, port.shape[1:])), dtype=port.dtype)
        for name, port in manifest.inputs.items()
        if name.startswith(IMAGES)
    )
    robot = Robot(name="main", state=None if state is None else _tensor(state), action=_tensor(action))
    return Hardware(robots=(robot,), cameras=cameras or None)


def _tensor(port: Port) -> Tensor:
    names = port.element_names[-1] if port.element_names else None
    return Tensor(shape=tuple(map(int, port.shape[1:])), dtype=port.dtype, order=names)
