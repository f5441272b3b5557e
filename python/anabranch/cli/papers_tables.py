"""Reports of papers, their summary, and the agreement of backends, as tables on the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from anabranch.cli.tables import STDOUT
from anabranch.formats import number, percent
from anabranch.papers.agreement import Agreement
from anabranch.papers.judge import Verdict
from anabranch.papers.report import Item, Report, measured
from anabranch.papers.summary import Summary

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


def summary(summary: Summary) -> None:
    """The verdicts of every table and figure of all papers, then the claims that fail."""
    table = _grid("", "table or figure", right=list(Verdict))
    before = None
    for report, item, counts in summary.lines():
        if report is not before:
            table.add_section()
        name, before = report.name if report is not before else "", report
        table.add_row(name, item.title, *_counts(counts))
    table.add_section()
    table.add_row("all", "", *_counts(summary.totals()))
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
        verdict = Text(claim.verdict, style=STYLES[claim.verdict])
        table.add_row(claim.id, verdict, Text(claim.text), Text(because))
    return table


def _counts(counts: dict[Verdict, int]) -> list[Text]:
    return [Text(str(n) if n else "", style=STYLES[verdict]) for verdict, n in counts.items()]


def _grid(*left: str, right: Sequence[str] = ()) -> Table:
    """An empty table: text columns, then columns of numbers."""
    grid = Table(box=box.SIMPLE, pad_edge=False)
    for name in left:
        grid.add_column(name)
    for name in right:
        grid.add_column(name, justify="right")
    return grid
