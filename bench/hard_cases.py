"""What becomes of the cases in tests/capture/cases, by Ashore and by LEAPP: exact, refused, or wrong and nobody says so.

Each tool runs in processes of its own. Both record the same code over the same inputs; then the saved files are run by
the tool's own runtime beside a fresh instance of the code, with resets, on inputs that were not recorded. Ashore is told
what goes in and out. LEAPP is told that, and every state: tensors in attributes, containers and modules of the code that
change are declared and updated as its manual asks, so that what is left to find are not the states that it was not told.

python bench/hard_cases.py [--every 1] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from capture.cases import registry
from capture.cases.registry import EXACT, Code
from docs.cases_page import all_cases

TOOLS = ("ashore", "leapp")
OUTCOMES = (EXACT, "refused", "wrong")
PATIENCE_S = 180.0
STEPS, RESETS = 30, (6, 7, 19)
NODE = "policy"

Place = tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], object]]
"""What reads a tensor of the code, and what puts another in its place."""


# --- a tool at work, in a process of its own --------------------------------------------------------------------------


def by_ashore(made: type[Code], out: Path) -> tuple[str, str]:
    found = registry.outcome(made, out)
    return (found if found == EXACT else "wrong" if found.startswith("wrong") else "refused"), found


def by_leapp(made: type[Code], out: Path) -> tuple[str, str]:
    try:
        export_by_leapp(made, out)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {error}"
    try:
        error = error_of_leapp(made, out / "case" / "case.yaml")
    except Exception as error:
        return "wrong", f"exported, and does not run: {type(error).__name__}: {error}"
    return (EXACT, "") if error <= made.tolerance else ("wrong", f"wrong by {error:.3g}")


def export_by_leapp(made: type[Code], out: Path) -> None:
    import leapp

    names = changing(made)
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code = made()
    leapp.start("case", save_path=str(out))
    try:
        for _ in range(made.steps):
            given = registry.draw(made, generator)
            traced = several(leapp.annotate.input_tensors(NODE, dict(given)))
            places = {name: place for name, place in tensors_of(code).items() if name in names}
            states = {name: read() for name, (read, _) in places.items()}
            if states:
                for name, state in zip(states, several(leapp.annotate.state_tensors(NODE, states)), strict=True):
                    places[name][1](state)
            outputs = code.step(**dict(zip(given, traced, strict=True)))
            if states:
                after = {name: place[0]() for name, place in tensors_of(code).items() if name in names}
                for name, state in zip(after, several(leapp.annotate.update_state(NODE, after)), strict=True):
                    tensors_of(code)[name][1](state)
            leapp.annotate.output_tensors(NODE, outputs, export_with="onnx-dynamo")
    finally:
        leapp.stop()
    done = leapp.compile_graph(visualize=False)
    if not done or not all(done.values()):
        raise RuntimeError(f"compile_graph gave {done}")


def error_of_leapp(made: type[Code], yaml: Path) -> float:
    """As `registry.worst_error`, by LEAPP's runtime."""
    from leapp import InferenceManager

    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    code, manager, worst = made(), InferenceManager(str(yaml)), 0.0
    for step in range(STEPS):
        if step in RESETS:
            code.reset()
            manager.reset()
        given = registry.draw(made, generator)
        got = manager({f"{NODE}/{name}": tensor.clone() for name, tensor in given.items()})
        for name, expected in code.step(**given).items():
            ours, wanted = got[f"{NODE}/{name}"].double(), expected.detach().double()
            if ours.shape != wanted.shape or not torch.equal(ours.isnan(), wanted.isnan()):
                return float("inf")
            apart = ((ours - wanted).abs() / wanted.abs().clamp(min=1.0))[ours != wanted]
            worst = max(worst, float(apart.nan_to_num(0.0).max()) if apart.numel() else 0.0)
    return worst


def several(given: Any) -> list[torch.Tensor]:
    return [given] if isinstance(given, torch.Tensor) else list(given)


