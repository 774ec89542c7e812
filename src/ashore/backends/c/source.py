"""``policy.c``: weights, the functions that the kernels call, the kernels, and the tables of the contract."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from ashore.backends.c.code import C_TYPES, comment, functions_for, indent, number, numbers, text
from ashore.backends.c.compiling import Compiled
from ashore.backends.c.graph import prod
from ashore.backends.c.program import Program, RateProgram
from ashore.backends.c.views import View
from ashore.package import Array
from ashore.spec import Joint, Limits, Port, State, concrete

_FLOAT64 = np.dtype(np.float64)
LARGE = 1 << 20
"""Bytes of weights from which on they are a file of their own, which the assembler includes."""

_ALIGNMENT = 64


class Weights:
    """Arrays of constants by name, each once, and pointers to everything else."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: dict[bytes, str] = {}
        self._arrays: dict[str, Array] = {}

    def constant(self, data: Array) -> str:
        """The name of an array of constants."""
        flat = np.asarray(data, order="C").reshape(-1)
        key = hashlib.sha256(f"{flat.dtype}".encode() + flat.tobytes()).digest()
        if key not in self._names:
            self._names[key] = f"k{len(self._names)}"
            self._arrays[self._names[key]] = flat
        return self._names[key]

    @property
    def size(self) -> int:
        """What all of them take, in bytes."""
        return sum(array.nbytes for array in self._arrays.values())

    def at(self, view: View) -> str:
        """A C expression that points to the first element of a view."""
        root = view.root
        if root.data is not None:
            base = self.constant(root.data)
        elif root.home:
            base = root.home
        else:
            return f"(p->scratch_{root.dtype.name} + {root.offset + view.offset})"
        return f"({base} + {view.offset})" if view.offset else base

    def emit(self) -> tuple[list[str], bytes]:
        """Their definitions, and the bytes of the file beside them; none if they are small."""
        if sum(array.nbytes for array in self._arrays.values()) < LARGE:
            return [line for name, array in self._arrays.items() for line in self._definition(name, array)], b""
        lines: list[str] = []
        blob = bytearray()
        inside = f"{self._prefix}_weights"
        for name, array in self._arrays.items():
            if array.nbytes < _ALIGNMENT:
                lines += self._definition(name, array)
                continue
            blob += b"\0" * (-len(blob) % _ALIGNMENT)
            kind = C_TYPES[array.dtype.name]
            lines.append(f"#define {name} ((const {kind} *)(const void *)({inside} + {len(blob)})) /* {array.size} */")
            blob += array.astype(array.dtype.newbyteorder("<")).tobytes()
        head = [
            "/* Large weights are in policy_weights.bin, which policy_weights.S includes; little-endian. */",
            f"extern const unsigned char {inside}[{len(blob)}] ASHORE_HIDDEN;",
        ]
        return [*head, *lines], bytes(blob)

    def _definition(self, name: str, array: Array) -> list[str]:
        kind = C_TYPES[array.dtype.name]
        return [f"static const {kind} {name}[{array.size}] ASHORE_ALIGNED = {{", numbers(array), "};"]


def assembly(name: str) -> str:
    """``policy_weights.S``: the file of weights as a symbol."""
    symbol = f"ashore_{name}_weights"
    return "\n".join(
        [
            "/* The weights of policy.c, from the file beside this one; pass its folder to the assembler with -I. */",
            "#if defined(__APPLE__)",
            "    .const",
            f"    .globl _{symbol}",
            "    .p2align 6",
            f"_{symbol}:",
            '    .incbin "policy_weights.bin"',
            "#else",
            '    .section .rodata.ashore, "a"',
            f"    .globl {symbol}",
            f"    .hidden {symbol}",
            "    .balign 64",
            f"{symbol}:",
            '    .incbin "policy_weights.bin"',
            "#if defined(__linux__) && defined(__ELF__)",
            '    .section .note.GNU-stack, "", %progbits',
            "#endif",
            "#endif",
            "",
        ]
    )


