"""From a trained checkpoint to a robot that walks without torch, and what that proves. Usage: walk.py OUT [--cartpole]

The robot is a Unitree Go1, trained in mjlab by train_go1.py. Each command is one you could type; what it says as JSON
is put into plain words at the end. The first run of a simulator compiles its kernels, which takes a minute or two.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
GO1 = ("Mjlab-Velocity-Flat-Unitree-Go1", "go1_velocity_flat_mlp.pt", ("--command", "0.6,0,0"))
CARTPOLE = ("Mjlab-Cartpole-Balance", "cartpole_balance.pt", ())
BARRED = ("torch", "onnx", "mjlab", "warp", "rsl_rl")
PLAIN = f"import sys\nsys.modules.update(dict.fromkeys({BARRED}))\nfrom ashore.cli import main\nmain()"
"""The command line in a process where importing any of them fails."""


def ashore(out: Path, *words: object, barred: bool = False) -> dict[str, Any]:
    """Run a command, and give what it says; what else is printed goes into a log."""
    told = [str(word) for word in words]
    print(f"\n$ ashore {' '.join(told)}" + (f"    # cannot import {', '.join(BARRED)}" if barred else ""), flush=True)
    began = perf_counter()
    program = ["-c", PLAIN] if barred else ["-m", "ashore"]
    with (out / "log.txt").open("a") as log:
        done = subprocess.run(
            [sys.executable, *program, *told, "--json"], stdout=subprocess.PIPE, stderr=log, text=True
        )
    if done.returncode:
        sys.exit(f"{done.stdout}\nthis failed; {out / 'log.txt'} says more")
    print(f"  {perf_counter() - began:.0f} s", flush=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cartpole", action="store_true", help="a pole on a cart instead of the Go1, which is faster")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long it is played")
    parser.add_argument("--steps", type=int, default=100, help="decisions beside the training environment")
    options = parser.parse_args()
    task, checkpoint, command = CARTPOLE if options.cartpole else GO1
    out, weights = options.out, HERE / "checkpoints" / checkpoint
    package, model, film, page = out / task, out / "robot.mjb", out / "film.gif", out / "page.html"
    out.mkdir(parents=True, exist_ok=True)
    (out / "log.txt").write_text("")
    began = perf_counter()
    trained = ("--task", task, "--checkpoint", weights)
    export = ashore(out, "export", "mjlab", *trained, "--out", out, "--model", model)
    verify = ashore(out, "verify", package)
    beside = ashore(out, "compare-sim", "mjlab", package, *trained, "--steps", options.steps)
    filmed = ("--seconds", options.seconds, "--video", film, "--size", "400x300", "--fps", 12)
    played = ashore(out, "play", package, "--mjcf", model, *command, *filmed, barred=True)
    ashore(out, "view", package, "--film", film, "--out", page)
    print(f"\nWhat was shown, in {perf_counter() - began:.0f} s:\n")
    for line in said(export, verify, beside, played):
        print(line if line.startswith(" ") else f"- {line}")
    print(f"\nThe package is {package}\nthe film      {film}\nthe page      {page}")


def said(export: dict[str, Any], verify: dict[str, Any], beside: dict[str, Any], played: dict[str, Any]) -> list[str]:
    """The findings of the commands in plain words."""
    drift, apart = max(verify["max_abs_error"]["free_running"].values()), beside["worst"]["sim.qpos"]
    found = f"{len(export['inputs'])} inputs, {len(export['states'])} states and {export['joints']} joints"
    decision, may_take_ms = played["decision"], 1e3 * played["seconds"] / played["decisions"]
    replayed = f"{verify['steps']} decisions with {verify['resets']} resets"
    how = "stayed up" if played["survived"] else "FELL"
    lines = [
        f"It was exported by one command. Nothing was annotated: {found} were found by watching the environment run.",
        f"The saved files give what the environment gave: in {replayed}, the largest error is {drift:.1e}.",
        f"Environment and package ran side by side, from the same state, for {beside['steps']} decisions:",
        f"  the positions of the two simulated robots differ by at most {apart:.1e} (m, rad).",
        f"In plain MuJoCo, without torch, it drove the robot for {played['seconds']:g} s, and the robot {how}.",
    ]
    lines += [
        f"Asked for {one['asked']:.2f} {one['unit']} forward, the robot went {one['measured']:.2f} {one['unit']}."
        for one in played["tracking"][:1]
    ]
    p50_ms, p99_ms = decision["p50_us"] / 1e3, decision["p99_us"] / 1e3
    lines.append(
        f"Reading, deciding and writing took {p50_ms:.2f} ms (p99 {p99_ms:.2f} ms) of the {may_take_ms:.0f} ms."
    )
    return lines


if __name__ == "__main__":
    main()
