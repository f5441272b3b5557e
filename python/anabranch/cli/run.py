"""`anabranch run` and `compare`."""

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.caveats import caveats
from anabranch.cli import tables
from anabranch.cli.notes import detail, note, warn
from anabranch.cli.options import (
    ANY,
    File,
    Force,
    Jobs,
    Json,
    Set,
    names,
    out_option,
    scenario_of,
    seeds_option,
)
from anabranch.files import output
from anabranch.scenario import ScenarioError
from anabranch.theory.errors import NotConverged

if TYPE_CHECKING:
    from anabranch.result import Result
    from anabranch.theory.optimum.optimum import Optimum

FAILED = 1
"""Exit code when an algorithm of a comparison has failed, or a table is not repeated."""
TOLERATED = (ScenarioError, NotConverged)
"""The errors by which an algorithm may fail without ending a comparison."""

# pandas, Matplotlib and theory are imported where they are used, because they are slow to load.

Names = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "-a",
        metavar="A,B,...",
        help="Algorithms of the flows that name none, such as lia,olia,balia:cap=inf. "
        "Default: the scenario's.",
    ),
]
Seeds = Annotated[Any, seeds_option(" Default: the scenario's.")]
Out = Annotated[
    Path | None,
    out_option("Write tables (Parquet), scenario, traces, manifest and figures (SVG, PNG) to DIR."),
]
ON = typer.Option(
    "--on",
    metavar="BACKEND",
    help="The backend: sim, the default; fluid or equilibrium, the equations of the rules; "
    "quic, QUIC endpoints in virtual time; or kernel, real Linux hosts in real time (as root).",
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
    optimum: WithOptimum = False,
    on: Annotated[str | None, ON] = None,
    jobs: Jobs = None,
    qlog: Qlog = None,
    pcap: Pcap = None,
) -> None:
    """Run a scenario and print the results of each flow and link.

    A directory that --out has written is repeated: the same runs, compared to the bit; the exit
    code is 1 if a table differs.

    With --json: means and all seven tables, as `anabranch schema result` describes.

    Examples:

        anabranch run examples/two_links.toml

        anabranch run examples/two_links.toml --algorithm lia,olia --seeds 5 --out results

        anabranch run results

        anabranch run examples/two_links.toml --set links.left.rate_mbps=30 --json

        anabranch run examples/two_links.toml --on quic --qlog results/qlog

        anabranch run examples/two_links.toml --pcap results/pcap
    """
    out = out or (Path("results") if plot else None)
    if file.is_dir():
        given: dict[str, object] = {"--algorithm": algorithm, "--seeds": seeds, "--set": set_}
        given |= {"--on": on, "--qlog": qlog, "--pcap": pcap}
        _refuse(file, [option for option, value in given.items() if value is not None])
        _repeat(file, optimum, as_json, out, force, jobs)
        return
    best = _optima(file, set_) if optimum else None
    answer = partial(_answer, best=best, as_json=as_json, in_words=tables.run)
    _run("run", file, algorithm, seeds, set_, out, qlog, pcap, force, on or "sim", jobs, answer)


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
    optimum: WithOptimum = False,
    on: Annotated[str, ON] = "sim",
    jobs: Jobs = None,
    qlog: Qlog = None,
    pcap: Pcap = None,
) -> None:
    """Run a scenario with several algorithms and print them side by side.

    An algorithm that fails is marked, with the reason; the others run on, and the exit code is 1.
    With --json: means and all seven tables, as `anabranch schema result` describes.

    Example:

        anabranch compare examples/two_links.toml --algorithm reno,lia,olia,balia --seeds 5

        anabranch compare examples/two_links.toml --algorithm lia,wvegas --optimum

        anabranch compare examples/two_links.toml --algorithm lia,olia --on kernel --jobs 2
    """
    best = _optima(file, set_) if optimum else None
    answer = partial(_answer, best=best, as_json=as_json, in_words=tables.comparison)
    result = _run(
        "compare", file, algorithm, seeds, set_, out, qlog, pcap, force, on, jobs, answer, TOLERATED
    )
    if result.failures:
        raise typer.Exit(FAILED)


