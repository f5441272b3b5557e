"""The command line: `anabranch run`, `compare`, `list`, `schema`, `lab`, `reproduce`, `theory`."""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch import kernel
from anabranch.cli import tables, theory
from anabranch.cli.options import Set, overrides
from anabranch.files import staged
from anabranch.result import Result
from anabranch.runner import run
from anabranch.scenario import ScenarioError, load, rules, schema
from anabranch.theory.errors import NotConverged

if TYPE_CHECKING:
    from anabranch.papers.report import Report
    from anabranch.papers.summary import Summary
    from anabranch.theory.optimum.optimum import Optimum as Best

NOT_CONVERGED = 1
USAGE_ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Congestion control over several paths: run scenarios, compare algorithms, reproduce "
    "papers.\n\nExit codes: 0 fine, 1 a claim of a paper fails or an iteration does not converge, "
    "2 usage or scenario error, 130 interrupted.",
)
app.add_typer(theory.app, name="theory")

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file (TOML).")]
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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
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
        help="What runs it: sim; fluid or equilibrium, the rules' own equations; or kernel, real "
        "Linux hosts in real time (as root).",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Runs at a time. Default: a core each; kernel 1."),
]
Optimum = Annotated[
    bool, typer.Option("--optimum", help="Say how far each algorithm is from the optimum.")
]


@app.command("run")
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
    optimum: Optimum = False,
    on: On = "sim",
    jobs: Jobs = None,
) -> None:
    """Run a scenario and print what each flow and link got.

    Examples:

        anabranch run examples/two_links.toml

        anabranch run examples/two_links.toml --algorithm lia,olia --seeds 5 --out results

        anabranch run examples/two_links.toml --set links.left.rate_mbps=30 --json
    """
    best = _optima(file, set_) if optimum else None
    result = _run(
        file, algorithm, seeds, set_, out or (Path("results") if plot else None), on, jobs
    )
    _answer(result, best, as_json, tables.run)


@app.command()
def compare(
    file: File,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", metavar="A,B,...", help="The algorithms to compare.")
    ],
    seeds: Seeds = None,
    set_: Set = None,
    as_json: Json = False,
    out: Out = None,
    optimum: Optimum = False,
    on: On = "sim",
    jobs: Jobs = None,
) -> None:
    """Run a scenario with several algorithms and print them side by side.

    Example:

        anabranch compare examples/two_links.toml --algorithm reno,lia,olia,balia --seeds 5

        anabranch compare examples/two_links.toml --algorithm lia,wvegas --optimum

        anabranch compare examples/two_links.toml --algorithm lia,olia --on kernel --jobs 2
    """
    best = _optima(file, set_) if optimum else None
    _answer(_run(file, algorithm, seeds, set_, out, on, jobs), best, as_json, tables.comparison)