def source(program: Program, compiled: Mapping[str, Compiled], name: str, digest: str) -> tuple[str, bytes, int]:
    """The text of ``policy.c``, the bytes of the weights beside it, and how many bytes all weights take.

    Args:
        program: the package.
        compiled: rate -> its kernels.
        name: what its symbols are called after ``ashore_``.
        digest: of the package.
    """
    weights = Weights(f"ashore_{name}")
    calls: list[str] = []
    for rate, run in program.rates.items():
        calls += _call(program, run, compiled[rate], name, weights)
    calls += _states(program, name, weights)
    tables = _contract(program, name, digest)
    functions = functions_for("\n".join(calls))
    arrays, blob = weights.emit()
    lines = [
        f"/* policy.c: the policy {comment(program.manifest.name)}, compiled by Ashore from its package. Do not edit.",
        " */",
        '#include "policy.h"',
        "",
        "#include <math.h>",
        "#include <string.h>",
        "",
        "#if defined(__GNUC__)",
        "#define ASHORE_RESTRICT __restrict__",
        "#define ASHORE_ALIGNED __attribute__((aligned(64)))",
        '#define ASHORE_HIDDEN __attribute__((visibility("hidden")))',
        "#else",
        "#define ASHORE_RESTRICT",
        "#define ASHORE_ALIGNED",
        "#define ASHORE_HIDDEN",
        "#endif",
        f"#define ASHORE_MADE 0x{digest[:8]}u /* in a struct that reset has been called on */",
        "",
        *arrays,
        "",
        functions,
        *calls,
        *tables,
    ]
    return "\n".join(lines) + "\n", blob, weights.size


def _call(program: Program, run: RateProgram, compiled: Compiled, name: str, weights: Weights) -> list[str]:
    """The function of one rate: look at the inputs, run the kernels, look at the results, hand out, keep."""
    prefix, fields = f"ashore_{name}", program.fields
    kernels = [line for kernel in compiled.kernels for line in _block(kernel.label, kernel.emit(weights))]
    looks_up = any("&outside" in line for line in kernels)
    body = [
        *(["if (!p->decided)", "    return ASHORE_NOT_DECIDED;"] if run.rate == "substep" else []),
        *_input_checks(run, fields[f"{run.rate}.in"], program.batch),
        *kernels,
        *(["if (outside)", "    return ASHORE_BAD_INDEX;"] if looks_up else []),
        *_result_checks(program, run, compiled, weights),
    ]
    for output, value in run.given.items():
        field = fields[f"{run.rate}.out"][output]
        body.append(f"memcpy(out->{field}, {weights.at(compiled.view(value))}, sizeof out->{field});")
    for state, value in run.kept.items():
        field = f"p->states.{fields['states'][state]}"
        body.append(f"memcpy({field}, {weights.at(compiled.view(value))}, sizeof {field});")
    if run.rate == "policy":
        body.append("p->decided = 1;")
    body.append("return ASHORE_OK;")
    joined = "\n".join(body)
    unused = [argument for argument in ("in", "out") if f"{argument}->" not in joined]
    body[:0] = [*(["int outside = 0;"] if looks_up else []), *(f"(void){argument};" for argument in unused)]
    verb = run.verb
    return [
        f"static ashore_status {verb}({prefix} *ASHORE_RESTRICT p, const {prefix}_{verb}_in *ASHORE_RESTRICT in,",
        f"{' ' * (len(verb) + 22)}{prefix}_{verb}_out *ASHORE_RESTRICT out)",
        "{",
        *indent(body),
        "}",
        "",
        (f"ashore_status {prefix}_{verb}({prefix} *policy, const {prefix}_{verb}_in *in, {prefix}_{verb}_out *out)"),
        "{",
        f"    return {verb}(policy, in, out);",
        "}",
        "",
    ]


def _block(label: str, lines: Sequence[str]) -> list[str]:
    if len(label) > 100:
        label = f"{label[:97]}..."
    return [f"/* {comment(label)} */", "{", *indent(lines), "}"]


def _input_checks(run: RateProgram, fields: Mapping[str, str], batch: int) -> list[str]:
    lines: list[str] = []
    for index, (name, port) in enumerate(run.inputs.items()):
        if port.finite and port.dtype in ("float32", "float64"):
            count = prod(concrete(port.shape, batch))
            lines += _check(f"in->{fields[name]}", port.dtype, count, index, "ASHORE_BAD_INPUT")
    return ["if (!p->unchecked) {", "    size_t bad;", *indent(lines), "}"] if lines else []


