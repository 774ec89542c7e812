"""A folder that LeRobot's training wrote: configuration, weights, processors; checked before they are used."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ashore.errors import InputError
from ashore.integrations.lerobot.pipelines import check_names

_OLD = ("normalize_inputs.", "normalize_targets.", "unnormalize_outputs.")
_FILES = ("config.json", "model.safetensors", "policy_preprocessor.json", "policy_postprocessor.json")


class Pipelines(NamedTuple):
    """The processors of a policy, as LeRobot has them."""

    before: Any
    after: Any

    @classmethod
    def made(cls, policy: Any, statistics: Mapping[str, Any]) -> Pipelines:
        """Those that LeRobot makes for a policy, with statistics of its data."""
        make = _library("lerobot.policies.factory").make_pre_post_processors
        return cls(*make(policy.config, dataset_stats=_as_tensors(statistics)))


class Checkpoint(NamedTuple):
    """A policy with its processors."""

    folder: Path
    policy: Any
    pipelines: Pipelines


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Load what LeRobot's `save_pretrained` wrote: policy, processors and statistics. On the CPU.

    Args:
        folder: with ``config.json``, ``model.safetensors``, ``policy_preprocessor.json`` and
            ``policy_postprocessor.json``; or the folder of a training step that holds such a ``pretrained_model``.
    """
    folder = find_folder(Path(folder))
    weights = folder / "model.safetensors"
    keys = _keys(weights)
    old = sorted(key for key in keys if key.startswith(_OLD))
    if old:
        raise InputError(
            f"{weights}: holds {old[0]!r}: LeRobot before 0.4 kept statistics among the weights; convert it with "
            f"python -m lerobot.processor.migrate_policy_normalization --pretrained-path {folder}"
        )
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder}: has no {' and no '.join(missing)}; expected what LeRobot's save_pretrained writes")
    factory, configs = _library("lerobot.policies.factory"), _library("lerobot.configs.policies")
    with _quiet():
        config = configs.PreTrainedConfig.from_pretrained(folder)
        config.device = "cpu"
        if hasattr(config, "compile_model") and config.type != "diffusion":  # the names of its weights say compiled
            config.compile_model = False
        policy = factory.get_policy_class(config.type).from_pretrained(folder, config=config)
        config.pretrained_path = folder
    _check_keys(weights, keys, policy)
    _unwrap(policy)
    policy.eval()
    return Checkpoint(folder, policy, saved_pipelines(config, folder))


def saved_pipelines(config: Any, folder: Path) -> Pipelines:
    """The processors in a folder, on the CPU."""
    names = {where: _steps(folder / f"policy_{where}.json") for where in ("preprocessor", "postprocessor")}
    check_names(names["preprocessor"], names["postprocessor"])
    on_cpu = {"device_processor": {"device": "cpu"}}
    overrides = {f"{where}_overrides": on_cpu for where in names if "device_processor" in names[where]}
    make = _library("lerobot.policies.factory").make_pre_post_processors
    with _quiet():
        return Pipelines(*make(config, pretrained_path=str(folder), **overrides))


def find_folder(folder: Path) -> Path:
    """The folder with the configuration, of a checkpoint or of a training step."""
    for one in (folder, folder / "pretrained_model", folder / "checkpoints" / "last" / "pretrained_model"):
        if (one / "config.json").is_file():
            return one
    raise InputError(f"{folder}: there is no config.json; expected a folder that LeRobot's save_pretrained wrote")


def _steps(path: Path) -> list[str]:
    """The steps of a pipeline, by their registry names, or by their classes where they have none."""
    try:
        steps = json.loads(path.read_text())["steps"]
        return [str(step.get("registry_name") or step.get("class")) for step in steps]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: no pipeline of LeRobot: {error!r}") from error


def _keys(weights: Path) -> set[str]:
    if not weights.is_file():
        raise InputError(f"{weights}: there is no such file; expected what LeRobot's save_pretrained writes")
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "np") as file:
            return set(file.keys())
    except SafetensorError as error:
        raise InputError(f"{weights}: {error}") from error


def _check_keys(weights: Path, keys: set[str], policy: Any) -> None:
    """LeRobot only warns about weights that are missing, or that nothing takes."""
    tensors = policy.state_dict(keep_vars=True)
    keys = {key if key in tensors or key.startswith("model.") else f"model.{key}" for key in keys}  # pi0.5 of OpenPI
    shared = {tensors[key].data_ptr() for key in keys & tensors.keys()}
    missing = sorted(key for key in tensors.keys() - keys if tensors[key].data_ptr() not in shared)
    unknown = sorted(keys - tensors.keys())
    if missing or unknown:
        first = f"has no {missing[0]!r}" if missing else f"holds {unknown[0]!r}, which the policy does not have"
        raise InputError(
            f"{weights}: {first} ({len(missing)} missing, {len(unknown)} too many); LeRobot would run it with weights "
            f"that were never trained; use the weights that belong to config.json"
        )


def _unwrap(policy: Any) -> None:
    """A compiled network computes what the network itself computes, and takes a compiler."""
    inner = getattr(getattr(getattr(policy, "diffusion", None), "unet", None), "_orig_mod", None)
    if inner is not None:
        policy.diffusion.unet = inner


def _as_tensors(statistics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {feature: dict(values) for feature, values in statistics.items()}


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "lerobot":
            raise
        raise InputError("policies of LeRobot need it installed: pip install lerobot") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """LeRobot prints while it loads; that goes to the error stream."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
