"""Configurations that trainers write beside their checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ashore.errors import InputError

_BESIDE = ("params/agent.yaml", "../params/agent.yaml", "agent.yaml", "config.yaml")


def find_settings(checkpoint: Path, config: Path | None) -> Path:
    """The file with the configuration of a run: named, or where Isaac Lab and mjlab write it."""
    if config is not None:
        if not config.is_file():
            raise InputError(f"{config}: there is no such configuration")
        return config
    for name in _BESIDE:
        found = checkpoint.parent / name
        if found.is_file():
            return found
    raise InputError(
        f"{checkpoint}: a checkpoint holds weights, but not, for example, which activation lies between them; say with "
        "config=… (--config) where the configuration of the trainer is (params/agent.yaml)"
    )


def read_settings(path: Path) -> dict[str, Any]:
    """A configuration in YAML or JSON, as plain data: no tag in it makes anything but lists."""
    text = path.read_text()
    if path.suffix == ".json":
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InputError(f"{path}: this is no JSON: {error}") from error
    else:
        found = _yaml(path, text)
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a configuration by name, got {type(found).__name__}")
    return found


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: reading YAML needs pyyaml; use pip install 'ashore[leapp]', or give JSON") from error

    def _sequence(loader: Any, node: Any) -> Any:
        return loader.construct_sequence(node)

    class Loader(yaml.SafeLoader):
        """Plain data, and the tuples that trainers' dumps have besides; anything else is left out."""

    Loader.add_constructor("tag:yaml.org,2002:python/tuple", _sequence)
    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)  # noqa: ARG005
    try:
        return yaml.load(text, Loader)  # noqa: S506 - the loader is a safe one
    except yaml.YAMLError as error:
        raise InputError(f"{path}: this is no YAML: {error}") from error
