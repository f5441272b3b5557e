"""`anabranch run` and `compare`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli import tables
from anabranch.cli.notes import warn
from anabranch.cli.options import (
    File,
    Force,
    Formats,
    Jobs,
    Json,
    Pictures,
    Set,
    Width,
    names,
    out_option,
    pictures,
    seeds_option,
)
from anabranch.cli.request import TOLERATED, Answer, Request, optima, say_where, write
from anabranch.files import output
from anabranch.scenario import ScenarioError

FAILED = 1
"""Exit code when an algorithm of a comparison has failed, or a table is not repeated."""

# pandas, Matplotlib and theory are imported where they are used, because they are slow to load.

Names = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "-a",
        metavar="A,B,...",
        help="Algorithms of the flows that name none, such as lia,olia,balia:cap=inf, or "
        "my_rule.py:Gentle, a class in a file. Default: the scenario's.",
    ),
]
Seeds = Annotated[Any, seeds_option(" Default: the scenario's.")]
Out = Annotated[
    Path | None,
    out_option("Write tables (Parquet), scenario, traces, manifest and figures (SVG, PNG) to DIR."),
]
WithGain = Annotated[
    bool,
    typer.Option(
        "--gain",
        help="Print what each flow with several paths gains over the best of them alone, with "
        "Reno: a further run for each path.",
    ),
]
Measurements = Annotated[
    list[str] | None,
    typer.Option(
        "--measured",
        metavar="FLOW=MBPS",
        help="A goodput that you have measured, per user of the flow, to print beside the "
        "computed one. Repeatable; several of one flow are as many measurements.",
    ),
]
MeasuredFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--measured-from",
        metavar="[FLOW=]FILE[#N]",
        help="The same, read from the output of `iperf3 -J` or of `ss -tin`, or a "
        "capture, as in phone=ss.txt. #2 takes the second connection of the file. Repeatable.",
    ),
]
ON = typer.Option(
    "--on",
    metavar="BACKEND",
    help="The backend: sim, the default; fluid or equilibrium, the equations of the rules; "
    "quic, QUIC endpoints in virtual time; or kernel, real Linux hosts in real time (as root). "
    "Several, as in sim,quic, are printed side by side; --out has a folder for each.",
    show_default=False,
)
Qlog = Annotated[
    Path | None,
    out_option(
        "Write the events of each end of each connection as qlog files to DIR, in a folder per "
        "run, with --on quic; on sim the samples of each user's paths.",
        "--qlog",
    ),
]
Pcap = Annotated[
    Path | None,
    out_option(
        "Write the packets at each sender as pcapng files, for Wireshark, to DIR, in a folder per "
        "run. With --on sim only.",
        "--pcap",
    ),
]
WithOptimum = Annotated[
    bool, typer.Option("--optimum", help="Print how far each algorithm is from the optimum.")
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("run")(run_command)
    app.command("compare")(compare_command)


def run_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A scenario file (TOML), or a directory that --out has written."
        ),
    ],
    algorithm: Names = None,
    seeds: Seeds = None,
    set_: Set = None,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw figures; without --out into results/.")
    ] = False,
    formats: Formats = None,
    width: Width = None,
    optimum: WithOptimum = False,
    on: Annotated[str | None, ON] = None,
    measured: Measurements = None,
    measured_from: MeasuredFrom = None,
    jobs: Jobs = None,
    qlog: Qlog = None,
    pcap: Pcap = None,
) -> None:
    """Run a scenario and print the results of each flow and link.

    Several backends, as in --on sim,equilibrium,quic, are printed side by side. A goodput that you
    have measured is printed beside each: inside or outside the interval of 95 % of runs.

    A directory that --out has written is repeated: the same runs, compared to the bit; the exit
    code is 1 if a table differs.

    With --json: means and all seven tables, as `anabranch schema result` describes.

    Examples:

        anabranch run examples/two_links.toml

        anabranch run examples/two_links.toml --algorithm lia,olia --seeds 5 --out results

        anabranch run results

        anabranch run examples/two_links.toml --set links.left.rate_mbps=30 --json

        anabranch run examples/two_links.toml --on quic --qlog results/qlog

        anabranch run examples/two_links.toml --on sim,equilibrium --measured two-path=9.1

        anabranch run examples/two_links.toml --measured-from 'two-path=ss.txt#2'

        anabranch run examples/two_links.toml --out results --format pdf,latex --width column

        anabranch run examples/two_links.toml --pcap results/pcap
    """
    out = out or (Path("results") if plot else None)
    look = pictures(formats, width, out)
    if file.is_dir():
        given: dict[str, object] = {"--algorithm": algorithm, "--seeds": seeds, "--set": set_}
        given |= {"--on": on, "--qlog": qlog, "--pcap": pcap}
        given |= {"--measured": measured, "--measured-from": measured_from}
        _refuse(file, [option for option, value in given.items() if value is not None])
        _repeat(file, optimum, as_json, out, force, look, jobs)
        return
    Request(
        command="run",
        file=file,
        algorithm=algorithm,
        seeds=seeds,
        settings=set_,
        on=names(on or "sim", "--on"),
        jobs=jobs,
        out=out,
        qlog=qlog,
        pcap=pcap,
        force=force,
        pictures=look,
        as_json=as_json,
        optimum=optimum,
        measured=measured or (),
        measured_from=measured_from or (),
    ).carry_out()


def compare_command(
    file: File,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", metavar="A,B,...", help="The algorithms to compare.")
    ],
    seeds: Seeds = None,
    set_: Set = None,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
    formats: Formats = None,
    width: Width = None,
    optimum: WithOptimum = False,
    gain: WithGain = False,
    on: Annotated[str, ON] = "sim",
    measured: Measurements = None,
    measured_from: MeasuredFrom = None,
    jobs: Jobs = None,
    qlog: Qlog = None,
    pcap: Pcap = None,
) -> None:
    """Run a scenario with several algorithms and print them side by side, then what differs.

    An algorithm that fails is marked, with the reason; the others run on, and the exit code is 1.
    With --json: means and all seven tables, as `anabranch schema result` describes.

    Example:

        anabranch compare examples/two_links.toml --algorithm reno,lia,olia,balia --seeds 5

        anabranch compare examples/two_links.toml --algorithm lia,wvegas --optimum --gain

        anabranch compare examples/two_links.toml --algorithm lia,examples/my_rule.py:Gentle

        anabranch compare examples/two_links.toml --algorithm lia,olia --on kernel --jobs 2
    """
    results = Request(
        command="compare",
        file=file,
        algorithm=algorithm,
        seeds=seeds,
        settings=set_,
        on=names(on, "--on"),
        jobs=jobs,
        out=out,
        qlog=qlog,
        pcap=pcap,
        force=force,
        pictures=pictures(formats, width, out),
        as_json=as_json,
        optimum=optimum,
        gain=gain,
        measured=measured or (),
        measured_from=measured_from or (),
    ).carry_out()
    if any(result.failures for result in results):
        raise typer.Exit(FAILED)


def _repeat(
    file: Path,
    optimum: bool,
    as_json: bool,
    out: Path | None,
    force: bool,
    look: Pictures,
    jobs: int | None,
) -> None:
    """Repeat the runs of a result directory, answer, and say whether the tables are the same."""
    from anabranch.result.manifest import Manifest
    from anabranch.runner.repetition import repeat, warnings

    stored = Manifest.read(file)
    for warning in warnings(stored):
        warn(warning)
    best = optima(file / "scenario.toml", None) if optimum else None
    with output(out, force) as stage:
        with tables.progress("run") as progress:
            again = repeat(stored, jobs, progress, TOLERATED)
        for warning in again.result.warnings:
            warn(warning)
        Answer(as_json, best=best).print([again.result])
        kept = write(again.result, stage, look) if stage else again.result.seeds
    print(again.verdict, file=sys.stderr if as_json else sys.stdout)
    if out:
        say_where(out, kept, again.result.seeds)
    if again.differing:
        raise typer.Exit(FAILED)


def _refuse(file: Path, options: list[str]) -> None:
    if options:
        raise ScenarioError(
            f"{options[0]}: {file} is repeated as it ran; to change it: "
            f"anabranch run {file / 'scenario.toml'} {options[0]} ..."
        )
