"""``policy.h``: the contract of a package as structs, constants and declarations that a C++ engineer can read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ashore.backends.c.code import C_TYPES, comment, identifier, number
from ashore.backends.c.graph import prod
from ashore.backends.c.program import Program
from ashore.spec import Joint, Port, State, concrete

_FLOAT64 = np.dtype(np.float64)


def header(program: Program, name: str, arenas: Mapping[str, int]) -> str:
    """The text of ``policy.h``.

    Args:
        program: the package.
        name: what its symbols are called after ``ashore_``.
        arenas: dtype -> elements of scratch.
    """
    manifest, upper = program.manifest, name.upper()
    macro = f"ASHORE_{upper}"
    about = f"{manifest.name}{f' {manifest.version}' if manifest.version else ''}"
    lines = [
        f"/* policy.h: the policy {comment(about)}, compiled from its package by Ashore. Do not edit.",
        " *",
        *([f" * {comment(manifest.description)}", " *"] if manifest.description else []),
        " * Memory: everything that changes is in one struct, which you own. Make it all zeros, then reset it:",
        " *",
        f" *     static ashore_{name} policy;",
        f" *     ashore_{name}_reset(&policy);",
        f" *     if (ashore_{name}_step(&policy, &in, &out) != ASHORE_OK) ... // out and the states are as they were",
        " *",
        " * Nothing is allocated, and nothing is shared between two such structs. Arrays are row-major.",
        " */",
        f"#ifndef {macro}_POLICY_H",
        f"#define {macro}_POLICY_H",
        "",
        '#include "ashore.h"',
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *_constants(program, macro),
    ]
    for rate, title in (("policy", "step"), ("substep", "substep")):
        run = program.rates.get(rate)  # type: ignore[call-overload]
        for side, ports in (("in", run.inputs if run else {}), ("out", run.outputs if run else {})):
            what = "takes" if side == "in" else "gives"
            about = f"What a {title} {what}{'' if ports else ': nothing'}."
            lines += _struct(f"ashore_{name}_{title}_{side}", about, ports, program.fields[f"{rate}.{side}"], program)
    lines += _struct(
        f"ashore_{name}_states", "What lives on between calls.", manifest.states, program.fields["states"], program
    )
    lines += _policy(name, arenas)
    lines += _functions(name, program)
    lines += _checks(name, macro)
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _constants(program: Program, macro: str) -> list[str]:
    manifest, timing = program.manifest, program.manifest.timing
    lines = [f"#define {macro}_BATCH {program.batch}"]
    if timing is not None:
        for field, unit in (("policy_dt_s", "a step"), ("physics_dt_s", "a substep")):
            value = getattr(timing, field)
            if value is not None:
                lines.append(f"#define {macro}_{field.upper()} {number(value, _FLOAT64)} /* seconds: {unit} */")
    lines.append(f"#define {macro}_DECIMATION {timing.decimation if timing else 1} /* substeps per step */")
    lines += ["", "/* Elements of each array. */"]
    groups = (
        ("STEP_IN", "policy.in"),
        ("STEP_OUT", "policy.out"),
        ("SUBSTEP_IN", "substep.in"),
        ("SUBSTEP_OUT", "substep.out"),
    )
    for title, group in (*groups, ("STATE", "states")):
        ports = manifest.states if group == "states" else manifest.inputs if title.endswith("IN") else manifest.outputs
        names: list[str] = []
        for port, field in program.fields[group].items():
            names.append(identifier(field.upper(), names))
            lines.append(f"#define {macro}_{title}_{names[-1]} {prod(concrete(ports[port].shape, program.batch))}")
    lines += ["", f"#define {macro}_JOINTS {len(manifest.joints)}"]
    if manifest.joints:
        lines.append("/* Places in ashore_*_contract.joints, in the order of the package. */")
        taken: list[str] = []
        for index, joint in enumerate(manifest.joints):
            taken.append(identifier(joint.name.upper(), taken))
            lines.append(f"#define {macro}_JOINT_{taken[-1]} {index} /* {comment(_joint(joint))} */")
    return [*lines, ""]


def _joint(joint: Joint) -> str:
    parts = [joint.name]
    for field in ("default_position", "kp", "kd", "effort_limit"):
        value = getattr(joint, field)
        if value is not None:
            parts.append(f"{field} {value:g}")
    return ", ".join(parts)


def _struct(
    name: str, about: str, arrays: Mapping[str, Port] | Mapping[str, State], fields: Mapping[str, str], program: Program
) -> list[str]:
    lines = [f"/* {about} */", "typedef struct {"]
    for array, field in fields.items():
        spec = arrays[array]
        shape = concrete(spec.shape, program.batch)
        lines += [f"    {line}" for line in _about(array, field, spec)]
        lines.append(f"    {C_TYPES[spec.dtype]} {field}[{prod(shape)}]; /* {list(shape)} */")
    if not fields:
        lines.append("    char unused; /* C has no empty structs */")
    return [*lines, f"}} {name};", ""]


def _about(name: str, field: str, spec: Port | State) -> list[str]:
    parts: list[str] = [] if name == field else [f"{name!r}"]
    if isinstance(spec, State):
        parts += [spec.role, *(["kept over a reset"] if spec.reset == "keep" else [])]
    else:
        unit = None if spec.unit is None else spec.unit if isinstance(spec.unit, str) else " ".join(spec.unit)
        facts = (("", spec.kind), ("in ", unit), ("in the frame ", spec.frame), ("from a ", spec.source))
        parts += [f"{before}{value}" for before, value in facts if value]
    if not spec.finite:
        parts.append("may be NaN or infinite")
    if spec.dtype == "bool":
        parts.append("each 0 or 1")
    if spec.description:
        parts.append(spec.description)
    lines = [f"/* {comment('; '.join(parts))} */"] if parts else []
    named = spec.element_names[-1] if isinstance(spec, Port) and spec.element_names else None
    if named:
        lines.append(f"/* {comment(', '.join(named))} */")
    return lines


def _policy(name: str, arenas: Mapping[str, int]) -> list[str]:
    return [
        "/* A running policy. Read what you like; write only `unchecked`. */",
        f"typedef struct ashore_{name} {{",
        f"    ashore_{name}_states states;",
        "    uint32_t made;        /* known to reset: the states hold something */",
        "    int32_t decided;      /* 1 after a step, until the next reset */",
        "    int32_t unchecked;    /* 1: NaN and infinities are not looked for */",
        "    int32_t fault_port;   /* what the last bad input or result was; see ashore.h */",
        "    size_t fault_element;",
        *(f"    {C_TYPES[dtype]} scratch_{dtype}[{count}];" for dtype, count in sorted(arenas.items())),
        f"}} ashore_{name};",
        "",
    ]


def _functions(name: str, program: Program) -> list[str]:
    lines = [
        "#if defined(__GNUC__)",
        "#pragma GCC visibility push(default)",
        "#endif",
        "/* Start an episode. */",
        f"void ashore_{name}_reset(ashore_{name} *policy);",
        "/* Decide. */",
        (
            f"ashore_status ashore_{name}_step(ashore_{name} *policy, const ashore_{name}_step_in *in, "
            f"ashore_{name}_step_out *out);"
        ),
    ]
    if "substep" in program.rates:
        lines += [
            "/* Act between decisions. */",
            (
                f"ashore_status ashore_{name}_substep(ashore_{name} *policy, const ashore_{name}_substep_in *in, "
                f"ashore_{name}_substep_out *out);"
            ),
        ]
    return [
        *lines,
        "/* The same as tables and functions, for programs that take any policy. */",
        f"extern const ashore_contract ashore_{name}_contract;",
        "#if defined(__GNUC__)",
        "#pragma GCC visibility pop",
        "#endif",
        "",
    ]


def _checks(name: str, macro: str) -> list[str]:
    """A type of negative size where a header and another compiler's idea of a struct would disagree."""
    return [
        "/* This header needs these to hold. */",
        f"typedef char ashore_{name}_check_abi[ASHORE_ABI_VERSION == 1 ? 1 : -1];",
        f"typedef char ashore_{name}_check_float[sizeof(float) == 4 && sizeof(double) == 8 ? 1 : -1];",
        "",
    ]