def _check(place: str, dtype: str, count: int, port: int, status: str) -> list[str]:
    return [
        f"bad = native_bad_f{dtype[-2:]}({place}, {count});",
        f"if (bad < {count}) {{",
        f"    p->fault_port = {port};",
        "    p->fault_element = bad;",
        f"    return {status};",
        "}",
    ]


def _result_checks(program: Program, run: RateProgram, compiled: Compiled, weights: Weights) -> list[str]:
    lines: list[str] = []
    outputs, states = list(run.outputs), list(program.manifest.states)
    for end, value in run.checks:
        group, _, name = end.partition("/")
        port = outputs.index(name) if group == "outputs" else len(outputs) + states.index(name)
        place = weights.at(compiled.view(value))
        lines += _check(place, value.dtype.name, value.count, port, "ASHORE_BAD_RESULT")
    return ["if (!p->unchecked) {", "    size_t bad;", *indent(lines), "}"] if lines else []


def _states(program: Program, name: str, weights: Weights) -> list[str]:
    """Reset, and what gets and sets the states."""
    prefix, fields = f"ashore_{name}", program.fields["states"]
    fresh = {"keep": list[str](), "initial": list[str]()}
    for state, spec in program.manifest.states.items():
        field, initial = f"p->states.{fields[state]}", program.initial[state]
        if initial.any() or np.signbit(initial.astype(np.float64)).any():
            line = f"memcpy({field}, {weights.constant(initial)}, sizeof {field});"
        else:
            line = f"memset({field}, 0, sizeof {field});"
        fresh[spec.reset].append(line)
    kept = ["if (p->made != ASHORE_MADE) {", *indent(fresh["keep"]), "}"] if fresh["keep"] else []
    return [
        f"void {prefix}_reset({prefix} *policy)",
        "{",
        f"    {prefix} *const p = policy;",
        *indent([*kept, *fresh["initial"]]),
        "    p->made = ASHORE_MADE;",
        "    p->decided = 0;",
        "}",
        "",
        "static void reset_any(void *policy)",
        "{",
        f"    {prefix}_reset(({prefix} *)policy);",
        "}",
        "",
        *(
            line
            for verb in (run.verb for run in program.rates.values())
            for line in (
                f"static ashore_status {verb}_any(void *policy, const void *in, void *out)",
                "{",
                f"    return {verb}(({prefix} *)policy, (const {prefix}_{verb}_in *)in, ({prefix}_{verb}_out *)out);",
                "}",
                "",
            )
        ),
        "static void get_states(const void *policy, void *states)",
        "{",
        f"    memcpy(states, &((const {prefix} *)policy)->states, sizeof({prefix}_states));",
        "}",
        "",
        "static void set_states(void *policy, const void *states, int decided)",
        "{",
        f"    {prefix} *const p = ({prefix} *)policy;",
        f"    memcpy(&p->states, states, sizeof({prefix}_states));",
        "    p->made = ASHORE_MADE;",
        "    p->decided = decided != 0;",
        "}",
        "",
        "static int decided(const void *policy)",
        "{",
        f"    return ((const {prefix} *)policy)->decided;",
        "}",
        "",
        "static void set_unchecked(void *policy, int unchecked)",
        "{",
        f"    (({prefix} *)policy)->unchecked = unchecked != 0;",
        "}",
        "",
        "static void fault(const void *policy, int *port, size_t *element)",
        "{",
        f"    *port = ((const {prefix} *)policy)->fault_port;",
        f"    *element = ((const {prefix} *)policy)->fault_element;",
        "}",
        "",
    ]


