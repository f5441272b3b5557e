"""Reports of papers, their summary, and the agreement of backends, as tables on the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from anabranch.cli.tables import STDOUT, statements
from anabranch.formats import number, percent
from anabranch.papers.agreement import Agreement
from anabranch.papers.judge import Verdict
from anabranch.papers.report import Item, Report, Score, measured
from anabranch.papers.summary import NEAR, Summary, cells

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.FAILS: "bold red",
    Verdict.NOT_REPRODUCED: "yellow",
    Verdict.NOT_COMPARABLE: "dim",
    Verdict.HUMAN: "dim",
}


def report(report: Report) -> None:
    """A paper's published and measured numbers, then its claims with their verdicts."""
    STDOUT.print(Text(f"{report.title} ({report.source})", style="bold"))
    for item in report.items:
        if item.tables:
            STDOUT.print(Text(f"\n{item.title} ({item.place})"))
            STDOUT.print(_numbers(report, item))
    STDOUT.print(Text(f"\nClaims: {report.tally()}"))
    STDOUT.print(_claims(report))
    if report.statements:
        STDOUT.print(Text("What the paper states, tested by calculation\n"))
        statements(report.statements)
    for name, choice in report.choices.items():
        holding = ", ".join(claim.id for claim in report.resting_on(name)) or "none"
        STDOUT.print(Text(f"Chosen after results were seen ({choice['when']}): {choice['text']}"))
        STDOUT.print(Text(f"  claims that hold only so: {holding}. {choice['otherwise']}"))


def summary(summary: Summary) -> None:
    """Every table and figure of all papers, each paper, all, then the claims that fail."""
    table = _grid("", "table or figure", right=[*Verdict, *NEAR])
    before = None
    for report, item in summary.lines():
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


def agreement(agreement: Agreement) -> None:
    """A table per metric: the numbers of each backend."""
    for (first, *others), rows in agreement.tables():
        table = _grid(first, right=others)
        for row in rows:
            table.add_row(*row)
        STDOUT.print(table)


def _numbers(report: Report, item: Item) -> Table:
    theories = report.theories(item)
    right = ["published", "measured", "difference", *map(report.label, theories)]
    grid = _grid("", "case", right=right)
    for table in item.tables:
        for i, row in enumerate(table.rows):
            grid.add_row(
                report.label(table.metric) if i == 0 else "",
                report.label(row.case),
                number(row.published),
                measured(row),
                percent(row.difference),
                *(number(row.theory.get(name)) for name in theories),
            )
        grid.add_section()
    return grid


def _claims(report: Report) -> Table:
    table = _grid("claim", "verdict", "", "numbers")
    for claim in report.claims:
        because = f"{claim.because}\n{claim.reason}" if claim.reason else claim.because
        if claim.rests_on:
            because += f"\nrests on: {', '.join(claim.rests_on)}"
        verdict = Text(claim.verdict, style=STYLES[claim.verdict])
        text = f"Ours: {claim.text}" if claim.own else claim.text
        table.add_row(claim.id, verdict, Text(text), Text(because))
    return table


def _score(score: Score) -> list[Text]:
    styles = [*(STYLES[verdict] for verdict in Verdict), *[""] * len(NEAR)]
    return [Text(cell, style=style) for cell, style in zip(cells(score), styles, strict=True)]


def _grid(*left: str, right: Sequence[str] = ()) -> Table:
    """An empty table: text columns, then columns of numbers."""
    grid = Table(box=box.SIMPLE, pad_edge=False)
    for name in left:
        grid.add_column(name)
    for name in right:
        grid.add_column(name, justify="right")
    return grid
