"""`anabranch reproduce` and `agree`: what papers report beside what runs give."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import Force, Jobs, Json, Record, Set, names, out_option, overrides

if TYPE_CHECKING:
    from anabranch.papers.report import Report

# The papers' modules are imported where they are used, because they are slow to load.


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("reproduce")(reproduce_command)
    app.command("agree")(agree_command)


def reproduce_command(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="A folder of papers/, such as olia, or all.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, shorter runs.")] = False,
    out: Annotated[Path | None, out_option("Write the report and its data to DIR.")] = None,
    force: Force = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print every number and claim, not only the summary."),
    ] = False,
    as_json: Json = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the tables for LaTeX.")] = False,
    record: Record = None,
) -> None:
    """Reproduce a paper: published, measured and theoretical numbers, and a verdict on each claim.

    Exits with 1 if a claim fails and no reason for it is recorded (`not_reproduced`).

    Examples:

        anabranch reproduce olia --quick --out results/olia

        anabranch reproduce olia --latex > olia.tex

        anabranch reproduce all --out results/papers --record papers.csv
    """
    from anabranch.cli import papers_tables
    from anabranch.papers import reproduce
    from anabranch.papers.summary import Summary

    report: Report | Summary
    with tables.progress(f"reproduce {paper}") as progress:
        if paper == "all":
            report = reproduce.reproduce_all(quick, out, progress, force)
        else:
            report = reproduce.reproduce(paper, quick, out, progress, force)
    if latex:
        in_words = papers_tables.latex
    elif paper == "all":
        in_words = partial(papers_tables.summary, verbose=verbose)
    else:
        in_words = partial(papers_tables.report, verbose=verbose)
    tables.answer(report, as_json, in_words)
    if out:
        note(f"The report is in {out / ('index.html' if paper == 'all' else 'report.html')}")
    if record:
        written = report if isinstance(report, Summary) else Summary([report], report.command)
        record.write_text(written.record(), encoding="utf-8")
    if report.failed:
        raise typer.Exit(1)


def agree_command(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="A folder of papers/.")],
    on: Annotated[
        str,
        typer.Option(
            "--on", metavar="A,B,...", help="Backends; the others are compared with the first."
        ),
    ] = "sim,equilibrium",
    jobs: Jobs = None,
    out: Annotated[Path | None, out_option("Write agreement.md and .json to DIR.")] = None,
    force: Force = False,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The agreement.json of an earlier run, whose columns are added."
        ),
    ] = None,
    settings: Set = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Run some of a paper's cases on several backends: do they agree?

    Example:

        anabranch agree olia --on sim,equilibrium,kernel --out results/olia-agreement

        anabranch agree olia --on sim,equilibrium --beside results/olia-kernel/agreement.json

        anabranch agree olia --on sim --set tcp.scheduler=linux
    """
    from anabranch.cli import papers_tables
    from anabranch.papers import agreement

    with tables.progress(f"agree {paper}") as progress:
        values, backends = overrides(settings), names(on, "--on")
        agreed = agreement.agree(paper, backends, out, jobs, progress, beside, values, force)
    if record:
        record.write_text(agreed.record(), encoding="utf-8")
    tables.answer(agreed, as_json, papers_tables.agreement)
