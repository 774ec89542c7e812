"""Hearing every tensor operation, without changing any.

A dispatch mode hears operations below autograd, below modules, and inside scripted functions. A function mode above it
keeps a few composite operations whole, so that they become single nodes of a graph, and notices values that leave for
Python by ways that are no operations. Both are ordinary context managers of torch: nothing is patched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
import torch.export._trace  # else the first session would wait for its import, of a second and more
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from torch._ops import HigherOrderOperator
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from ashore.capture.lines import called_by_user, inside, user_frames, user_line
from ashore.capture.operations import Target
from ashore.capture.statements import is_assertion, is_declaration, is_logged, is_shown, is_tried
from ashore.capture.tape import Leak, Tape
from ashore.capture.tensors import memory_of

aten = torch.ops.aten

_LEAKING_OPS = {
    aten._local_scalar_dense.default: "item()",
    aten.equal.default: "torch.equal()",
    aten.allclose.default: "torch.allclose()",
    aten.is_nonzero.default: "bool()",
}
_LEAKING_METHODS: Mapping[str, str] = {
    "tolist": "tolist()",
    "numpy": "numpy()",
    "__array__": "numpy",
    "__dlpack__": "dlpack",
    "data_ptr": "data_ptr()",
    "__bool__": "a branch on a tensor",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "an index",
    "item": "item()",
    "__contains__": "in",
}
_STORAGE = frozenset({"untyped_storage", "storage", "_typed_storage"})
"""Ways to the memory of a tensor, which torch itself uses too."""

_PRINTING = frozenset({"__repr__", "__str__", "__format__"})
_FROM_NUMBERS = frozenset({"from_numpy", "frombuffer", "as_tensor", "asarray"})
"""Functions that make a tensor of numbers without an operation that could be heard."""

_MAKING = frozenset({"tensor", "as_tensor", "asarray", "new_tensor", "new"})
"""Functions that read the values of tensors in a list."""

_CHECKS = "distributions"
"""The folder of torch whose checks of arguments read values, and decide nothing but whether to raise."""


class Listener:
    """Listens while it is entered, and writes what it hears on the tape it was given last."""

    def __init__(self) -> None:
        self.tape: Tape | None = None
        """Where to write; None is not to listen."""

        self.touched: dict[int, torch.Tensor] = {}
        """Memory -> a tensor in it, for what was written to while nothing was written down, outside of resets."""

        self.resetting = True
        self._quiet = 0
        self._stack = ExitStack()

    def __enter__(self) -> Listener:
        """Start to hear. Compiled code runs as it was written while this lasts."""
        self._stack.enter_context(torch.compiler.set_stance("force_eager"))
        self._stack.enter_context(_without_fused_layers())
        self._stack.enter_context(_Operations(self))
        self._stack.enter_context(_Functions(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Do not listen to what is done here."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    @property
    def listening(self) -> bool:
        """Whether operations are being written down."""
        return self.tape is not None and self._quiet == 0

    @property
    def outside(self) -> bool:
        """Whether the code is between two steps of an episode."""
        return self.tape is None and self._quiet == 0 and not self.resetting

    def leak(self, tensor: torch.Tensor, how: str) -> None:
        """Write down that a value left for Python."""
        tape = self.tape
        line = user_line()
        if tape is None or is_shown(line) or is_declaration(line):
            return
        if (is_assertion(line) or inside(_CHECKS)) and not is_tried(user_frames(tape.begun, tape.begun_at)):
            return
        tape.leaks.append(Leak(tape.use(tensor), how, len(tape.ops), line, len(tape.outputs)))


class _Operations(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, listener = kwargs or {}, self._listener
        tape = listener.tape
        if tape is None or not listener.listening:
            if listener.outside and not isinstance(func, HigherOrderOperator):
                listener.touched |= {memory_of(tensor): tensor for tensor in _written(func, args, kwargs)}
            return func(*args, **kwargs)
        if isinstance(func, HigherOrderOperator):
            tensors = [leaf for leaf in tree_flatten(args)[0] if isinstance(leaf, torch.Tensor)]
            if tensors:
                listener.leak(tensors[0], f"torch.{func.name()}()")
            return func(*args, **kwargs)
        if func in _LEAKING_OPS:
            listener.leak(args[0], _LEAKING_OPS[func])
            return func(*args, **kwargs)
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        if any(map(is_lazy, given)):
            return func(*args, **kwargs)  # a parameter that has no shape yet
        if any(leaf.layout is not torch.strided or leaf.is_quantized or leaf.is_nested for leaf in given):
            tape.odd.append((str(func), user_line()))
            return func(*args, **kwargs)
        if func._schema.name.startswith("aten::_foreach_"):
            return _record_each(tape, func, args, kwargs)
        plain = _plainly(func, args, kwargs)
        if plain is not None:
            expected = tape.expect(*plain)
        else:
            created = func is aten.lift_fresh.default
            expected = tape.expect(func, args, kwargs, _written(func, args, kwargs), created=created)
        result = func(*args, **kwargs)
        tape.record(expected, result if plain is None else result[0])
        return result


class _Functions(TorchFunctionMode):
    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, listener = kwargs or {}, self._listener
        if not listener.listening:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _PRINTING:
            with listener.quiet():
                if not is_logged(user_line()):
                    listener.leak(args[0], "formatting")
                return func(*args, **kwargs)
        if name in _MAKING:
            data = [value for value in (*args, *kwargs.values()) if isinstance(value, list | tuple)]
            for leaf in tree_flatten(data)[0]:
                if isinstance(leaf, torch.Tensor):
                    with listener.quiet():
                        listener.leak(leaf, f"torch.{name}()")
        if name == "__deepcopy__":
            return self._whole(aten.clone.default, args[:1], {}, lambda: func(*args, **kwargs))
        if name in _STORAGE and called_by_user():
            with listener.quiet():
                listener.leak(args[0], f"{name}()")
        if name in _FROM_NUMBERS and not any(
            isinstance(leaf, torch.Tensor) for leaf in tree_flatten((args, kwargs))[0]
        ):
            result = func(*args, **kwargs)
            with listener.quiet():
                cast("Tape", listener.tape).use(result, created=True)
            return result
        if name in _LEAKING_METHODS and args and isinstance(args[0], torch.Tensor):
            with listener.quiet():
                listener.leak(args[0], _LEAKING_METHODS[name])
                return func(*args, **kwargs)
        whole = _composite(func, args, kwargs)
        if whole is not None:
            return self._whole(*whole, lambda: func(*args, **kwargs))
        if name in ("__getitem__", "__setitem__") and _has_scalar_index(args[1]):
            return _by_index(name, args)
        return func(*args, **kwargs)

    def _whole(self, target: Target, args: Any, kwargs: Any, run: Callable[[], Any]) -> Any:
        """Run a composite operation as one."""
        listener, tape = self._listener, cast("Tape", self._listener.tape)
        with listener.quiet():
            expected = tape.expect(target, args, kwargs)
            result = run()
            tape.record(expected, result)
        return result


_RECURRENT = {torch.lstm: aten.lstm.input, torch.gru: aten.gru.input}
"""Functions that would fall apart into dozens of operations."""


@contextmanager
def _without_fused_layers() -> Iterator[None]:
    """Have layers run as the operations they are made of, not as kernels of one processor; exact to rounding."""
    fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.set_flags(False)[0]
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.backends.mkldnn.set_flags(mkldnn)


def _composite(func: Any, args: Any, kwargs: Any) -> tuple[Target, tuple[Any, ...], dict[str, Any]] | None:
    """The single operation that a call should be kept as, with its arguments, or None."""
    if not isinstance(func, Hashable) or any(map(_is_wrapped, (*args, *kwargs.values()))) or _in_autocast():
        return None
    target = _RECURRENT.get(func)
    if target is not None and isinstance(args[3], bool) and not _is_projected(args[1]):  # else a packed sequence
        return target, args, kwargs
    if func is functional.linear:
        return aten.linear.default, args, kwargs
    dropout = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
    if func is functional.scaled_dot_product_attention and dropout == 0.0 and len(args) > 2 and args[0].dim() == 4:
        return aten.scaled_dot_product_attention.default, args, kwargs
    if func is functional.one_hot and (count := kwargs.get("num_classes", args[1] if len(args) > 1 else -1)) > 0:
        return aten.one_hot.default, (args[0], count), {}  # its check of the indices decides only whether to raise
    if func in (functional.dropout, functional.instance_norm):
        return _layer(func, inspect.signature(cast("Any", func)).bind(*args, **kwargs))
    return None


def _layer(func: Any, bound: inspect.BoundArguments) -> tuple[Target, tuple[Any, ...], dict[str, Any]] | None:
    """A layer that is a function of Python, as the one operation it is, where it is that simple."""
    bound.apply_defaults()
    given = bound.arguments
    if func is functional.dropout and given["training"] and given["p"] > 0.0 and not given["inplace"]:
        return aten.dropout.default, (given["input"], given["p"], True), {}
    if func is functional.instance_norm and given["running_mean"] is None and given["use_input_stats"]:
        head = (given["input"], given["weight"], given["bias"], None, None, True)
        return aten.instance_norm.default, (*head, given["momentum"], given["eps"], False), {}
    return None


def _in_autocast() -> bool:
    """Whether operations convert their arguments, which those that are kept whole would hide."""
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _is_projected(hidden: Any) -> bool:
    """Whether a recurrent layer makes its output smaller than its memory, which ONNX has no word for."""
    return isinstance(hidden, list | tuple) and len(hidden) == 2 and hidden[0].shape[-1] != hidden[1].shape[-1]


def _is_wrapped(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value)


def _plainly(func: Any, args: Any, kwargs: Any) -> tuple[Target, tuple[Any, ...], dict[str, Any]] | None:
    """What an operation of a certain device or in a certain mode is called everywhere; its first result is the same."""
    given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    match func._schema.name.removeprefix("aten::"):
        case "native_layer_norm":
            names = ("input", "normalized_shape", "weight", "bias", "eps")
            return aten.layer_norm.default, tuple(given[name] for name in names), {}
        case "native_group_norm":
            names = ("input", "group", "weight", "bias", "eps")
            return aten.group_norm.default, tuple(given[name] for name in names), {}
        case name if name.startswith("_scaled_dot_product_") and given.get("dropout_p", 0.0) == 0.0:
            mask = given.get("attn_mask", given.get("attn_bias"))
            head = (given["query"], given["key"], given["value"], mask, 0.0, given.get("is_causal", False))
            return aten.scaled_dot_product_attention.default, head, {"scale": given.get("scale")}
    return None


def _written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors among the arguments that an operation writes into."""
    found: list[torch.Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]
    return found


