"""``ashore export`` for the checkpoints of trainers: what each command is called, and what it may be told.

Only typer is imported here; a command imports what it needs when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Method = Literal["onnx-dynamo", "onnx-torchscript", "jit-script", "jit-trace", "pt2", "openvino"]

_COMMANDS = {
    "rsl_rl": "Export a checkpoint of RSL-RL, version 2 to 5: MLP, LSTM, GRU, CNN, students.",
    "sb3": "Export a model of stable-baselines3 or sb3-contrib, with its VecNormalize.",
    "skrl": "Export a checkpoint of skrl, with its preprocessors.",
    "rl_games": "Export a checkpoint of rl_games.",
    "cleanrl": "Export a checkpoint of CleanRL, or of any script whose network can be imported.",
}


def add_commands(app: typer.Typer) -> None:
    """Add a command for each trainer."""
    for trainer, text in _COMMANDS.items():
        _add(app, trainer, text)


def _add(app: typer.Typer, trainer: str, text: str) -> None:
    @app.command(trainer, help=text)
    def export(
        checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="The file that the trainer wrote.")],
        config: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="The configuration of the trainer, .yaml or .json.",
                show_default="params/agent.yaml near the checkpoint",
            ),
        ] = None,
        model: Annotated[
            str | None,
            typer.Option(metavar="package.module:NAME", help="What makes the network, where it is code of your own."),
        ] = None,
        normalizer: Annotated[
            str | None,
            typer.Option(
                metavar="FILE", help="The statistics of observations, if they lie apart; none if there are none."
            ),
        ] = None,
        obs: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME=3,64,64", help="The shape of an input, where the checkpoint does not say."),
        ] = None,
        actions: Annotated[
            str | None,
            typer.Option(metavar="LOW,HIGH", help="The limits of the environment that actions are scaled to."),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option(
                "--out",
                "--export-save-path",
                "--export_save_path",
                help="The folder to write the package into.",
                show_default="beside the checkpoint",
            ),
        ] = None,
        name: Annotated[
            str | None,
            typer.Option(
                "--export-task-name",
                "--export_task_name",
                help="What to call the package.",
                show_default="the checkpoint",
            ),
        ] = None,
        onnx: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Also write a plain .onnx file: obs, h_in → actions, h_out.")
        ] = None,
        method: Annotated[
            Method, typer.Option("--export-method", "--export_method", help="What writes the stages.")
        ] = "onnx-dynamo",
        validation_steps: Annotated[
            int,
            typer.Option(
                "--validation-steps",
                "--validation_steps",
                min=0,
                help="Steps on fresh inputs to verify with, besides the recorded ones; 0 verifies nothing.",
            ),
        ] = 20,
        batch: Annotated[
            Literal["one", "dynamic"], typer.Option(help="Whether the package runs one robot, or any number at once.")
        ] = "one",
        stochastic: Annotated[
            bool, typer.Option("--stochastic", help="Draw actions, by a further input: a seed.")
        ] = False,
        clip_actions: Annotated[
            float | None, typer.Option(help="The limit that the wrapper of the environment puts on actions.")
        ] = None,
        num_actions: Annotated[
            int | None, typer.Option(min=1, help="How many actions there are, to be checked.")
        ] = None,
        no_graph: Annotated[
            bool,
            typer.Option(
                "--no-graph", "--disable-graph-visualization", "--disable_graph_visualization", help="Draw no picture."
            ),
        ] = False,
        no_cache: Annotated[
            bool, typer.Option("--no-cache", help="Export every stage anew, and keep none for next time.")
        ] = False,
        allow: Annotated[list[str] | None, typer.Option(metavar="FINDING", help="A finding that may be there.")] = None,
        trust: Annotated[bool, typer.Option("--trust", help="Read a checkpoint that could run code.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    ) -> None:
        from ashore.cli.exporting import Wish, run

        wish = Wish(
            trainer, checkpoint, config=config, model=model, normalizer=normalizer, obs=obs or (), actions=actions,
            trust=trust, out=out, name=name, onnx=onnx,
        )  # fmt: skip
        options = {
            "backend": method, "validation_steps": validation_steps, "picture": not no_graph, "cache": not no_cache,
            "allow": allow or (), "batch": batch, "stochastic": stochastic, "clip_actions": clip_actions,
            "num_actions": num_actions,
        }  # fmt: skip
        run(wish, options, as_json=as_json)
