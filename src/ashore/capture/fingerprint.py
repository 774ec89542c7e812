"""Says in bytes what a stage computes, so that two stages which compute the same are exported once.

A stage is recorded operations on numbered values, and constants. The numbers are those of one recording:

    x is %7, and gain a constant, %3              x is %2, and gain a constant, %9
    %8 = aten.mul.Tensor(%7, %3)   walk.py:12     %5 = aten.mul.Tensor(%2, %9)   walk.py:12
    y is %8                                       y is %5

Both say the same once values are counted in the order in which they first appear, and the constants are equal:

    0 = input; 1 = constant float32 (1, 4) f00dfeed…; 2 = aten.mul.Tensor(0, 1) at walk.py:12; output 2

The line is a part of it, because it is written into the file. So is everything else that decides what an exporter
writes about the stage itself; opset, versions and the like are added by `ashore.backends.export_cache`.

Nothing is guessed: a stage with an operation that is not torch's own, or with an argument that is not listed here, has
no fingerprint, and is exported every time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_unflatten

from ashore.capture.operations import Op, Ref
from ashore.capture.program import Rows

TORCH_NAMESPACES = ("aten",)
"""What torch's own operations are in: their meaning is settled by its version."""

_PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
"""Arguments whose `repr` says all there is to say about them."""


class _UnknownError(Exception):
    """Something of which nobody can say in bytes what it does."""


class _Account:
    """A digest that grows part by part, with numbers for values in the order in which they appear."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._numbers: dict[int, int] = {}

    def add(self, *parts: object) -> None:
        self._digest.update(f"{parts!r}\n".encode())

    def number(self, value: int) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def fingerprint(
    ops: Sequence[Op],
    inputs: Sequence[int],
    constants: Sequence[tuple[int, torch.Tensor]],
    outputs: Sequence[int],
    *,
    copied: Iterable[int] = (),
    rows: object = None,
) -> str | None:
    """A digest of what a stage computes, or None if that cannot be said.

    Args:
        ops: its operations.
        inputs: the values that it takes.
        constants: the further values that it starts with, and what they are.
        outputs: the values that it gives.
        copied: values that are copied before anything is done, since operations write into them.
        rows: what is known about the axis of the batch.
    """
    account = _Account()
    try:
        account.add("inputs", [account.number(value) for value in inputs])
        memories: dict[int, int] = {}
        for value, tensor in constants:
            content = _content(tensor)
            memory = memories.setdefault(tensor.untyped_storage().data_ptr(), len(memories))
            account.add("constant", account.number(value), memory, tensor.storage_offset(), *content)
        account.add("copied", sorted(account.number(value) for value in copied), "rows", rows)
        for op in ops:
            arguments = _argument(tree_unflatten(op.leaves, op.structure), account)
            results = [None if value is None else account.number(value) for value in op.results]
            account.add(_name(op.target), arguments, results, str(op.line))
        account.add("outputs", [account.number(value) for value in outputs])
    except _UnknownError:
        return None
    return account.hexdigest()


def _name(target: object) -> str:
    if not isinstance(target, OpOverload) or target.namespace not in TORCH_NAMESPACES:
        raise _UnknownError
    defined_in_python = getattr(torch.library, "_defs", None)  # anybody may define further ones, even there
    schema = getattr(target, "_schema", None)
    if defined_in_python is None or schema is None or schema.name in defined_in_python:
        raise _UnknownError
    return str(target)


def _argument(value: Any, account: _Account) -> object:
    """An argument, its values numbered anew. `Ref`s and `Rows` get a type of their own, as no number has it."""
    kind = type(value)
    if kind is Ref:
        return "value", account.number(value.slot)
    if kind is Rows:
        return "rows", value.times
    if kind in (tuple, list):
        return kind.__name__, [_argument(item, account) for item in value]
    if kind is dict and all(type(name) is str for name in value):
        return "dict", [(name, _argument(item, account)) for name, item in value.items()]
    if kind in _PLAIN:
        return "plain", value
    raise _UnknownError


def _content(tensor: torch.Tensor) -> tuple[object, ...]:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        raise _UnknownError
    if tensor.is_quantized or tensor.is_nested or tensor.device.type == "meta":
        raise _UnknownError
    flags = (tensor.requires_grad, tensor.is_conj(), tensor.is_neg())
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    numbers = plain.flatten().view(torch.uint8).numpy()
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    return str(tensor.dtype), str(tensor.device), shape, strides, flags, hashlib.sha256(numbers.data).hexdigest()
