"""The door for code that marks tensors where they are: ``start``, ``annotate.…``, ``stop``, ``compile_graph``.

It answers the public surface of LEAPP, so that scripts written for it run with only their imports changed. A node is
what happens between its inputs and its outputs. A step ends where a node is entered again.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

from ashore.capture.contract import PortInfo
from ashore.capture.export import export
from ashore.capture.nesting import each
from ashore.capture.options import ExportOptions, check_name
from ashore.capture.returns import return_names
from ashore.capture.semantics import GraphConfigs, TensorSemantics
from ashore.capture.session import Session
from ashore.errors import ExportError, InputError, OrderError, suggestion
from ashore.spec import Timing

_P = ParamSpec("_P")
_R = TypeVar("_R")
_BACKEND_PARAMS = {"opset_version": "opset", "opset": "opset", "ir_version": "ir_version"}


class Door:
    """One session between `start` and the next `start`."""

    def __init__(self, out: Path, *, dry_run: bool, verbose: bool) -> None:
        self.out, self.dry_run, self.verbose = out, dry_run, verbose
        self.session = Session()
        self.session.start()
        self.recording = True
        self.entered: list[str] = []
        """Nodes that are open, the innermost last."""

        self.finished: set[str] = set()
        """Nodes that gave their outputs in this step."""

    def enter(self, node: str, ports: Mapping[str, Any]) -> None:
        """Go into a node; a new step begins if it was finished, or if it takes the same input again."""
        again = any((node, port) in self.session.declared_inputs for port in ports)
        if not self.session.open or node in self.finished or again:
            self.session.begin_step()
            self.entered, self.finished = [], set()
        if node not in self.entered:
            self.entered.append(node)
        self.session.enter_node(node)

    def leave(self, node: str) -> None:
        """Go out of a node."""
        self.entered.remove(node)
        self.finished.add(node)
        if node not in self.session.nodes:
            self.session.nodes.append(node)
        self.session.enter_node(self.entered[-1] if self.entered else None)

    @property
    def complete(self) -> bool:
        """Whether all nodes have given their outputs in the step that is open."""
        return not self.entered and self.finished == set(self.session.nodes)

    def require(self, node: str, call: str) -> None:
        """Refuse a call for a node that is not open."""
        if node in self.finished and node not in self.entered:
            raise OrderError(
                f"annotate.{call}: node {node!r} has given its outputs in this step already; call it once a decision, "
                "not in what is done several times in between"
            )
        if node not in self.entered:
            hint = suggestion(node, self.entered)
            raise OrderError(f"annotate.{call}: node {node!r} is not open; call input_tensors for it first{hint}")

    def close(self) -> None:
        """Stop listening."""
        if self.recording:
            self.recording = False
            self.session.stop()


_door: Door | None = None


def start(
    name: str,
    save_path: str | Path = ".",
    verbose: bool = False,
    dry_run: bool = False,
    non_traced: Sequence[str] | None = None,
    max_cached_io: int = 5,  # noqa: ARG001 - every step is kept
    global_patching: bool = True,  # noqa: ARG001 - nothing is ever patched
    patching: object = None,  # noqa: ARG001
) -> None:
    """Begin to record. The package will lie at ``save_path/name``.

    Args:
        name: of the package; folders before the last slash are added to `save_path`.
        save_path: the folder to put it in.
        verbose: print what was found while compiling.
        dry_run: find out what the code does, but write nothing.
        non_traced: must be empty: a package that leaves nodes out could not run.
        max_cached_io: accepted for scripts that pass it; every step is kept.
        global_patching: accepted likewise; nothing is ever patched.
        patching: accepted likewise.
    """
    global _door
    if not isinstance(name, str):
        raise InputError(f"start: expected a name, got {name!r}")
    check_name(Path(name).name)
    if non_traced:
        raise InputError(f"start: a package cannot leave out the nodes {sorted(non_traced)}; do not annotate them")
    if _door is not None and _door.recording:
        warnings.warn("start: the session that was open is discarded", stacklevel=2)
        _door.close()
    _door = Door(Path(save_path) / Path(name).expanduser(), dry_run=dry_run, verbose=verbose)


def stop() -> None:
    """Stop recording. `compile_graph` makes the package."""
    if _door is None or not _door.recording:
        raise OrderError("stop: nothing is being recorded; call start first")
    _door.close()


def compile_graph(
    visualize: bool = True,
    verbose: bool | None = None,
    validate: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    strict: bool = True,
    graph_configs: GraphConfigs | None = None,
    **options: Any,
) -> dict[str, bool]:
    """Make the package of what was recorded.

    Args:
        visualize: draw ``graph.svg`` and ``graph.png``.
        verbose: print what was found; by default as `start` said.
        validate: check the saved files against the recording, and on fresh inputs against the code.
        rtol: relative tolerance of that check.
        atol: absolute tolerance of that check.
        strict: raise where the package would not be exact; otherwise warn, and say so in what is returned.
        graph_configs: the frequency, and anything else to keep.
        options: see `ashore.capture.export.ExportOptions`.

    Returns:
        Node -> whether it was exported, and checked unless `validate` is off.
    """
    door = _door
    if door is None or not door.session.steps:
        raise OrderError("compile_graph: nothing was recorded; call start, run annotated code, and stop")
    if door.recording:
        raise OrderError("compile_graph: still recording; call stop first")
    configs = graph_configs or GraphConfigs()
    if not isinstance(configs, GraphConfigs):
        raise InputError(f"compile_graph: expected GraphConfigs, got {type(configs).__name__}")
    given: dict[str, Any] = {"atol": atol, "rtol": rtol, "picture": visualize, "feedback": True}
    if configs.frequency is not None:
        given["timing"] = Timing(policy_dt_s=1.0 / configs.frequency)
    if configs.extra:
        given["metadata"] = dict(configs.extra)
    if not validate:
        given["validation_steps"] = 0
    given["verbose"] = door.verbose if verbose is None else verbose
    settings = ExportOptions.of(given | options)
    nodes = door.session.nodes
    try:
        export(door.session, door.out.name, None if door.dry_run else door.out, settings)
    except ExportError as error:
        if strict:
            raise
        warnings.warn(f"compile_graph: nothing was written: {error}", stacklevel=2)
        return dict.fromkeys(nodes, False)
    return dict.fromkeys(nodes, True)


class _Annotate:
    """Marks tensors of the running code. Outside a session, everything passes through."""

    def input_tensors(self, node: str, tensors: Any) -> Any:
        """Declare inputs of a node, which is open from here on. Gives the tensors back, one alone or a tuple."""
        named = _named("input_tensors", tensors)
        door = recording()
        if door is None:
            return _handed_back(value for value, _ in named.values())
        _check_node(node)
        door.enter(node, _flat_names(named))
        made: list[Any] = []
        for name, (value, info) in named.items():
            declare = functools.partial(_declare_input, door.session, node, info)
            made.append(each(name, value, declare))
        return _handed_back(made)

    def output_tensors(
        self,
        node: str,
        tensors: Any,
        static_outputs: Any = None,
        export_with: str | None = None,
        backend_params: Mapping[str, Any] | None = None,
    ) -> Any:
        """Declare the outputs of a node, which ends it.

        Args:
            node: its name.
            tensors: name -> tensor, or `TensorSemantics`.
            static_outputs: outputs that are meant to be constant, such as gains.
            export_with: the exporter for this node.
            backend_params: ``opset_version`` and ``ir_version``.
        """
        named = _named("output_tensors", tensors)
        static = _named("output_tensors", static_outputs) if static_outputs is not None else {}
        door = recording()
        if door is None:
            return _handed_back(value for value, _ in named.values())
        door.require(node, "output_tensors")
        if export_with is not None:
            door.session.choose_backend(node, export_with)
        for key, value in (backend_params or {}).items():
            if key not in _BACKEND_PARAMS:
                raise InputError(
                    f"output_tensors: unknown backend parameter {key!r}; there are {sorted(_BACKEND_PARAMS)}"
                )
            door.session.targets.setdefault(node, {})[_BACKEND_PARAMS[key]] = value
        for name, (value, info) in (named | static).items():
            each(name, value, functools.partial(_declare_output, door.session, node, info, name in static))
        door.leave(node)
        return _handed_back(value for value, _ in named.values())

    def state_tensors(self, node: str, tensors: Any) -> Any:
        """Declare states of an open node, as they are when the step begins with them."""
        named = _named("state_tensors", tensors)
        door = recording()
        if door is not None:
            door.require(node, "state_tensors")
            for name, (value, info) in named.items():
                door.session.declare_state((node, name), value, info)
        return _handed_back(value for value, _ in named.values())

    def update_state(self, node: str, tensors: Any) -> Any:
        """Say what declared states become."""
        named = _named("update_state", tensors)
        door = recording()
        if door is not None:
            door.require(node, "update_state")
            for name, (value, _) in named.items():
                door.session.update_state((node, name), value)
        return _handed_back(value for value, _ in named.values())

    def register_buffer(self, node: str, tensors: Any) -> Any:
        """Name tensors that a node keeps. Whether they are constants or states is found by what happens to them."""
        if isinstance(tensors, torch.Tensor):
            named = {"buffer_0": tensors}
        elif isinstance(tensors, Mapping):
            named = dict(tensors)
        else:
            named = {f"buffer_{index}": tensor for index, tensor in enumerate(tensors)}
        door = recording()
        if door is not None:
            door.require(node, "register_buffer")
            for name, tensor in named.items():
                door.session.name_tensor(name, tensor)
        return _handed_back(named.values())

    def module(self, node: str, model: torch.nn.Module, buffer_names: Sequence[str] | None = None) -> None:
        """Name the buffers of a module. They need not be: states in them are found by what happens to them."""
        known = dict(model.named_buffers())
        for name in buffer_names or ():
            if name not in known:
                raise InputError(f"annotate.module: there is no buffer {name!r}{suggestion(name, known)}")
        door = recording()
        if door is not None:
            door.require(node, "module")
            for name in known if buffer_names is None else buffer_names:
                door.session.name_tensor(name, known[name])

    def method(
        self,
        node_name: str | None = None,
        export_with: str | None = None,
        backend_params: Mapping[str, Any] | None = None,
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """A decorator: a function is a node, its tensor arguments are the inputs, what it returns the outputs."""

        def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
            node, signature = node_name or function.__name__, inspect.signature(function)
            names = return_names(function)

            @functools.wraps(function)
            def annotated(*args: _P.args, **kwargs: _P.kwargs) -> _R:
                if recording() is None:
                    return function(*args, **kwargs)
                bound = signature.bind(*args, **kwargs)
                self._take_arguments(node, signature, bound)
                result = function(*bound.args, **bound.kwargs)
                self.output_tensors(node, names(result), export_with=export_with, backend_params=backend_params or {})
                return result

            return annotated

        return decorate

    def _take_arguments(self, node: str, signature: inspect.Signature, bound: inspect.BoundArguments) -> None:
        """Declare the tensors among the arguments of a call."""
        given: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given |= {f"arg_{index}": item for index, item in enumerate(value) if _holds_tensors(item)}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                given |= {key: item for key, item in value.items() if _holds_tensors(item)}
            elif _holds_tensors(value):
                given[name] = value
        if not given:
            raise InputError(f"annotate.method: {node} was called without a tensor; a node needs an input")
        self.input_tensors(node, given)

    def reset(self) -> None:
        """Mark that an episode ends. Call it before your code resets itself."""
        door = recording()
        if door is not None:
            door.session.mark_reset()
            door.entered, door.finished = [], set()


annotate = _Annotate()


def recording() -> Door | None:
    """The session that is open, if there is one."""
    return _door if _door is not None and _door.recording else None


def _declare_input(session: Session, node: str, info: PortInfo, port: str, tensor: Any) -> torch.Tensor:
    return session.declare_input((node, port), tensor, info, join=True)


def _declare_output(session: Session, node: str, info: PortInfo, static: bool, port: str, tensor: Any) -> torch.Tensor:
    return session.declare_output((node, port), tensor, info, static=static)


def _named(call: str, tensors: Any) -> dict[str, tuple[Any, PortInfo]]:
    """Name -> (tensor or structure of tensors, what is said about it)."""
    if isinstance(tensors, TensorSemantics):
        tensors = [tensors]
    if isinstance(tensors, Mapping):
        return {str(name): (value, PortInfo()) for name, value in tensors.items()}
    if not isinstance(tensors, list | tuple) or not all(isinstance(one, TensorSemantics) for one in tensors):
        raise InputError(
            f"annotate.{call}: expected a dict of tensors, or TensorSemantics, got {type(tensors).__name__}"
        )
    named = {one.name: (one.ref, one.info()) for one in tensors}
    if len(named) != len(tensors):
        raise InputError(
            f"annotate.{call}: two TensorSemantics have the same name among {[one.name for one in tensors]}"
        )
    return named


def _flat_names(named: Mapping[str, tuple[Any, PortInfo]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (value, _) in named.items():
        each(name, value, lambda port, tensor: found.setdefault(port, tensor))
    return found


def _handed_back(values: Iterator[Any] | Sequence[Any] | Any) -> Any:
    made = tuple(values)
    return made[0] if len(made) == 1 else made


def _check_node(node: object) -> None:
    if not isinstance(node, str) or not node.strip():
        raise InputError(f"annotate.input_tensors: expected the name of a node, got {node!r}")


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(map(_holds_tensors, value.values()))
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_holds_tensors, value))
    return isinstance(value, torch.Tensor)
