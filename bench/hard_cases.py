"""What becomes of the cases in tests/capture/cases, by Ashore and by LEAPP, both with torch's dynamo exporter.

A case ends in one of four ways: exact; refused by an error when it is exported; an error when it is run; or wrong, and
nobody says so. Both tools record the same code over the same inputs, with the same resets. Then the saved files are run
by the tool's own runtime beside a fresh instance of the code, with resets, on inputs that were not recorded.

What is done so that LEAPP is not put at a disadvantage:

- It is told every state, with `state_tensors` and `update_state` as its manual asks: what changes in attributes,
  containers, nested objects and modules of the code is found by running the code first. Ashore is told none. How many
  states either knows of is in each row, so that what LEAPP could not be told can be counted apart.
- Code that has no reset is not reset. What is wrong only after a reset is counted apart: LEAPP's puts every state back.
- What it refuses for whatever reason counts as refused, and outputs of another dtype count as exact.
- Every case is a process of its own, forked from one that has imported the tool and exported nothing.

What remains unfair: the cases were written to test Ashore, which was mended until none was wrong. And a case that
Ashore refuses may be exact by LEAPP because the thirty steps do not reach what would be wrong; how many are, is told.

python bench/hard_cases.py [--every 1] [--first 0] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ashore.errors import AshoreError
from capture.cases import registry  # pyright: ignore[reportMissingImports] - of tests/
from capture.cases.registry import EXACT, Code  # pyright: ignore[reportMissingImports] - of tests/
from docs.cases_page import all_cases  # pyright: ignore[reportMissingImports] - of tests/

TOOLS = ("ashore", "leapp")
REFUSED, FAILS, WRONG, DIED = "refused", "fails when run", "silently wrong", "died"
OUTCOMES = (EXACT, REFUSED, FAILS, WRONG, DIED)
PATIENCE_S = 300.0
STEPS, RESETS = 30, (6, 7, 19)
NODE = "policy"

Answer = dict[str, Any]


# --- Ashore -----------------------------------------------------------------------------------------------------------


def by_ashore(made: type[Code], out: Path) -> Answer:
    try:
        path = registry.export(made, out)
    except AshoreError as error:
        return {"outcome": REFUSED, "detail": str(error)[:300], "states": None}
    import ashore

    states = len(ashore.load(path).manifest.states)
    try:
        error = registry.worst_error(made, ashore.load(path), steps=STEPS, resets=RESETS)
    except AshoreError as error:
        return {"outcome": FAILS, "detail": str(error)[:300], "states": states}
    except AssertionError as error:
        return {"outcome": WRONG, "detail": f"shape, dtype or NaN: {error}", "states": states}
    return judged(error, made) | {"states": states}


def judged(error: float, made: type[Code]) -> Answer:
    if error <= made.tolerance:
        return {"outcome": EXACT, "detail": ""}
    return {"outcome": WRONG, "detail": f"by {error:.3g}"}


# --- LEAPP ------------------------------------------------------------------------------------------------------------


def by_leapp(made: type[Code], out: Path) -> Answer:
    told: list[str] = []
    try:
        export_by_leapp(made, out, told)
    except Exception as error:
        return {"outcome": REFUSED, "detail": f"{type(error).__name__}: {error}"[:300], "states": len(told)}
    yaml, resets = out / "case" / "case.yaml", () if made.reset is Code.reset else RESETS
    try:
        answer = judged(error_of_leapp(made, yaml, resets), made)
    except Exception as error:
        answer = {"outcome": FAILS, "detail": f"{type(error).__name__}: {error}"[:300]}
    if answer["outcome"] == WRONG and resets:
        answer["only_after_a_reset"] = error_of_leapp(made, yaml, ()) <= made.tolerance
    return answer | {"states": len(told)}


def export_by_leapp(made: type[Code], out: Path, told: list[str]) -> None:
    """Record a case; the names of the states that LEAPP is told of are added to `told`."""
    import leapp

    states = states_of(made)
    told += sorted(states)
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code = made()
    leapp.start("case", save_path=str(out))
    try:
        for step in range(made.steps):
            if step in made.resets:
                code.reset()
            given = registry.draw(made, generator)
            traced = several(leapp.annotate.input_tensors(NODE, dict(given)))
            if states:
                put_states(code, states, leapp.annotate.state_tensors(NODE, get_states(code, states)))
            outputs = code.step(**dict(zip(given, traced, strict=True)))
            if states:
                put_states(code, states, leapp.annotate.update_state(NODE, get_states(code, states)))
            leapp.annotate.output_tensors(NODE, outputs, export_with="onnx-dynamo")
    finally:
        leapp.stop()
    done: Any = leapp.compile_graph(visualize=False, **made.options)
    if not done or not all(done.values()):
        raise RuntimeError(f"compile_graph gave {done}")


def error_of_leapp(made: type[Code], yaml: Path, resets: tuple[int, ...]) -> float:
    """As `registry.worst_error`, by LEAPP's runtime. Dtypes may differ."""
    from leapp import InferenceManager

    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    code, manager, worst = made(), InferenceManager(str(yaml)), 0.0
    for step in range(STEPS):
        if step in resets:
            code.reset()
            manager.reset()
        given = registry.draw(made, generator)
        got = manager({f"{NODE}/{name}": tensor.clone() for name, tensor in given.items()})
        got = {name: tensor.clone() for name, tensor in got.items()}
        for name, expected in code.step(**given).items():
            ours, wanted = got[f"{NODE}/{name}"].double(), expected.detach().double()
            if ours.shape != wanted.shape or not torch.equal(ours.isnan(), wanted.isnan()):
                return float("inf")
            apart = ((ours - wanted).abs() / wanted.abs().clamp(min=1.0))[ours != wanted]
            worst = max(worst, float(apart.nan_to_num(0.0).max()) if apart.numel() else 0.0)
    return worst


