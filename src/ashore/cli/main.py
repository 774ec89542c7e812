"""The ``ashore`` command.

Only typer is imported here; each command imports what it needs when it runs, so that ``ashore --help`` answers at once.
Exit codes: 0 all is well, 1 a check failed, 2 the command line was wrong, 3 the package or an input was refused.
"""

from __future__ import annotations

import json
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal

import typer

from ashore.cli.trainers import Method, add_commands
from ashore.errors import AshoreError

CHECK_FAILED = 1
REFUSED = 3

app = typer.Typer(
    name="ashore",
    help="Brings trained robot policies ashore: inspect, verify, measure, play and move policy packages.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PackagePath = Annotated[Path, typer.Argument(metavar="PKG", help="A package directory or an .ashore file.")]
Neighbour = Literal["leapp", "exploy", "policy_package"]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
RunsOn = Annotated[
    str | None, typer.Option("--device", help="Where the stages run: cpu, cuda, GPU, …", show_default="the CPU")
]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        from ashore import __version__

        typer.echo(f"ashore {__version__}")
        raise typer.Exit


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(metavar="PKG", help="A package, or a bare .onnx file.")],
    as_json: AsJson = False,
) -> None:
    """Show the contract: inputs, outputs, joints, gains, rates, states, findings, where it comes from."""
    from ashore.cli.inspecting import run

    run(path, as_json=as_json)


@app.command()
def verify(
    path: PackagePath,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            help="What runs the stages; give it several times to see several side by side.",
            show_default="onnx where there is one, else what there is",
        ),
    ] = None,
    device: RunsOn = None,
    atol: Annotated[
        float | None, typer.Option(help="Absolute tolerance.", show_default="as exported, else 1e-5")
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(help="Relative tolerance.", show_default="as exported, else 1e-5")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=0, help="Also run one long episode of so many decisions, against another backend.")
    ] = 0,
    fuzz: Annotated[
        int, typer.Option(min=0, help="Also run so many decisions on drawn inputs, against another backend.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the drawn inputs.")] = 0,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write everything as a page to look at.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that the saved files compute what was recorded, and that the contract is the recorded one; else exit 1."""
    from ashore.cli.verifying import run

    passed = run(
        path, backends=backend or [None], device=device, atol=atol, rtol=rtol, steps=steps, fuzz=fuzz, seed=seed,
        report=report, as_json=as_json,
    )  # fmt: skip
    raise typer.Exit(0 if passed else CHECK_FAILED)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A package directory or an .ashore file.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    atol: Annotated[float, typer.Option(min=0.0, help="How far numbers may be apart and still be the same.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two packages: contract, weights, states, outputs; exit with 1 if they differ."""
    from ashore.cli.differing import run

    raise typer.Exit(0 if run(before, after, atol=atol, as_json=as_json) else CHECK_FAILED)


@app.command()
def bench(
    path: PackagePath,
    samples: Annotated[int, typer.Option(min=100, max=10_000_000, help="Calls of each candidate.")] = 10_000,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads within one operation.")] = 1,
    backend: Annotated[str, typer.Option(help="What runs the stages of the policy.")] = "onnx",
    device: RunsOn = None,
    as_json: AsJson = False,
) -> None:
    """Time a step against a bare session.run of the ONNX files on the CPU, in one run."""
    from ashore.cli.benching import run

    run(path, backend=backend, device=device, samples=samples, threads=threads, as_json=as_json)


