"""`anabranch reproduce` and `agree`: what papers report beside what runs give."""

from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import (
    Force,
    Jobs,
    Json,
    Record,
    Set,
    Store,
    names,
    out_option,
    overrides,
)
from anabranch.cli.tables import STDOUT, Grid, new_table, statements
from anabranch.record import check as check_record
from anabranch.record import update

if TYPE_CHECKING:
    from anabranch.papers.agreement import Agreement
    from anabranch.papers.judge import Claim
    from anabranch.papers.report import Item, Report, Score
    from anabranch.papers.summary import Summary

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
    jobs: Jobs = None,
    store: Store = None,
    record: Record = None,
) -> None:
    """Reproduce a paper: published, measured and theoretical numbers, and a verdict on each claim.

    Exits with 1 if a claim fails and no reason for it is recorded (`not_reproduced`).

    Examples:

        anabranch reproduce olia --quick --out results/olia

        anabranch reproduce olia --latex > olia.tex

        anabranch reproduce all --out results/papers --record papers.csv
    """
    from anabranch.papers import reproduce
    from anabranch.papers.summary import Summary

    check_record(record, "paper", "claim")
    report: Report | Summary
    with tables.progress(f"reproduce {paper}") as progress:
        if paper == "all":
            report = reproduce.reproduce_all(quick, out, progress, force, store, jobs)
        else:
            report = reproduce.reproduce(paper, quick, out, progress, force, store, jobs)
    if latex:
        in_words = show_latex
    elif paper == "all":
        in_words = partial(show_summary, verbose=verbose)
    else:
        in_words = partial(show_report, verbose=verbose)
    tables.answer(report, as_json, in_words)
    if out:
        note(f"The report is in {out / ('index.html' if paper == 'all' else 'report.html')}")
    if record:
        written = report if isinstance(report, Summary) else Summary([report], report.command)
        update(record, written.record(), names=2, whole=1, anew=paper == "all")
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
    store: Store = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Run some of a paper's cases on several backends: do they agree?

    Example:

        anabranch agree olia --on sim,equilibrium,kernel --out results/olia-agreement

        anabranch agree olia --on sim,equilibrium --beside results/olia-kernel/agreement.json

        anabranch agree olia --on sim --set tcp.scheduler=linux
    """
    from anabranch.papers import agreement

    with tables.progress(f"agree {paper}") as progress:
        values, backends = overrides(settings), names(on, "--on")
        how = (out, jobs, progress, beside, values, force, store)
        agreed = agreement.agree(paper, backends, *how)
    if record:
        record.write_text(agreed.record(), encoding="utf-8")
    tables.answer(agreed, as_json, show_agreement)


# Reports of papers, their summary, and the agreement of backends, as tables on the terminal.


STYLES = {
    "holds": "green",
    "undecided": "yellow",
    "fails": "bold red",
    "not reproduced": "yellow",
    "not comparable": "dim",
    "needs human judgement": "dim",
}


def show_report(report: "Report", verbose: bool = False) -> None:
    """A paper's scores and the claims that do not hold; before these, if `verbose`, all of it."""
    STDOUT.print(Text(f"{report.title} ({report.source})", style="bold"))
    if verbose:
        _everything(report)
    STDOUT.print("", _scores(report), "", sep="\n")
    for claim in (claim for claim in report.claims if claim.verdict != "holds"):
        _claim(claim)
    for name, choice in report.choices.items():
        holding = ", ".join(claim.id for claim in report.resting_on(name)) or "none"
        STDOUT.print(Text(f"Chosen after results were seen ({choice.when}): {choice.text}"))
        _indented(f"Claims that hold only so: {holding}. {choice.otherwise}\n")
    STDOUT.print(Text(f"{report.name}: {report.tally()}.", style="bold"))
    if report.failed and report.command.endswith("--quick"):
        STDOUT.print(Text("A claim that fails here may hold in full runs, without --quick."))
    if not verbose:
        STDOUT.print(Text("All numbers and claims: --verbose, or the report that --out writes."))


