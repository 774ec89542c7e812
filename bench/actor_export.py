"""How long a checkpoint takes to become a verified package, against the trainer's own bare ONNX export of that actor.

Both by the same exporter of torch (dynamo), in one process, alternating, after one warm-up of each. The trainer's own
is what RSL-RL's runner does: `model.as_onnx()` and `torch.onnx.export`, with nothing verified and no package.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ashore.integrations.trainers import Source, export_checkpoint

CHECKPOINTS = Path(__file__).parents[1] / "tests" / "integrations" / "actors" / "checkpoints"
NAME, LIMIT = "rsl5_mlp", 1.5


def own_model() -> Any:
    """The model of the checkpoint, as the trainer loads it."""
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    config = json.loads((CHECKPOINTS / f"{NAME}.json").read_text())["actor"]
    config.pop("class_name")
    obs = TensorDict({"policy": torch.zeros(1, 3)}, batch_size=[1])
    model = MLPModel(obs, {"actor": ["policy"]}, "actor", 1, **config)
    model.load_state_dict(torch.load(CHECKPOINTS / f"{NAME}.pt", weights_only=True)["actor_state_dict"])
    return model.eval()


def own_export(folder: Path) -> None:
    """What the runner's `export_policy_to_onnx` does, by the dynamo exporter."""
    module = own_model().as_onnx(verbose=False).eval()
    with torch.no_grad():
        torch.onnx.export(
            module,
            module.get_dummy_inputs(),
            str(folder / "policy.onnx"),
            dynamo=True,
            opset_version=18,
            verbose=False,
            input_names=module.input_names,
            output_names=module.output_names,
        )


def our_export(folder: Path) -> None:
    """The checkpoint to a verified package, with its picture."""
    source = Source(CHECKPOINTS / f"{NAME}.pt", config=CHECKPOINTS / f"{NAME}.json")
    export_checkpoint("rsl_rl", source, folder / "package", backend="onnx-dynamo", summary=False, cache=False)


def taken(call: Callable[[Path], None]) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        began = perf_counter()
        call(Path(scratch))
        return perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    taken(own_export)
    taken(our_export)
    pairs = [(taken(own_export), taken(our_export)) for _ in range(options.runs)]
    own, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    row = {"own_p50_s": own, "package_p50_s": ours, "ratio_p50": ratio, "runs": options.runs, "limit": LIMIT}
    if options.json:
        print(json.dumps(row, indent=2))
    else:
        print(f"an MLP checkpoint of RSL-RL, {options.runs} alternating runs in one process; wall time in seconds")
        print(
            f"bare ONNX by its own exporter {own:.2f}, verified package {ours:.2f}, ratio {ratio:.2f} (limit {LIMIT})"
        )
    if ratio > LIMIT:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
