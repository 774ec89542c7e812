"""A step, with all its checks, against a bare ``session.run`` given a dict: same file, same session options, one run.

python bench/step.py [--samples 20000] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from ashore.verify import bench
from graphs import RECURRENT, SUBJECTS, write_subject

LIMIT, LIMIT_RECURRENT = 1.00, 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in SUBJECTS.items():
            package = write_subject(make(), Path(scratch) / "package")
            (timing,) = bench(package, samples=options.samples)
            limit = LIMIT_RECURRENT if name in RECURRENT else LIMIT
            rows.append({"policy": name, "ratio_p50": timing.ratio, "limit": limit, **asdict(timing)})
            if not options.json:
                if len(rows) == 1:
                    print(f"policy.step against session.run, {options.samples:,} calls each, taking turns, one thread")
                    print(
                        f"{'':30}{'ratio p50':>10}{'limit':>7}{'step p50':>10}{'p99':>8}{'bare p50':>11}{'p99':>8}  µs"
                    )
                ours, bare = timing.policy, timing.bare
                print(
                    f"{name:30}{timing.ratio:>9.3f}x{limit:>6.2f}x{ours.p50_us:>10.1f}{ours.p99_us:>8.1f}"
                    f"{bare.p50_us:>11.1f}{bare.p99_us:>8.1f}",
                    flush=True,
                )
    if options.json:
        print(json.dumps(rows, indent=2))
    slow = [row["policy"] for row in rows if row["ratio_p50"] > row["limit"]]
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


if __name__ == "__main__":
    main()