def _everything(report: "Report") -> None:
    """Published and measured numbers, claims and statements."""
    for item in report.items:
        if item.tables:
            STDOUT.print(Text(f"\n{item.title} ({item.place})\n"))
            STDOUT.print(_numbers(report, item))
    STDOUT.print(Text("\nClaims\n"))
    for claim in report.claims:
        _claim(claim)
    if report.statements:
        STDOUT.print(Text("What the paper states, tested by calculation\n"))
        statements(report.statements)


def _scores(report: "Report") -> Grid:
    """The verdicts and near numbers of each table and figure, without columns that are empty."""
    from anabranch.papers.summary import COLUMNS

    scored = [item for item in report.items if item.claims or item.score.numbers]
    rows = [[Text(item.title), *_score(item.score)] for item in scored]
    rows.append([Text("all"), *_score(report.score)])
    heads = ["", *COLUMNS]
    kept = [i for i in range(len(heads)) if any(row[i].plain for row in rows)]
    table = new_table("", right=[heads[i] for i in kept[1:]])
    for row in rows:
        table.add_row(*(row[i] for i in kept), end_section=row is rows[-2])
    return table


def show_summary(summary: "Summary", verbose: bool = False) -> None:
    """The score of each paper, claims that fail; before these, if `verbose`, of every table."""
    from anabranch.papers.summary import COLUMNS

    table = new_table("", "table or figure", right=COLUMNS, keys=2)
    before = None
    for report, item in summary.lines() if verbose else ():
        if report is not before:
            table.add_section()
        name, before = report.name if report is not before else "", report
        table.add_row(name, item.title, *_score(item.score))
    table.add_section()
    for report in summary.reports:
        table.add_row(report.name, "all", *_score(report.score))
    table.add_row("all", "", *_score(summary.score))
    STDOUT.print(table)
    for claim in summary.failed:
        STDOUT.print(Text(f"{claim.id} fails: {claim.text} {claim.because}", style="bold red"))
    if not verbose:
        STDOUT.print(Text("\nEvery table and figure: --verbose, or the report that --out writes."))


def show_latex(found: "Report | Summary") -> None:
    """The tables of a paper, or of all papers one after the other, for LaTeX."""
    from anabranch.papers.report import latex as latex_of
    from anabranch.papers.summary import Summary

    reports = found.reports if isinstance(found, Summary) else [found]
    print(*map(latex_of, reports), sep="\n")


def show_agreement(agreement: "Agreement") -> None:
    """A table per metric: the numbers of each backend."""
    for (first, *others), rows in agreement.tables():
        table = new_table(first, right=others)
        for row in rows:
            table.add_row(*row)
        STDOUT.print(table)


def _numbers(report: "Report", item: "Item") -> Grid:
    from anabranch.papers.report import in_cells

    (_, _, *right), rows = in_cells(report, item)
    grid = new_table("", right=right)
    for metric, of_metric in groupby(rows, itemgetter(0)):
        grid.add_row(Text(metric, "bold"))
        for _, *cells in of_metric:
            grid.add_row(*cells)
        grid.add_section()
    return grid


def _claim(claim: "Claim") -> None:
    """A claim with its verdict, the numbers compared, and the reason why it is not reproduced."""
    verdict = Text(claim.verdict, style=STYLES[claim.verdict])
    STDOUT.print(Text.assemble((claim.id, "bold"), ": ", verdict))
    _indented(f"Ours: {claim.text}" if claim.own else claim.text)
    _indented(claim.because)
    if claim.reason:
        _indented(f"Reason: {claim.reason}")
    if claim.rests_on:
        _indented(f"Rests on: {', '.join(claim.rests_on)}")
    STDOUT.print()


def _indented(text: str) -> None:
    STDOUT.print(Padding(Text(text), (0, 0, 0, 2), expand=False))


def _score(score: "Score") -> list[Text]:
    from anabranch.papers.summary import COLUMNS, cells

    pairs = zip(COLUMNS, cells(score), strict=True)
    return [Text(cell, style=STYLES.get(column, "")) for column, cell in pairs]
