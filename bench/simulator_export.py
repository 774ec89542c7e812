"""How long the export of a simulated task takes, verification included, once its environment is up.

Each run is a process of its own, so that nothing is warm but the simulator's compiled kernels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKPOINTS = Path(__file__).parents[1] / "examples" / "checkpoints"
SUBJECTS = {
    "Go1 flat, MLP": ("Mjlab-Velocity-Flat-Unitree-Go1", CHECKPOINTS / "go1_velocity_flat_mlp.pt"),
    "Go1 flat, LSTM": ("Mjlab-Velocity-Flat-Unitree-Go1", CHECKPOINTS / "go1_velocity_flat_lstm.pt"),
    "cartpole": ("Mjlab-Cartpole-Balance", CHECKPOINTS / "cartpole_balance.pt"),
}
LIMIT_S = 15.0


def export(task: str, checkpoint: Path) -> dict[str, float]:
    """Seconds of one export by the command line: of opening the environment, and of everything after that."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "ashore", "export", "mjlab", "--task", task, "--checkpoint", str(checkpoint)]
        done = subprocess.run(
            [*command, "--out", scratch, "--no-cache", "--json"], capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, (task, checkpoint) in SUBJECTS.items():
        taken = [export(task, checkpoint) for _ in range(options.runs)]
        seconds = [one["export"] for one in taken]
        rows.append({"task": name, "p50_s": statistics.median(seconds), "limit_s": LIMIT_S, "seconds": seconds})
        if not options.json:
            if len(rows) == 1:
                print(f"export of a task, {options.runs} fresh processes each; wall time in seconds")
                print(f"{'':20}{'p50':>8}{'min-max':>14}{'limit':>8}")
            between = f"{min(seconds):.1f}-{max(seconds):.1f}"
            print(f"{name:20}{rows[-1]['p50_s']:>8.1f}{between:>14}{LIMIT_S:>8.1f}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))
    slow = [row["task"] for row in rows if row["p50_s"] > row["limit_s"]]
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


if __name__ == "__main__":
    main()