@app.command("list")
def list_command() -> None:
    """List the algorithms with their parameters and sources."""
    tables.rules(rules())


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of scenario files, for editors.

    Example:

        anabranch schema > scenario.schema.json
    """
    print(schema())


@app.command(
    "lab",
    context_settings={
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
def lab_command(context: typer.Context) -> None:
    """Real hosts: `lab shell`, `lab exec`, `lab check` of the program anabranch-lab (as root).

    Examples:

        anabranch lab check

        anabranch lab shell examples/two_links.toml two-path

        anabranch lab exec examples/two_links.toml server -- iperf3 -s
    """
    program = kernel.program()
    os.execv(program, [program, *context.args])


@app.command()
def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="A folder of papers/, such as olia, or all.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, shorter runs.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the report and its data to DIR.")
    ] = None,
    as_json: Json = False,
    readme: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With all: put the summary, dated, between its markers."),
    ] = None,
) -> None:
    """Reproduce a paper: published beside measured beside theory, and each claim judged.

    Exits with 1 when a claim fails that is not marked as not reproduced, with the reason.

    Examples:

        anabranch reproduce olia --quick --out results/olia

        anabranch reproduce all --out results/papers --readme README.md
    """
    # Here, because the other commands do not need them.
    from anabranch.cli import papers_tables
    from anabranch.papers import reproduce

    if paper != "all" and readme:
        raise ScenarioError(f"--readme {readme}: expected `reproduce all`, whose summary it takes")
    report: Report | Summary
    with tables.progress() as progress:
        if paper == "all":
            report = reproduce.reproduce_all(quick, out, readme, progress)
        else:
            report = reproduce.reproduce(paper, quick, out, progress)
    in_words = papers_tables.summary if paper == "all" else papers_tables.report
    tables.answer(report, as_json, in_words)
    if out:
        page = "index.html" if paper == "all" else "report.html"
        print(f"The report is in {out / page}", file=sys.stderr)
    if report.failed:
        raise typer.Exit(1)


@app.command()
def agree(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="A folder of papers/.")],
    on: Annotated[
        str, typer.Option("--on", metavar="A,B,...", help="Backends; the first is compared with.")
    ] = "sim,equilibrium",
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write agreement.md and .json to DIR.")
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="An agreement.json of an earlier run, to be put beside this one."
        ),
    ] = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Run some of a paper's cases on several backends: do they agree?

    Example:

        anabranch agree olia --on sim,equilibrium,kernel --out results/olia-agreement

        anabranch agree olia --on sim,equilibrium --beside results/olia-kernel/agreement.json

        anabranch agree olia --on sim --set tcp.scheduler=linux
    """
    # Here, because the other commands do not need them.
    from anabranch.cli import papers_tables
    from anabranch.papers import agreement

    with tables.progress() as progress:
        values = overrides(settings)
        agreed = agreement.agree(paper, on.split(","), out, jobs, progress, beside, values)
    tables.answer(agreed, as_json, papers_tables.agreement)


def main() -> None:
    """Entry point: every error the user can mend is one line on stderr."""
    try:
        code = app(prog_name="anabranch", standalone_mode=False)
    except typer.TyperException as error:
        code = _complain(error.format_message())
    except (ScenarioError, OSError, UnicodeError) as error:
        code = _complain(str(error))
    except NotConverged as error:
        code = _complain(str(error), NOT_CONVERGED)
    if code == INTERRUPTED:  # Typer's answer to Ctrl-C
        print("anabranch: interrupted", file=sys.stderr)
    sys.exit(code)


def _complain(message: str, code: int = USAGE_ERROR) -> int:
    if message:  # none where the help was printed, because nothing else was asked for
        print("anabranch:", " ".join(message.split()), file=sys.stderr)
    return code


def _run(
    file: Path,
    algorithm: str | None,
    seeds: int | None,
    settings: list[str] | None,
    out: Path | None,
    on: str,
    jobs: int | None,
) -> Result:
    names = algorithm.split(",") if algorithm is not None else None
    # The output directory is opened first: one that can't be written is told before the run.
    with staged(out) if out else nullcontext() as stage:
        with tables.progress() as progress:
            result = run(
                file,
                names,
                seeds,
                overrides=overrides(settings),
                on=on,
                threads=jobs,
                progress=progress,
            )
        if stage:
            from anabranch.figures import (
                result as figures,  # here, because Matplotlib takes half a second to load
            )

            result.write(stage)
            figures.write(result, stage)
    if out:
        print(f"Tables and figures are in {out}", file=sys.stderr)
    return result


def _optima(file: Path, settings: list[str] | None) -> list["Best"]:
    """The optimum of each interval of a scenario; before the run, which may take long."""
    from anabranch.theory.optimum.optimum import optima  # here, because few need it

    return optima(load(file, overrides(settings)))


def _answer(
    result: Result,
    best: list["Best"] | None,
    as_json: bool,
    in_words: Callable[[Result], None],
) -> None:
    if best is None:
        tables.answer(result, as_json, in_words)
        return
    from anabranch.cli import optimum_tables
    from anabranch.theory.optimum.distance import Beside, distance

    def both(beside: Beside) -> None:
        in_words(beside.result)
        optimum_tables.distance(beside.distance)

    tables.answer(Beside(result, distance(result, best)), as_json, both)
