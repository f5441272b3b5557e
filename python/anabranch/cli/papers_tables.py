"""Reports of papers, their summary, and the agreement of backends, as tables on the terminal."""

from rich.padding import Padding
from rich.text import Text

from anabranch.cli.grid import Grid, new_table
from anabranch.cli.tables import STDOUT, statements
from anabranch.formats import number, percent
from anabranch.papers.agreement import Agreement
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import Item, Report, Score, measured
from anabranch.papers.report import latex as latex_of
from anabranch.papers.summary import COLUMNS, Summary, cells

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.UNDECIDED: "yellow",
    Verdict.FAILS: "bold red",
    Verdict.NOT_REPRODUCED: "yellow",
    Verdict.NOT_COMPARABLE: "dim",
    Verdict.HUMAN: "dim",
}


def report(report: Report, verbose: bool = False) -> None:
    """A paper's scores and the claims that do not hold; before these, if `verbose`, all of it."""
    STDOUT.print(Text(f"{report.title} ({report.source})", style="bold"))
    if verbose:
        _everything(report)
    STDOUT.print("", _scores(report), "", sep="\n")
    not_holding = [claim for claim in report.claims if claim.verdict is not Verdict.HOLDS]
    for claim in not_holding:
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


def _everything(report: Report) -> None:
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


def _scores(report: Report) -> Grid:
    """The verdicts and near numbers of each table and figure, without columns that are empty."""
    scored = [item for item in report.items if item.claims or item.score.numbers]
    rows = [[Text(item.title), *_score(item.score)] for item in scored]
    rows.append([Text("all"), *_score(report.score)])
    heads = ["", *Verdict, *COLUMNS]
    kept = [i for i in range(len(heads)) if any(row[i].plain for row in rows)]
    table = new_table("", right=[heads[i] for i in kept[1:]])
    for row in rows:
        table.add_row(*(row[i] for i in kept), end_section=row is rows[-2])
    return table


def summary(summary: Summary, verbose: bool = False) -> None:
    """The score of each paper, claims that fail; before these, if `verbose`, of every table."""
    table = new_table("", "table or figure", right=[*Verdict, *COLUMNS], keys=2)
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


def latex(found: Report | Summary) -> None:
    """The tables of a paper, or of all papers one after the other, for LaTeX."""
    reports = found.reports if isinstance(found, Summary) else [found]
    print(*map(latex_of, reports), sep="\n")


def agreement(agreement: Agreement) -> None:
    """A table per metric: the numbers of each backend."""
    for (first, *others), rows in agreement.tables():
        table = new_table(first, right=others)
        for row in rows:
            table.add_row(*row)
        STDOUT.print(table)


def _numbers(report: Report, item: Item) -> Grid:
    theories = report.theories(item)
    right = ["published", "measured", "difference", *map(report.label, theories)]
    grid = new_table("", right=right)
    for table in item.tables:
        grid.add_row(Text(report.label(table.metric), "bold"))
        for row in table.rows:
            grid.add_row(
                report.label(row.case),
                number(row.published),
                measured(row),
                percent(row.difference),
                *(number(row.theory.get(name)) for name in theories),
            )
        grid.add_section()
    return grid


def _claim(claim: Claim) -> None:
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


def _score(score: Score) -> list[Text]:
    styles = [*(STYLES[verdict] for verdict in Verdict), *[""] * len(COLUMNS)]
    return [Text(cell, style=style) for cell, style in zip(cells(score), styles, strict=True)]
