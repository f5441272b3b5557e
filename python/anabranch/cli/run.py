"""`anabranch run` and `compare`."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.options import File, Jobs, Json, Set, overrides
from anabranch.files import staged
from anabranch.scenario import ScenarioError, load
from anabranch.theory.errors import NotConverged

if TYPE_CHECKING:
    from anabranch.result import Result
    from anabranch.theory.optimum.optimum import Optimum

FAILED = 1
"""Exit code when an algorithm of a comparison has failed."""

# pandas, Matplotlib and theory are imported where they are used, because they are slow to load.

Names = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "-a",
        metavar="A,B,...",
        help="What flows without an algorithm of their own run, such as lia,olia,balia:cap=inf. "
        "Default: what the scenario says.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        min=1, max=10_000, metavar="N", help="Run with the seeds 1 to N. Default: the scenario's."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write tables (Parquet), scenario.toml and figures (SVG, PNG) to DIR."
    ),
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="BACKEND",
        help="What runs it: sim; fluid or equilibrium, the equations of the rules; or kernel, real "
        "Linux hosts in real time (as root).",
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
    file: File,
    algorithm: Names = None,
    seeds: Seeds = None,
    set_: Set = None,
    as_json: Json = False,
    out: Out = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw figures; without --out into results/.")
    ] = False,
    optimum: WithOptimum = False,
    on: On = "sim",
    jobs: Jobs = None,
) -> None:
    """Run a scenario and print what each flow and link got.

    With --json: means and all seven tables, as `anabranch schema result` describes.

    Examples:

        anabranch run examples/two_links.toml

        anabranch run examples/two_links.toml --algorithm lia,olia --seeds 5 --out results

        anabranch run examples/two_links.toml --set links.left.rate_mbps=30 --json
    """
    best = _optima(file, set_) if optimum else None
    out = out or (Path("results") if plot else None)
    answer = partial(_answer, best=best, as_json=as_json, in_words=tables.run)
    _run("run", file, algorithm, seeds, set_, out, on, jobs, answer)


def compare_command(
    file: File,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", metavar="A,B,...", help="The algorithms to compare.")
    ],
    seeds: Seeds = None,
    set_: Set = None,
    as_json: Json = False,
    out: Out = None,
    optimum: WithOptimum = False,
    on: On = "sim",
    jobs: Jobs = None,
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
    tolerate = (ScenarioError, NotConverged)
    result = _run("compare", file, algorithm, seeds, set_, out, on, jobs, answer, tolerate)
    if result.failures:
        raise typer.Exit(FAILED)


def _run(
    command: str,
    file: Path,
    algorithm: str | None,
    seeds: int | None,
    settings: list[str] | None,
    out: Path | None,
    on: str,
    jobs: int | None,
    answer: Callable[["Result"], None],
    tolerate: tuple[type[Exception], ...] = (),
) -> "Result":
    """Run, answer, and write `out`: in this order, so that a full disk does not cost the answer."""
    from anabranch.runner import run

    names = algorithm.split(",") if algorithm is not None else None
    scenario = load(file, overrides(settings))
    for warning in scenario.warnings:
        print(f"anabranch: warning: {warning}", file=sys.stderr)
    # The output directory is opened first, so that one that cannot be written fails early.
    with staged(out) if out else nullcontext() as stage:
        with tables.progress(command) as progress:
            result = run(
                scenario, names, seeds, on=on, jobs=jobs, progress=progress, tolerate=tolerate
            )
        answer(result)
        if stage:
            from anabranch.figures import result as figures

            result.write(stage)
            figures.write(result, stage)
    if out:
        print(f"Tables and figures are in {out}", file=sys.stderr)
    return result


def _optima(file: Path, settings: list[str] | None) -> list["Optimum"]:
    """The optimum of each interval of a scenario; before the run, which may take long."""
    from anabranch.theory.optimum.optimum import optima

    return optima(load(file, overrides(settings)))


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
