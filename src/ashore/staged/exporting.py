"""Exporting a policy of several stages: modules, processors and the runner become one package, and it is tried."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import torch

from ashore.building import Pipeline, apply, touched
from ashore.building.loops import ACTION
from ashore.capture.options import ExportOptions, check_name
from ashore.errors import ExportError, InputError
from ashore.package import Package, write
from ashore.package.provenance import collect_provenance
from ashore.spec import ACTION_QUEUE, NOISE, SINGLE_PASS, TEXT, Manifest, Port, Runner
from ashore.staged.exportable import Exportable, ExportInputs, Observation, ProcessorSpec
from ashore.staged.layouts import lay_out
from ashore.staged.proof import prove
from ashore.staged.stages import Captured, capture
from ashore.view import draw

STATISTICS = "stats.safetensors"
TEXT_BYTES = 512
"""How long a text may be, in UTF-8."""

_TOOLS = ("torch", "onnx", "onnxscript", "numpy")
_CONFIGURED = ("chunk_size", "n_action_steps", "num_inference_steps", "num_steps")
_ADAPTERS: list[Callable[[object], Exportable | None]] = []
_KNOWN: Mapping[str, str] = {"lerobot": "ashore.integrations.lerobot.exportable"}
"""Where a policy's class comes from -> the module with the adapter for it, imported for such a policy only."""


def adapts(adapter: Callable[[object], Exportable | None]) -> Callable[[object], Exportable | None]:
    """Make policies exportable whose classes are somebody else's: the function gives an `Exportable`, or None."""
    _ADAPTERS.append(adapter)
    return adapter


def export_policy(
    policy: object,
    out: str | Path,
    backend: str = "onnx",
    *,
    example_batch: Observation | None = None,
    include_normalization: bool = True,
    observations: Sequence[Observation] = (),
    **options: Any,
) -> Package:
    """Export a policy of one or more stages as a package.

    Args:
        policy: an `Exportable`, or one that an adapter knows.
        out: where the package goes.
        backend: the exporter of the modules: ``onnx``, ``openvino``, or another of `ashore.backends`.
        example_batch: feature -> tensor or array with a batch axis, or a text: what a robot would give, and what else
            the modules take. Policies that know what they are given, such as LeRobot's, do without.
        include_normalization: whether the processors that scale features are in the package.
        observations: what to try the package on, besides inputs near the example.
        options: of `ashore.capture.options.ExportOptions`.

    Returns:
        The package, after its files have given what the modules give.
    """
    out = Path(out)
    check_name(out.name)
    checked = ExportOptions.of({"backend": backend, **options})
    exportable = _exportable(policy)
    example = _example(exportable, example_batch, include_normalization)
    modules = dict(exportable.get_export_modules())
    inputs = exportable.prepare_inputs(example)
    if not modules or modules.keys() != inputs.keys():
        raise ExportError(f"expected inputs for each of the modules {sorted(modules)}, got {sorted(inputs)}")
    params = _params(exportable)
    assets = _assets(exportable)
    specs = exportable.export_processor_specs(include_normalization, STATISTICS, {name: name for name in assets})
    with _evaluating(modules):
        captured = {
            name: capture(name, module, inputs[name], {"backend": backend, **_recording(options)})
            for name, module in modules.items()
        }
        pipeline = Pipeline()
        runner = _build(pipeline, exportable.get_inference_type(), captured, inputs, specs, params, example)
        pipeline.files |= {name: data for name, data in assets.items() if name in pipeline.assets}
        manifest = pipeline.manifest(
            out.name,
            runner,
            description=options.get("description"),
            licence=options.get("licence"),
            metadata=dict(options.get("metadata", {})),
            findings=tuple(finding for one in captured.values() for finding in one.findings),
            constants=tuple(constant for one in captured.values() for constant in one.constants),
            provenance=collect_provenance(tools=_TOOLS, checkpoint=options.get("checkpoint"), task=options.get("task")),
        )
        with tempfile.TemporaryDirectory() as scratch:
            draft = write(Path(scratch) / out.name, manifest, files=pipeline.files, initial=pipeline.initial)
            seen = chain(observations, _more(exportable, manifest))
            golden, proof = prove(draft, modules, inputs, example, seen, checked)
            found = _check(exportable, draft, checked)
    manifest = msgspec.structs.replace(manifest, verification=proof, metadata=manifest.metadata | found)
    files = dict(pipeline.files)
    if options.get("picture", True):
        drawing = draw(manifest)
        files |= {"graph.svg": drawing.svg(), "graph.png": drawing.png()}
    return write(out, manifest, files=files, initial=pipeline.initial, golden=golden)


def _exportable(policy: object) -> Exportable:
    if isinstance(policy, Exportable):
        return policy
    origins = {one.__module__.split(".")[0] for one in type(policy).__mro__}
    known = [importlib.import_module(module).adapt for origin, module in _KNOWN.items() if origin in origins]
    for adapter in (*_ADAPTERS, *known):
        found = adapter(policy)
        if found is not None:
            return found
    methods = [name for name in vars(Exportable) if name.startswith(("get_", "prepare", "export"))]
    missing = [name for name in methods if not hasattr(policy, name)]
    raise InputError(f"policy: {type(policy).__name__} has no {', '.join(missing)}; see ashore.staged.Exportable")