@app.command()
def pack(
    path: PackagePath,
    out: Annotated[Path | None, typer.Argument(help="The .ashore file to write.", show_default="beside PKG")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a package directory into one .ashore file."""
    from ashore.cli.archiving import run_pack

    run_pack(path, out, as_json=as_json)


@app.command()
def unpack(
    path: PackagePath,
    out: Annotated[Path | None, typer.Argument(help="The directory to write.", show_default="beside PKG")] = None,
    as_json: AsJson = False,
) -> None:
    """Put an .ashore file into a directory."""
    from ashore.cli.archiving import run_unpack

    run_unpack(path, out, as_json=as_json)


@app.command("compile")
def compile_(
    path: PackagePath,
    backend: Annotated[Literal["c"], typer.Option(help="What it is compiled to.")] = "c",
    target: Annotated[
        Literal["host", "generic", "cortex-m"],
        typer.Option(help="This machine, any machine of its kind, or a microcontroller."),
    ] = "host",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write.", show_default="beside PKG")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows that are served at once, for packages with a batch.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Turn a package into C99 that needs no runtime: sources, header, shared and static library."""
    from ashore.cli.compiling import run

    run(path, out, backend=backend, target=target, batch=batch, as_json=as_json)


@app.command()
def view(
    path: PackagePath,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page to write.", show_default="beside PKG, as .html")
    ] = None,
    film: Annotated[Path | None, typer.Option(metavar="FILE", help="A film or an image to put into the page.")] = None,
    samples: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Calls to time, for five seconds at most; 0 times none.")
    ] = 1000,
    backend: Annotated[
        str | None,
        typer.Option(help="What runs the stages.", show_default="onnx where there is one, else what there is"),
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Also show it, on this machine only.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="With --serve: where.", show_default="one that is free")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a page that shows the package: graph, contract, trajectories, latency, findings, origin."""
    if port is not None and not serve:
        raise typer.BadParameter("--port goes with --serve", param_hint="--port")
    from ashore.cli.viewing import run

    shown_at = (port or 0) if serve else None
    run(path, out=out, film=film, samples=samples, backend=backend, port=shown_at, as_json=as_json)


@app.command()
def play(
    path: PackagePath,
    mjcf: Annotated[Path, typer.Option(metavar="FILE", help="The robot: an MJCF .xml or an .mjb file.")],
    seconds: Annotated[float, typer.Option(min=0.0, help="Simulated time.")] = 10.0,
    command: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=0.5,0,0", help="What is asked for; NAME= may be left out if there is one command."),
    ] = None,
    signal: Annotated[
        list[str] | None,
        typer.Option(metavar="PORT=SIGNAL", help="What a port is bound to, where its kind alone does not decide."),
    ] = None,
    unused: Annotated[
        list[str] | None, typer.Option(metavar="OUTPUT", help="An output that is not written to the robot.")
    ] = None,
    idle: Annotated[
        list[str] | None, typer.Option(metavar="JOINT", help="A joint or an actuator that the policy does not drive.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="robot/",
            help="What the robot's names begin with in the model; the package knows them without it.",
            show_default="what all actuated joints begin with, up to a slash",
        ),
    ] = None,
    base: Annotated[str | None, typer.Option(help="The floating body.", show_default="found")] = None,
    keyframe: Annotated[
        str | None, typer.Option(help="Where to start.", show_default="the model, with the package's default positions")
    ] = None,
    policy_dt: Annotated[
        float | None, typer.Option(help="Seconds between two decisions, if the package does not say.")
    ] = None,
    video: Annotated[Path | None, typer.Option(metavar="FILE", help="Film it into a .gif or an .mp4 file.")] = None,
    camera: Annotated[str | None, typer.Option(help="A camera of the model.", show_default="one that follows")] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Of the film, in pixels.")] = "640x480",
    fps: Annotated[int, typer.Option(min=1, max=50, help="Pictures a second of the film.")] = 25,
    as_json: AsJson = False,
) -> None:
    """Let a policy drive a robot in MuJoCo, without torch; exit with 1 if the robot falls."""
    from ashore.cli.playing import Choices, run

    choices = Choices(
        commands=command or [], signals=signal or [], unused=unused or [], idle=idle or [], prefix=prefix, base=base,
        keyframe=keyframe, policy_dt_s=policy_dt, camera=camera, size=size, frames_per_s=fps,
    )  # fmt: skip
    raise typer.Exit(0 if run(path, mjcf, choices, seconds=seconds, video=video, as_json=as_json) else CHECK_FAILED)


@app.command()
def convert(
    path: Annotated[Path, typer.Argument(metavar="FROM", help="What to convert: a package, or what --from says.")],
    out: Annotated[Path, typer.Argument(metavar="TO", help="What to write.")],
    to: Annotated[Neighbour | None, typer.Option("--to", help="Write a package in another format.")] = None,
    origin: Annotated[Neighbour | None, typer.Option("--from", help="Read another format into a package.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="With --to: whose files to take.", show_default="onnx where there is one")
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="With --to exploy: also write its two graphs as files of their own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a package into another format, or back: LEAPP, one file for Exploy's controller, a policy_package."""
    if (to is None) == (origin is None):
        raise typer.BadParameter("say either --to or --from, with leapp, exploy or policy_package")
    if backend is not None and to != "leapp":
        raise typer.BadParameter("--backend goes with --to leapp", param_hint="--backend")
    if debug and to != "exploy":
        raise typer.BadParameter("--debug goes with --to exploy", param_hint="--debug")
    from ashore.cli import converting

    if to == "leapp":
        converting.run_to_leapp(path, out, backend=backend, as_json=as_json)
    elif to == "exploy":
        converting.run_to_exploy(path, out, debug=debug, as_json=as_json)
    elif to == "policy_package":
        converting.run_to_policy_package(path, out, as_json=as_json)
    elif origin is not None:
        converting.run_from(origin, path, out, as_json=as_json)


exporting = typer.Typer(name="export", help="Make a package of a trained policy.", no_args_is_help=True)
deploying = typer.Typer(name="deploy", help="Run a package in its simulator, without managers.", no_args_is_help=True)
comparing = typer.Typer(
    name="compare-sim", help="Run environment and package side by side, and find where they part.", no_args_is_help=True
)
for one in (exporting, deploying, comparing):
    app.add_typer(one)

Task = Annotated[str, typer.Option(help="The task, as the simulator's registry calls it.")]
CheckpointPath = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The weights, or a folder of runs.", show_default="the newest run")
]
Motion = Annotated[
    Path | None, typer.Option("--motion-file", metavar="FILE", help="The motion, for tasks that follow one.")
]
Device = Annotated[str, typer.Option(help="The device of torch.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Changes the configuration: env.scene.ground=null, physics=… (Isaac Lab)."
    ),
]
Trust = Annotated[bool, typer.Option("--trust", help="Read a checkpoint that could run code.")]
LoadRun = Annotated[str | None, typer.Option("--load-run", "--load_run", help="Which run, as a regular expression.")]
LoadCheckpoint = Annotated[
    str | None, typer.Option("--load-checkpoint", "--load_checkpoint", help="Which file of it, likewise.")
]
Pretrained = Annotated[
    bool,
    typer.Option(
        "--use-pretrained-checkpoint",
        "--use_pretrained_checkpoint",
        help="Fetch the weights that Isaac Lab publishes for the task.",
    ),
]
Backend = Annotated[str | None, typer.Option(help="What runs the stages.", show_default="onnx where there is one")]
Steps = Annotated[int, typer.Option(min=1, help="Decisions.")]