def changing(made: type[Code]) -> set[str]:
    """The tensors of the code that are its states: they are there from the beginning, and change."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    code = made()
    before = {name: read().detach().clone() for name, (read, _) in tensors_of(code).items()}
    found: set[str] = set()
    for _ in range(made.steps):
        code.step(**registry.draw(made, generator))
        now = {name: read() for name, (read, _) in tensors_of(code).items()}
        found |= {
            name for name in before.keys() & now.keys()
            if before[name].shape == now[name].shape and not torch.equal(before[name], now[name])
        }  # fmt: skip
    return found


def tensors_of(thing: Any, path: str = "state", depth: int = 0) -> dict[str, Place]:
    """Every tensor that is kept in an object, by its path: in attributes, lists, dicts and further objects."""
    if depth > 4:
        return {}
    found: dict[str, Place] = {}
    for key, value, put in held(thing):
        name = f"{path}_{key}"
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            found[name] = (lambda value=value: value), put
        elif not isinstance(value, torch.Tensor):
            found |= tensors_of(value, name, depth + 1)
    return found


def held(thing: Any) -> Iterator[tuple[str, Any, Callable[[Any], object]]]:
    if isinstance(thing, dict):
        for key in [key for key in thing if isinstance(key, str)]:
            yield key, thing[key], lambda value, key=key: thing.__setitem__(key, value)
    elif isinstance(thing, list):
        for index, value in enumerate(thing):
            yield str(index), value, lambda value, index=index: thing.__setitem__(index, value)
    elif isinstance(thing, torch.nn.Module):
        for part in (thing._buffers, thing._modules):
            yield from held(part)
        yield from held({key: value for key, value in vars(thing).items() if not key.startswith("_")})
    elif type(thing).__module__.startswith("capture.cases"):
        names = [*vars(thing)] if hasattr(thing, "__dict__") else [*getattr(thing, "__slots__", ())]
        for name in names:
            with suppress(AttributeError):
                yield name.strip("_"), getattr(thing, name), lambda value, name=name: setattr(thing, name, value)


def work(tool: str) -> None:
    """Answer a line with what became of a case for each line that names one."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    cases = {f"{case.topic}: {case.title}": case.make for case in all_cases()}
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as scratch:
            outcome, detail = {"ashore": by_ashore, "leapp": by_leapp}[tool](cases[json.loads(line)], Path(scratch))
        answers.write(json.dumps([outcome, detail]) + "\n")
        answers.flush()


# --- asking the tools -------------------------------------------------------------------------------------------------


class Tool:
    """A process that is asked for one case after the other, and made anew when it dies or takes too long."""

    def __init__(self, name: str) -> None:
        self._command = [sys.executable, __file__, "--work", name]
        self._process: subprocess.Popen[str] | None = None

    def ask(self, title: str) -> tuple[str, str]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(title) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if waiting.select(PATIENCE_S) else ""
        if not line:
            self.close()
            return "refused", "the process died, or took too long"
        outcome, detail = json.loads(line)
        return outcome, detail

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="run only every so manieth case")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    tools = {name: Tool(name) for name in TOOLS}
    rows = []
    for case in all_cases()[:: options.every]:
        title = f"{case.topic}: {case.title}"
        rows.append({"case": title, "topic": case.topic, **{name: tool.ask(title) for name, tool in tools.items()}})
        if not options.json:
            print(f"\r{len(rows)} cases", end="", file=sys.stderr, flush=True)
    for tool in tools.values():
        tool.close()
    counts = {name: Counter(row[name][0] for row in rows) for name in TOOLS}
    if options.json:
        print(json.dumps({"cases": len(rows), "counts": counts, "rows": rows}, indent=2))
    else:
        print(f"\n{len(rows)} pieces of environment code")
        print(f"{'':12}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
        for name in TOOLS:
            print(f"{name:12}" + "".join(f"{counts[name][outcome]:>10}" for outcome in OUTCOMES))
    if counts["ashore"]["wrong"]:
        sys.exit("Ashore exported something wrong")


if __name__ == "__main__":
    main()