def _example(exportable: Exportable, given: Observation | None, include_normalization: bool) -> Observation:
    """What a robot gives: the inputs of the package."""
    prepare = getattr(exportable, "prepare_example", None)
    if prepare is not None:
        return prepare(given, include_normalization=include_normalization)
    if given is None:
        raise InputError(f"{type(exportable).__name__}: expected an example_batch, to see what a robot gives")
    return given


def _more(exportable: Exportable, manifest: Manifest) -> Iterable[Observation]:
    """What the policy itself says a robot may see."""
    imagine = getattr(exportable, "imagine", None)
    return () if imagine is None else imagine(manifest)


def _check(exportable: Exportable, package: Package, options: ExportOptions) -> dict[str, Any]:
    """What the policy itself finds about the package."""
    check = getattr(exportable, "check_package", None)
    return {} if check is None else dict(check(package, atol=options.atol, rtol=options.rtol))


def _params(exportable: Exportable) -> dict[str, Any]:
    """What the runner needs, said by the policy or found in its configuration."""
    said = getattr(exportable, "get_runner_params", None)
    if said is not None:
        return dict(said())
    config = getattr(exportable, "config", None)
    return {name: getattr(config, name) for name in _CONFIGURED if getattr(config, name, None) is not None}


def _assets(exportable: Exportable) -> dict[str, bytes]:
    given: Mapping[str, Any] = getattr(exportable, "export_assets", dict)()
    return {name: value if isinstance(value, bytes) else Path(value).read_bytes() for name, value in given.items()}


def _recording(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that concern a module alone."""
    known = ("allow", "atol", "rtol", "cache", "opset", "ir_version", "profile", "validation_steps")
    return {name: options[name] for name in known if name in options}


def _build(
    pipeline: Pipeline,
    inference: str,
    captured: Mapping[str, Captured],
    inputs: Mapping[str, ExportInputs],
    specs: tuple[Sequence[ProcessorSpec], Sequence[ProcessorSpec]],
    params: dict[str, Any],
    example: Observation,
) -> Runner:
    before, after = specs
    made = {port for one in captured.values() for port in one.stage.outputs}
    wanted = [(one.features or {}).get(port, port) for one in inputs.values() for port in one.input_names]
    needed = [feature for spec in before for feature in touched(spec)] + [one for one in wanted if one not in made]
    for feature in dict.fromkeys(needed):
        if feature in example:
            pipeline.add_input(feature, _port(feature, example[feature]))
    for one in inputs.values():
        for port in one.noise:
            tensor = one.tensors[list(one.input_names).index(port)]
            pipeline.add_input(port, Port(dtype="float32", shape=tuple(tensor.shape), kind=NOISE))
    raw = {spec.get("state", "observation.state") for spec in after if spec.get("type") == "absolute_actions"}
    for feature in raw:
        pipeline.keep(feature, f"raw:{feature}")
    for spec in before:
        apply(pipeline, spec)
    queued = params.pop("n_action_steps", None)
    chunk = params.pop("chunk_size", None)
    lay_out(pipeline, inference, captured, inputs, params)
    for spec in after:
        apply(pipeline, spec)
    shape = pipeline.port(ACTION).shape
    runner = Runner(type=SINGLE_PASS)
    if len(shape) == 3 and queued is not None:
        if chunk is not None and shape[1] != chunk:
            raise ExportError(f"the modules give chunks of {shape[1]} actions; the configuration says {chunk}")
        apply(pipeline, {"type": ACTION_QUEUE, "features": [ACTION], "n_action_steps": queued})
        runner = Runner(type=ACTION_QUEUE)
    pipeline.add_output(ACTION, ACTION)
    return runner


def _port(name: str, value: Any) -> Port:
    """The input of a package that a feature of an example is."""
    if isinstance(value, str) or (isinstance(value, list | tuple) and value and isinstance(value[0], str)):
        rows = 1 if isinstance(value, str) else len(value)
        return Port(dtype="uint8", shape=(rows, TEXT_BYTES), kind=TEXT, source="command")
    array = torch.as_tensor(value)
    kind = "sensor/image/rgb" if "image" in name and array.ndim >= 3 else "observation"
    return Port(dtype=str(array.dtype).removeprefix("torch."), shape=tuple(array.shape), kind=kind, source="sensor")  # type: ignore[arg-type]


@contextmanager
def _evaluating(modules: Mapping[str, torch.nn.Module]) -> Iterator[None]:
    """Have the modules in evaluation mode, and put each part of them back as it was."""
    training = [(part, part.training) for module in modules.values() for part in module.modules()]
    for module in modules.values():
        module.eval()
    try:
        yield
    finally:
        for part, mode in training:
            part.training = mode