def _record_each(tape: Tape, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation on lists of tensors, and write it down as one operation for each."""
    packet = getattr(aten, func._schema.name.removeprefix("aten::_foreach_"))
    lists = [index for index, value in enumerate(args) if isinstance(value, list | tuple)]
    in_place, expected = func._schema.name.endswith("_"), []
    for number, tensor in enumerate(args[0]):
        each = tuple(value[number] if index in lists else value for index, value in enumerate(args))
        expected.append(tape.expect(packet, each, kwargs, [tensor] if in_place else []))
    result = func(*args, **kwargs)
    for one, made in zip(expected, args[0] if in_place else result, strict=True):
        tape.record(one, made)
    return result


def _has_scalar_index(index: Any) -> bool:
    """Whether an index holds a tensor that stands for one number, which indexing would read."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = all(part is None or part is Ellipsis or type(part) in (int, slice) or _is_number(part) for part in parts)
    return plain and any(isinstance(part, torch.Tensor) and part.dim() == 0 for part in parts)


def _is_number(part: Any) -> bool:
    return isinstance(part, torch.Tensor) and part.dtype in _INTEGERS


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


def _by_index(name: str, args: Any) -> Any:
    """Index with tensors as numbers without reading them: the plain parts first, then the tensors as indices."""
    tensor, index = args[0], args[1] if isinstance(args[1], tuple) else (args[1],)
    missing = tensor.dim() - sum(part is not None and part is not Ellipsis for part in index)
    spread: list[Any] = []
    for part in index:
        spread += [slice(None)] * missing if part is Ellipsis else [part]
    plain = tuple(slice(None) if isinstance(part, torch.Tensor) else part for part in spread)
    view = tensor[plain]
    indices: list[torch.Tensor | None] = []
    for part in spread:
        if isinstance(part, torch.Tensor):
            indices.append(part.to(torch.int64))
        elif not isinstance(part, int):
            indices.append(None)
    if name == "__getitem__":
        return aten.index.Tensor(view, indices)
    value = args[2] if isinstance(args[2], torch.Tensor) else torch.tensor(args[2], dtype=tensor.dtype)
    aten.index_put_.default(view, indices, value.to(tensor.dtype))
    return None
