"""The contract as tables: what goes in, what comes out, the joints, the states, the stages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from ashore.package import Array
from ashore.spec import RATES, Endpoint, Manifest, Port, Wiring
from ashore.view import words
from ashore.view.html import Child, Markup, Section, badge, code, join, note, table, tag
from ashore.view.page.details import id_of
from ashore.view.page.ranges import Observed

_FEW = 6
"""So many initial values are shown one by one."""


def contract(manifest: Manifest, observed: Mapping[Endpoint, Observed], initial: Mapping[str, Array]) -> Section:
    """Inputs, outputs and states."""
    parts = [
        _ports(manifest, "inputs", manifest.inputs, observed),
        _ports(manifest, "outputs", manifest.outputs, observed),
        _states(manifest, observed, initial),
    ]
    seen = "“observed” is the range in the recording." if observed else "There is no recording, so no ranges."
    return Section("contract", "Contract", parts, note=f"What a robot has to bring, and what it gets. {seen}")


def joints(manifest: Manifest) -> Section:
    """The joints with their default pose, gains and limits."""
    if not manifest.joints:
        return Section("joints", "Joints", note("The package names no joints."))
    columns = ("name", ">#", "type", ">default", ">kp", ">kd", ">effort", ">velocity", ">lower", ">upper", "actuator")
    rows = [
        (
            joint.name,
            str(index),
            joint.type,
            *map(_number, (joint.default_position, joint.kp, joint.kd, joint.effort_limit, joint.velocity_limit)),
            _number(joint.position_limits.lower) if joint.position_limits else None,
            _number(joint.position_limits.upper) if joint.position_limits else None,
            joint.actuator,
        )
        for index, joint in enumerate(manifest.joints)
    ]
    said = "Effort and velocity are limits. Revolute joints are in rad and N m, prismatic ones in m and N."
    return Section("joints", "Joints", _filled("Joints", columns, rows, captioned=False), note=said)


def stages(manifest: Manifest) -> Section:
    """What computes what, how often, and which wire leads where."""
    rows: list[tuple[Markup | str | None, ...]] = []
    for name, stage in manifest.stages.items():
        rate, shown = words.rate(stage, manifest), _button(name, f"stage:{name}")
        rows += [
            (shown, rate, part.type, code(json.dumps(part.params, ensure_ascii=False)), None, None)
            for part in (stage.processor, stage.runner)
            if part is not None
        ]
        for backend, artifact in stage.artifacts.items():
            entry = manifest.files.get(artifact.path)
            size = f"{entry.size:,}" if entry else None
            rows.append(
                (shown, rate, backend, code(artifact.path), size, str(artifact.opset) if artifact.opset else None)
            )
    columns = ("name", "!rate", "runs on", "file or parameters", ">bytes", ">opset")
    said = f"The package is run as {manifest.runner.type}."
    return Section("stages", "Stages", _filled("Stages", columns, rows, captioned=False), note=said)


def _ports(manifest: Manifest, group: str, ports: Mapping[str, Port], observed: Mapping[Endpoint, Observed]) -> Markup:
    graph = Wiring(manifest)
    names = graph.inputs_of if group == "inputs" else graph.outputs_of
    is_input = group == "inputs"
    columns = [
        "name",
        "kind",
        "!array",
        "unit",
        "frame",
        *(["source"] if is_input else []),
        "rate",
        "elements",
        "limits",
    ]
    rows = [
        (
            _name(Endpoint(group, name), port.description),
            port.kind,
            words.array(port),
            words.unit(port),
            port.frame,
            *([_source(port)] if is_input else []),
            " ".join(rate for rate in RATES if name in names(rate)),
            words.elements(port),
            words.limits(port.limits) if port.limits else None,
            _seen(observed, Endpoint(group, name)),
        )
        for name, port in ports.items()
    ]
    return _filled(group.capitalize(), [*columns, ">observed"], rows)


def _states(manifest: Manifest, observed: Mapping[Endpoint, Observed], initial: Mapping[str, Array]) -> Markup:
    if not manifest.states:
        return note("The package keeps no state: each decision depends on its inputs alone.")
    columns = ("name", "role", "!array", "on a reset", ">initial value", ">observed")
    rows = [
        (
            _name(Endpoint("states", name), state.description),
            state.role.replace("_", " "),
            words.array(state),
            {"initial": "initial value", "keep": "kept"}[state.reset],
            _values(initial[name]),
            _seen(observed, Endpoint("states", name)),
        )
        for name, state in manifest.states.items()
    ]
    return _filled("States", columns, rows)


def _filled(title: str, columns: Sequence[str], rows: Sequence[Sequence[Child]], *, captioned: bool = True) -> Markup:
    """A table without the columns in which nothing stands."""
    kept = [place for place in range(len(columns)) if not rows or any(row[place] is not None for row in rows)]
    picked = [[row[place] for place in kept] for row in rows]
    return table(title, [columns[place] for place in kept], picked, captioned=captioned)


def _number(value: float | None) -> str | None:
    return None if value is None else words.number(value)


def _name(end: Endpoint, description: str | None) -> Markup:
    button = _button(end.name, id_of(end))
    return join(button, tag("div", description, class_="small")) if description else button


def _button(text: str, id_: str) -> Markup:
    """A name that shows what is known of it, and where it is in the picture."""
    return tag("button", text, type="button", class_="link", data_show=id_)


def _source(port: Port) -> Markup | str | None:
    return badge("privileged", "bad") if port.source == "privileged" else port.source


def _seen(observed: Mapping[Endpoint, Observed], end: Endpoint) -> str | None:
    return observed[end].whole() if end in observed else None


def _values(values: Array) -> str:
    if values.size <= _FEW:
        return " ".join(words.number(value) for value in values.ravel().tolist())
    return words.span(words.number(float(np.min(values))), words.number(float(np.max(values))))
