"""All papers at once: every table and figure with what became of its claims."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import STYLES, Item, Report


@dataclass(frozen=True)
class Summary:
    """The reports of several papers."""

    reports: Sequence[Report]
    command: str
    """With its options."""

    @property
    def failed(self) -> list[Claim]:
        """Claims that fail without a reason, of all papers."""
        return [claim for report in self.reports for claim in report.failed]

    def lines(self) -> Iterator[tuple[Report, Item, dict[Verdict, int]]]:
        """Every table and figure that has a claim, and how many claims got each verdict."""
        for report in self.reports:
            for item in report.items:
                if item.claims:
                    yield report, item, item.counts()

    def totals(self) -> dict[Verdict, int]:
        """How many claims of all papers got each verdict."""
        counts = [report.counts() for report in self.reports]
        return {verdict: sum(count[verdict] for count in counts) for verdict in Verdict}

    def markdown(self) -> list[str]:
        """The summary as lines of Markdown."""
        verdicts = list(Verdict)
        rows = [
            ["", *verdicts],
            ["---", *["--:"] * len(verdicts)],
            *(
                [f"{report.name}: {item.title}", *(str(counts[v] or "") for v in verdicts)]
                for report, item, counts in self.lines()
            ),
            ["**all**", *(f"**{n}**" for n in self.totals().values())],
        ]
        table = ["| " + " | ".join(row) + " |" for row in rows]
        return ["Claims per table and figure:", "", *table]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {
            "command": self.command,
            "counts": self.totals(),
            "failed": len(self.failed),
            "items": [
                {"paper": report.paper, "item": item.id, "title": item.title, "counts": counts}
                for report, item, counts in self.lines()
            ],
        }

    def __rich_console__(self, console: object, options: object) -> Iterator[RenderableType]:
        grid = Grid(box=box.SIMPLE, pad_edge=False)
        for name in ("", "table or figure"):
            grid.add_column(name)
        for verdict in Verdict:
            grid.add_column(verdict, justify="right")
        before = None
        for report, item, counts in self.lines():
            if report is not before:
                grid.add_section()
            name, before = report.name if report is not before else "", report
            grid.add_row(name, item.title, *_cells(counts))
        grid.add_section()
        grid.add_row("all", "", *_cells(self.totals()))
        yield grid
        for claim in self.failed:
            yield Text(f"{claim.id} fails: {claim.text} {claim.because}", style="bold red")


def _cells(counts: dict[Verdict, int]) -> list[Text]:
    return [Text(str(n) if n else "", style=STYLES[verdict]) for verdict, n in counts.items()]