def _simulator_commands(simulator: Literal["mjlab", "isaaclab"]) -> None:
    @exporting.command(simulator)
    def export(
        task: Annotated[
            str,
            typer.Option(
                help="The task, as the simulator's registry calls it; or package.module:make_env, a function that "
                "gives an environment."
            ),
        ],
        agent: Annotated[
            str | None,
            typer.Option(
                metavar="package.module:NAME",
                help="The configuration of the RSL-RL runner, if the task is a function.",
            ),
        ] = None,
        checkpoint: CheckpointPath = None,
        load_run: LoadRun = None,
        load_checkpoint: LoadCheckpoint = None,
        pretrained: Pretrained = False,
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
                "--export-task-name", "--export_task_name", help="What to call the package.", show_default="the task"
            ),
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
        ] = 5,
        no_graph: Annotated[
            bool,
            typer.Option(
                "--no-graph", "--disable-graph-visualization", "--disable_graph_visualization", help="Draw no picture."
            ),
        ] = False,
        no_cache: Annotated[
            bool, typer.Option("--no-cache", help="Export every stage anew, and keep none for next time.")
        ] = False,
        num_steps: Annotated[int, typer.Option(min=3, help="Decisions to wait for resets while recording.")] = 24,
        batch: Annotated[
            Literal["one", "dynamic"], typer.Option(help="Whether the package runs one robot, or any number at once.")
        ] = "one",
        allow: Annotated[list[str] | None, typer.Option(metavar="FINDING", help="A finding that may be there.")] = None,
        model: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="Also write the scene as a MuJoCo .mjb model, to play in (mjlab only)."),
        ] = None,
        motion: Motion = None,
        device: Device = "cpu",
        overrides: Overrides = None,
        trust: Trust = False,
        as_json: AsJson = False,
    ) -> None:
        """Export a task with its trained actor: observations, network, state, actions, gains and rates."""
        from ashore.cli.simulators import Source, run_export

        source = Source(
            task, checkpoint, motion, device, trust, 2 if batch == "dynamic" else 1, load_run, load_checkpoint, agent,
            overrides or (), pretrained,
        )  # fmt: skip
        options = {
            "backend": method, "validation_steps": validation_steps, "picture": not no_graph, "cache": not no_cache,
            "num_steps": num_steps, "batch": "dynamic" if batch == "dynamic" else "recorded", "allow": allow or (),
        }  # fmt: skip
        run_export(simulator, source, out=out, name=name, model=model, options=options, as_json=as_json)

    @deploying.command(simulator)
    def deploy(
        path: PackagePath,
        task: Task,
        steps: Steps = 500,
        num_envs: Annotated[int, typer.Option(min=1, help="Robots; more than one need an open batch.")] = 1,
        command: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME=0.5,0,0", help="What is asked for; NAME= may be left out if there is one."),
        ] = None,
        task_commands: Annotated[
            bool, typer.Option("--task-commands", help="Let the task's own command terms command.")
        ] = False,
        motion: Motion = None,
        device: Device = "cpu",
        overrides: Overrides = None,
        backend: Backend = None,
        as_json: AsJson = False,
    ) -> None:
        """Let a package drive the scene of a task: physics only, inputs and outputs by the package's connections."""
        from ashore.cli.simulators import Source, run_deploy

        source = Source(task, None, motion, device, trust=False, num_envs=num_envs, overrides=overrides or ())
        run_deploy(
            simulator, path, source,
            steps=steps, commands=command or [], task_commands=task_commands, backend=backend, as_json=as_json,
        )  # fmt: skip

    @comparing.command(simulator)
    def compare(
        path: PackagePath,
        task: Task,
        checkpoint: CheckpointPath = None,
        load_run: LoadRun = None,
        load_checkpoint: LoadCheckpoint = None,
        pretrained: Pretrained = False,
        steps: Steps = 100,
        seed: Annotated[int, typer.Option(help="Of the environment.")] = 0,
        atol: Annotated[float, typer.Option(help="What counts as a difference.")] = 1e-4,
        no_report: Annotated[
            bool, typer.Option("--no-report", help="Do not keep the trajectories in the package.")
        ] = False,
        motion: Motion = None,
        device: Device = "cpu",
        overrides: Overrides = None,
        trust: Trust = False,
        as_json: AsJson = False,
    ) -> None:
        """Compare the training environment with the package in a deployment environment; exit with 1 if they differ."""
        from ashore.cli.simulators import Source, run_compare

        source = Source(
            task, checkpoint, motion, device, trust, 1, load_run, load_checkpoint,
            overrides=overrides or (), pretrained=pretrained,
        )  # fmt: skip
        same = run_compare(
            simulator, path, source, steps=steps, seed=seed, atol=atol, write=not no_report, as_json=as_json
        )
        raise typer.Exit(0 if same else CHECK_FAILED)