def several(given: Any) -> list[torch.Tensor]:
    return [given] if isinstance(given, torch.Tensor) or not isinstance(given, tuple | list) else list(given)


# --- the states of a piece of code ------------------------------------------------------------------------------------

States = dict[str, list[str]]
"""Name of a state -> where it is kept: several places, if they hold one tensor all the time."""


def states_of(made: type[Code]) -> States:
    """The tensors of the code that are there from the beginning, keep their shape, and change."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code = made()
    before = {name: tensor.detach().clone() for name, tensor, _ in tensors_of(code)}
    seen = [{name: tensor for name, tensor, _ in tensors_of(code)}]
    changed: set[str] = set()
    for step in range(made.steps):
        if step in made.resets:
            code.reset()
        code.step(**registry.draw(made, generator))
        seen.append({name: tensor for name, tensor, _ in tensors_of(code)})
        changed |= {name for name, tensor in seen[-1].items() if name in before and differs(before[name], tensor)}
    names = [name for name in before if name in changed and all(name in one for one in seen)]
    names = [name for name in names if all(one[name].shape == before[name].shape for one in seen)]
    found: States = {}
    for name in names:
        same = next((other for other in found if all(one[other] is one[name] for one in seen)), None)
        if same is not None:
            found[same].append(name)
        elif not any(all(one[name]._base is one[other] for one in seen) for other in before):
            found[name] = [name]
    return found


def differs(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape != other.shape or one.dtype != other.dtype or not torch.equal(one, other)


def get_states(code: Code, states: States) -> dict[str, Any]:
    there = {name: tensor for name, tensor, _ in tensors_of(code)}
    return {name: there[name] for name in states}


def put_states(code: Code, states: States, given: Any) -> None:
    for places, value in zip(states.values(), several(given), strict=True):
        for wanted in places:  # looked up one by one, since a tuple is made anew for each element
            next(put for name, _, put in tensors_of(code) if name == wanted)(value)


def tensors_of(thing: Any, path: str = "state", depth: int = 0) -> Iterator[tuple[str, Any, Callable[[Any], object]]]:
    """Name, tensor, and what puts another in its place: in attributes, containers, modules and further objects."""
    if depth > 5:
        return
    for key, value, put in held(thing):
        name = re.sub(r"\W", "_", f"{path}_{key}")
        if is_tensor(value):
            yield name, value, put
        elif isinstance(value, tuple):
            for index, element in enumerate(value):
                if is_tensor(element):
                    yield f"{name}_{index}", element, lambda new, old=value, at=index, put=put: put(with_(old, at, new))
        else:
            yield from tensors_of(value, name, depth + 1)


def is_tensor(value: Any) -> bool:
    """A tensor that is no weight, or what stands for one while LEAPP traces."""
    if isinstance(value, torch.nn.Parameter):
        return False
    return isinstance(value, torch.Tensor) or type(value).__name__.startswith("Traced")


def with_(old: tuple[Any, ...], at: int, new: Any) -> tuple[Any, ...]:
    elements = (*old[:at], new, *old[at + 1 :])
    return type(old)(*elements) if hasattr(old, "_fields") else elements


def held(thing: Any) -> Iterator[tuple[str, Any, Callable[[Any], object]]]:
    """What an object holds: its name, itself, and what puts something else there."""
    if isinstance(thing, dict):
        for key in [key for key in thing if isinstance(key, str | int)]:
            yield str(key), thing[key], lambda value, key=key: thing.__setitem__(key, value)
    elif isinstance(thing, list | deque):
        for index, value in enumerate(list(thing)):
            yield str(index), value, lambda value, index=index: thing.__setitem__(index, value)
    elif isinstance(thing, torch.nn.Module):
        yield from held(vars(thing)["_buffers"])
        yield from held(vars(thing)["_modules"])
        yield from attributes(thing, [name for name in vars(thing) if name not in MODULE_ATTRIBUTES])
    elif isinstance(thing, SimpleNamespace) or type(thing).__module__.startswith("capture.cases"):
        yield from attributes(thing, [*vars(thing)] if hasattr(thing, "__dict__") else [*thing.__slots__])


def attributes(thing: Any, names: list[str]) -> Iterator[tuple[str, Any, Callable[[Any], object]]]:
    for name in names:
        if hasattr(thing, name):
            yield name.strip("_"), getattr(thing, name), lambda value, name=name: setattr(thing, name, value)


MODULE_ATTRIBUTES = {*vars(torch.nn.Module())}


# --- a tool at work, in a process of its own --------------------------------------------------------------------------


def work(tool: str) -> None:
    """Answer each line that names a case with a line that says what became of it."""
    answers = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    torch.set_num_threads(1)
    warm_up(tool)
    cases = {f"{case.topic}: {case.title}": case.make for case in all_cases()}
    for line in sys.stdin:
        answers.write(json.dumps(in_a_fork(tool, cases[json.loads(line)])) + "\n")
        answers.flush()


def warm_up(tool: str) -> None:
    """Import what an export needs; torch loads most of it with the first."""
    import_module(tool)
    torch.onnx.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), dynamo=True, verbose=False)


def in_a_fork(tool: str, made: type[Code]) -> Answer:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with tempfile.TemporaryDirectory() as scratch:
            answer = {"ashore": by_ashore, "leapp": by_leapp}[tool](made, Path(scratch))
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 65536) if select.select([reading], [], [], PATIENCE_S)[0] else b""
    os.close(reading)
    if not said:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(said) if said else {"outcome": DIED, "detail": f"or took {PATIENCE_S:.0f} s", "states": None}


# --- asking the tools -------------------------------------------------------------------------------------------------


def ask(titles: list[str], *, show: bool) -> list[dict[str, Any]]:
    """What becomes of each case, by both tools side by side."""
    command = [sys.executable, __file__, "--work"]
    tools = {
        name: subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in TOOLS
    }
    rows: list[dict[str, Any]] = []
    for title in titles:
        for process in tools.values():
            assert process.stdin is not None
            process.stdin.write(json.dumps(title) + "\n")
            process.stdin.flush()
        row: dict[str, Any] = {"case": title}
        for name, process in tools.items():
            assert process.stdout is not None
            row[name] = json.loads(process.stdout.readline())
        rows.append(row)
        if show:
            print(f"\r{len(rows)} of {len(titles)}", end="", file=sys.stderr, flush=True)
    for process in tools.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many cases ended how, and what LEAPP's wrong ones have in common."""
    wrong = [row for row in rows if row["leapp"]["outcome"] == WRONG]
    untold = [row for row in wrong if (row["ashore"]["states"] or 0) > row["leapp"]["states"]]
    return {
        "cases": len(rows),
        "of": len(all_cases()),
        "counts": {
            tool: {one: Counter(row[tool]["outcome"] for row in rows)[one] for one in OUTCOMES} for tool in TOOLS
        },
        "leapp_exact_where_ashore_refuses": sum(
            row["leapp"]["outcome"] == EXACT and row["ashore"]["outcome"] == REFUSED for row in rows
        ),
        "leapp_wrong_only_after_a_reset": sum(row["leapp"].get("only_after_a_reset", False) for row in wrong),
        "leapp_wrong_with_a_state_that_it_was_not_told": len(untold),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="run only every so manieth case")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    rows = ask([f"{case.topic}: {case.title}" for case in all_cases()[options.first :: options.every]], show=True)
    found = summary(rows)
    if options.json:
        print(json.dumps({**found, "rows": rows}, indent=2))
    else:
        print(f"\n{len(rows)} pieces of environment code")
        print(f"{'':12}" + "".join(f"{outcome:>16}" for outcome in OUTCOMES))
        for name, counts in found["counts"].items():
            print(f"{name:12}" + "".join(f"{counts[outcome]:>16}" for outcome in OUTCOMES))
        for name in (
            "leapp_exact_where_ashore_refuses",
            "leapp_wrong_only_after_a_reset",
            "leapp_wrong_with_a_state_that_it_was_not_told",
        ):
            print(f"{name.replace('_', ' ')}: {found[name]}")
    if found["counts"]["ashore"][WRONG]:
        sys.exit("Ashore exported something wrong")


if __name__ == "__main__":
    main()
