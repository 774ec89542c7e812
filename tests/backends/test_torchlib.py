"""torch's table of translations is made once for each opset, and every export gets one of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.onnx._internal.exporter import _registration

from ashore.backends import torchlib
from ashore.backends.torchlib import kept_translations

REGISTRY = _registration.ONNXRegistry


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchlib, "_tables", {})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The opsets that torch made a table for."""
    opsets: list[int] = []
    original = vars(REGISTRY)["from_torchlib"]

    def noted(cls: Any, opset_version: int = 18) -> Any:
        opsets.append(opset_version)
        return original.__get__(None, cls)(opset_version=opset_version)

    monkeypatch.setattr(REGISTRY, "from_torchlib", classmethod(noted))
    return opsets


def test_a_table_is_made_once_for_each_opset(made: list[int]) -> None:
    for _ in range(2):
        with kept_translations():
            for opset in (18, 20, 18):
                assert REGISTRY().from_torchlib(opset_version=opset).opset_version == opset
    assert made == [18, 20]


def test_what_is_kept_is_what_torch_makes() -> None:
    plain = REGISTRY.from_torchlib(opset_version=18)
    with kept_translations():
        REGISTRY.from_torchlib(opset_version=18)
        kept = REGISTRY.from_torchlib(opset_version=18)
    assert kept.functions.keys() == plain.functions.keys()
    for target, translations in plain.functions.items():
        assert [one.onnx_function.__name__ for one in kept.functions[target]] == [
            one.onnx_function.__name__ for one in translations
        ]


def test_whoever_changes_a_table_changes_that_one_alone() -> None:
    with kept_translations():
        changed = REGISTRY.from_torchlib(opset_version=18)
        changed.register_op(torch.ops.aten.add.Tensor, lambda x, y: x, is_complex=False)
        changed.functions.pop("aten::mul.Tensor")
        again = REGISTRY.from_torchlib(opset_version=18)
    assert "aten::mul.Tensor" in again.functions
    assert len(again.functions["aten::add.Tensor"]) < len(changed.functions["aten::add.Tensor"])


def test_torch_is_as_it_was_afterwards_also_if_the_export_fails() -> None:
    before = vars(REGISTRY)["from_torchlib"]
    with pytest.raises(ValueError, match="on purpose"), kept_translations():
        raise ValueError("on purpose")
    assert vars(REGISTRY)["from_torchlib"] is before


@pytest.mark.parametrize("module", [None, object()])
def test_a_torch_without_such_a_table_exports_as_ever(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    monkeypatch.setattr(torchlib, "_registration", module)
    with kept_translations():
        assert REGISTRY.from_torchlib(opset_version=18).opset_version == 18