_simulator_commands("mjlab")
_simulator_commands("isaaclab")
add_commands(exporting)


@exporting.command("lerobot")
def export_lerobot(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT_DIR", help="What save_pretrained wrote, or a training step with it.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PKG", help="The package.", show_default="beside the checkpoint")
    ] = None,
    backend: Annotated[Literal["onnx", "openvino"], typer.Option(help="What the stages are written for.")] = "onnx",
    images: Annotated[
        Literal["uint8_hwc", "float_chw"],
        typer.Option(help="What the robot gives: as cameras have them, or as LeRobot's datasets have them."),
    ] = "uint8_hwc",
    guidance: Annotated[
        bool, typer.Option("--guidance", help="Of flows: real-time chunking, as the policy is configured.")
    ] = False,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="A module with a policy of your own, to import first.")
    ] = None,
    no_graph: Annotated[bool, typer.Option("--no-graph", help="Draw no picture.")] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Export every stage anew, and keep none for next time.")
    ] = False,
    atol: Annotated[float, typer.Option(help="Absolute tolerance of what is verified.")] = 1e-5,
    rtol: Annotated[float, typer.Option(help="Relative tolerance.")] = 1e-5,
    allow: Annotated[list[str] | None, typer.Option(metavar="FINDING", help="A finding that may be there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Export a LeRobot policy with its processors: ACT, Diffusion, VQ-BeT, SmolVLA, pi0.5."""
    from ashore.cli.learning import run_export

    options = {
        "backend": backend, "images": images, "guidance": guidance, "picture": not no_graph,
        "cache": not no_cache, "atol": atol, "rtol": rtol, "allow": allow or (),
    }  # fmt: skip
    run_export(checkpoint, out, plugins=plugin or (), options=options, as_json=as_json)


def main() -> None:
    """Run the command line; what Ashore refuses becomes one message and exit code 3."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every letter
    try:
        app()
    except AshoreError as error:
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(REFUSED)