def _run(
    command: str,
    file: Path,
    algorithm: str | None,
    seeds: Any,
    settings: list[str] | None,
    out: Path | None,
    qlog: Path | None,
    pcap: Path | None,
    force: bool,
    on: str,
    jobs: int | None,
    answer: Callable[["Result"], None],
    tolerate: tuple[type[Exception], ...] = (),
) -> "Result":
    """Run, answer, and write `out`: in this order, so that a full disk does not cost the answer."""
    from anabranch.asked import seeds_of, stand_in
    from anabranch.manifest import needed_bytes
    from anabranch.runner import known_backend, run

    chosen = names(algorithm) if algorithm is not None else None
    scenario = scenario_of(file, settings, stand_in(chosen))
    known = [*scenario.warnings, *caveats(scenario, on)]
    for warning in known:
        warn(warning)
    # Output directories are opened first, so that one that cannot be written fails early.
    runs = len(chosen or [""]) * len(seeds_of(seeds, scenario.seeds))
    needed = needed_bytes(scenario, runs) if known_backend(on).random else 0
    with output(out, force, needed) as stage:
        with (
            output(qlog, force) as logs,
            output(pcap, force) as packets,
            tables.progress(command) as progress,
        ):
            result = run(
                scenario,
                chosen,
                seeds,
                on=on,
                jobs=jobs,
                qlog=logs,
                pcap=packets,
                progress=progress,
                tolerate=tolerate,
            )
        for warning in result.warnings[len(known) :]:
            warn(warning)
        detail(f"{len(result.algorithms) * len(result.seeds)} runs on {on}")
        answer(result)
        kept = _write(result, stage) if stage else result.seeds
    if out:
        _say_where(out, kept, result.seeds)
    if qlog:
        note(f"Qlog files are in {qlog}")
    if pcap:
        note(f"Pcapng files are in {pcap}")
    return result


def _repeat(
    file: Path, optimum: bool, as_json: bool, out: Path | None, force: bool, jobs: int | None
) -> None:
    """Repeat the runs of a result directory, answer, and say whether the tables are the same."""
    from anabranch.manifest import Manifest
    from anabranch.repetition import repeat, warnings

    stored = Manifest.read(file)
    for warning in warnings(stored):
        warn(warning)
    best = _optima(file / "scenario.toml", None) if optimum else None
    with output(out, force) as stage:
        with tables.progress("run") as progress:
            again = repeat(stored, jobs, progress, TOLERATED)
        for warning in again.result.warnings:
            warn(warning)
        _answer(again.result, best, as_json, tables.run)
        kept = _write(again.result, stage) if stage else again.result.seeds
    print(again.verdict, file=sys.stderr if as_json else sys.stdout)
    if out:
        _say_where(out, kept, again.result.seeds)
    if again.differing:
        raise typer.Exit(FAILED)


def _refuse(file: Path, options: list[str]) -> None:
    if options:
        raise ScenarioError(
            f"{options[0]}: {file} is repeated as it ran; to change it: "
            f"anabranch run {file / 'scenario.toml'} {options[0]} ..."
        )


def _write(result: "Result", stage: Path) -> list[int]:
    """Write the seeds, or the first half, quarter, ... of them for which the disk has room.

    Returns those that were written. Raises OSError where there is no room for one.
    """
    from anabranch.figures import result as figures

    kept = result
    while True:
        try:
            kept.write(stage, ["anabranch", *sys.argv[1:]])
            figures.write(kept, stage)
        except OSError as error:
            half = len(kept.seeds) // 2
            if error.errno != errno.ENOSPC or half == 0:
                raise
            for file in stage.iterdir():
                file.unlink()
            kept = result.of_seeds(kept.seeds[:half])
        else:
            return kept.seeds


def _say_where(out: Path, kept: list[int], seeds: list[int]) -> None:
    """Print where the results are. Raises OSError where some seeds had no room."""
    if kept == seeds:
        note(f"Tables and figures are in {out}")
        return
    some = ", ".join(map(str, kept))
    text = f"{os.strerror(errno.ENOSPC)}: of {len(seeds)} seeds it has {some}"
    raise OSError(errno.ENOSPC, text, str(out))


def _optima(file: Path, settings: list[str] | None) -> list["Optimum"]:
    """The optimum of each interval of a scenario; before the run, which may take long."""
    from anabranch.theory.optimum.optimum import optima

    return optima(scenario_of(file, settings, ANY))


def _answer(
    result: "Result",
    best: list["Optimum"] | None,
    as_json: bool,
    in_words: Callable[["Result"], None],
) -> None:
    if best is None:
        tables.answer(result, as_json, in_words)
        return
    from anabranch.cli.theory import optimum_tables
    from anabranch.theory.optimum.distance import Beside, distance

    def both(beside: Beside) -> None:
        in_words(beside.result)
        optimum_tables.distance(beside.distance)

    tables.answer(Beside(result, distance(result, best)), as_json, both)
