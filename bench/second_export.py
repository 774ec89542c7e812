"""How long the export of a policy takes that was exported before, exactly so: in the same process, and in a new one.

The policy is that of the README with a network of 256-128 units. Each is verified, and drawn; what is timed is the end
of the recording: from the last recorded step to a package on disk. Importing torch, which every recording does, is told
apart. Fresh processes take turns: with an empty cache, and with one in which the stage lies.

python bench/second_export.py [--runs 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

LIMITS_S = {"again in the process": 0.3, "again in a new process": 1.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", metavar="OUT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(times(Path(options.one))))
        return
    seconds: dict[str, list[float]] = {}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as scratch:
            first, second = (fresh_process(Path(scratch)) for _ in range(2))
        assert (first["exports"], second["exports"]) == (1, 0), (first, second)
        seconds.setdefault("first in a process", []).append(first["first"])
        seconds.setdefault("again in the process", []).append(first["again"])
        seconds.setdefault("again in a new process", []).append(second["first"])
        seconds.setdefault("importing torch and Ashore", []).append(second["import"])
    rows = [
        {"what": what, "p50_s": statistics.median(taken), "p99_s": max(taken), "samples": len(taken)}
        for what, taken in seconds.items()
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"seconds, {options.runs} fresh processes each, taking turns; verified, with picture")
        for row in rows:
            limit = LIMITS_S.get(row["what"])
            told = "" if limit is None else f"  limit {limit:g}"
            print(f"{row['what']:28} p50 {row['p50_s']:6.3f}  largest {row['p99_s']:6.3f}{told}")
    slow = [row["what"] for row in rows if row["p50_s"] > LIMITS_S.get(row["what"], float("inf"))]
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


def fresh_process(scratch: Path) -> dict[str, float]:
    """Export the policy twice in a process of its own, with the cache that lies in a folder."""
    environment = {**os.environ, "ASHORE_CACHE": str(scratch / "cache"), "ASHORE_EXPORT_CACHE": "on"}
    command = [sys.executable, __file__, "--one", str(scratch / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def times(out: Path) -> dict[str, float]:
    """Seconds of each part, and how often an exporter ran."""
    began = perf_counter()
    import torch

    import ashore
    from ashore.backends import export_cache

    ashore.record  # noqa: B018  imports what records
    imported = perf_counter() - began
    kept = 0
    keep = export_cache.EXPORTS.keep

    def counted(*arguments: object) -> None:
        nonlocal kept
        kept += 1
        keep(*arguments)  # type: ignore[arg-type]

    object.__setattr__(export_cache.EXPORTS, "keep", counted)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    actor = torch.nn.Sequential(
        torch.nn.Linear(9, 256), torch.nn.ELU(), torch.nn.Linear(256, 128), torch.nn.ELU(), torch.nn.Linear(128, 3)
    )
    first, again = (export(actor, out) for _ in range(2))
    return {"import": imported, "first": first, "again": again, "exports": kept}


def export(actor: object, out: Path) -> float:
    """Record ten steps, and give the seconds from the last one to the package."""
    import torch

    import ashore

    last_action, ended = torch.zeros(1, 3), 0.0
    with torch.no_grad(), ashore.record("leg", out=out, summary=False) as rec:
        for step in range(10):
            if step == 6:
                rec.reset()
                last_action = torch.zeros(1, 3)
            with rec.step():
                joint_pos = rec.input("joint_pos", torch.randn(1, 3))
                command = rec.input("command", torch.randn(1, 3))
                last_action = actor(torch.cat((joint_pos, command, last_action), dim=-1))  # type: ignore[operator]
                rec.output("joint_target", 0.25 * last_action)
        ended = perf_counter()
    assert rec.package is not None
    proof = rec.package.manifest.verification
    assert proof is not None
    assert proof.status == "passed"
    return perf_counter() - ended


if __name__ == "__main__":
    main()