def _contract(program: Program, name: str, digest: str) -> list[str]:
    manifest, prefix = program.manifest, f"ashore_{name}"
    lines: list[str] = []
    tables: list[str] = []
    sides = [
        ("step_in", "policy.in", manifest.inputs),
        ("step_out", "policy.out", manifest.outputs),
        ("substep_in", "substep.in", manifest.inputs),
        ("substep_out", "substep.out", manifest.outputs),
        ("states", "states", manifest.states),
    ]
    for struct, group, arrays in sides:
        fields = program.fields[group]
        rows: list[str] = []
        for index, (array, field) in enumerate(fields.items()):
            extra, row = _port(array, field, arrays[array], f"{struct}_{index}", f"{prefix}_{struct}", program.batch)
            lines += extra
            rows.append(row)
        if rows:
            lines += [f"static const ashore_port {struct}_ports[{len(rows)}] = {{", *indent(rows), "};"]
        tables += [f"{struct}_ports" if rows else "NULL", str(len(rows))]
    if manifest.joints:
        rows = [_joint(joint) for joint in manifest.joints]
        lines += [f"static const ashore_joint joint_table[{len(rows)}] = {{", *indent(rows), "};"]
    tables += ["joint_table" if manifest.joints else "NULL", str(len(manifest.joints))]
    timing = manifest.timing
    times = [
        "NAN" if timing is None or value is None else number(value, _FLOAT64)
        for value in ((timing.policy_dt_s, timing.physics_dt_s) if timing else (None, None))
    ]
    content = [
        "ASHORE_ABI_VERSION",
        text(manifest.name),
        text(manifest.version),
        text(digest),
        str(program.batch),
        *times,
        str(timing.decimation if timing else 1),
        *tables,
        f"sizeof({prefix})",
        "offsetof(policy_alignment, p)",
        *(f"sizeof({prefix}_{struct})" for struct, _, _ in sides),
        "reset_any",
        "step_any",
        "substep_any" if "substep" in program.rates else "NULL",
        "get_states",
        "set_states",
        "decided",
        "set_unchecked",
        "fault",
    ]
    return [
        *lines,
        "",
        "typedef struct {",
        "    char c;",
        f"    {prefix} p;",
        "} policy_alignment;",
        "",
        f"const ashore_contract {prefix}_contract = {{",
        *indent(f"{entry}," for entry in content),
        "};",
    ]


def _port(name: str, field: str, spec: Port | State, place: str, struct: str, batch: int) -> tuple[list[str], str]:
    """What goes before the table, and the row of it."""
    shape = concrete(spec.shape, batch)
    lines: list[str] = []
    pointers = {"names": "NULL", "units": "NULL", "lower": "NULL", "upper": "NULL"}

    def table(kind: str, what: str, entries: Sequence[str]) -> None:
        pointers[what] = f"{place}_{what}"
        lines.append(f"static const {kind} {place}_{what}[{len(entries)}] = {{{', '.join(entries)}}};")

    if isinstance(spec, Port):
        if spec.element_names and spec.element_names[-1]:
            table("char *const", "names", [text(entry) for entry in spec.element_names[-1]])
        if spec.unit is not None and not isinstance(spec.unit, str):
            table("char *const", "units", [text(entry) for entry in spec.unit])
        if spec.limits is not None:
            for side in ("lower", "upper"):
                table("double", side, _limits(spec.limits, side, shape[-1] if shape else 1))
    says = spec if isinstance(spec, Port) else None
    row = [
        text(name),
        text(says.kind if says else None),
        text(says.unit if says and isinstance(says.unit, str) else None),
        text(says.frame if says else None),
        text(says.source if says else None),
        text(says.connection if says else None),
        text(spec.description),
        text(spec.role if isinstance(spec, State) else None),
        f"ASHORE_{spec.dtype.upper()}",
        str(int(spec.finite)),
        str(int(isinstance(spec, State) and spec.reset == "keep")),
        str(len(shape)),
        f"{{{', '.join(map(str, shape)) or '0'}}}",
        str(prod(shape)),
        str(prod(shape) * np.dtype(spec.dtype).itemsize),
        f"offsetof({struct}, {field})",
        *pointers.values(),
    ]
    return lines, f"{{{', '.join(row)}}},"


def _limits(limits: Limits, side: str, count: int) -> list[str]:
    given = getattr(limits, side)
    missing = "-INFINITY" if side == "lower" else "INFINITY"
    entries = given if isinstance(given, tuple) else (given,) * count
    return [missing if entry is None else number(entry, _FLOAT64) for entry in entries]


def _joint(joint: Joint) -> str:
    limits = joint.position_limits
    values = (
        joint.default_position,
        joint.kp,
        joint.kd,
        joint.effort_limit,
        joint.velocity_limit,
        limits.lower if limits else None,
        limits.upper if limits else None,
    )
    shown = ["NAN" if value is None else number(value, _FLOAT64) for value in values]
    return f"{{{', '.join([text(joint.name), text(joint.type), *shown])}}},"
