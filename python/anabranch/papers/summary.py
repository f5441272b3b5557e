"""The summary of all papers: the verdicts of each table and figure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.formats import markdown_table
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import Item, Report


@dataclass(frozen=True)
class Summary:
    """The reports of several papers."""

    reports: Sequence[Report]
    command: str
    """The command that made them, with its options."""

    @property
    def failed(self) -> list[Claim]:
        """Claims of all papers that fail without a known reason."""
        return [claim for report in self.reports for claim in report.failed]

    def lines(self) -> Iterator[tuple[Report, Item, dict[Verdict, int]]]:
        """Every table and figure with claims, and the number of claims with each verdict."""
        for report in self.reports:
            for item in report.items:
                if item.claims:
                    yield report, item, item.counts()

    def totals(self) -> dict[Verdict, int]:
        """The number of claims of all papers with each verdict."""
        counts = [report.counts() for report in self.reports]
        return {verdict: sum(count[verdict] for count in counts) for verdict in Verdict}

    def markdown(self) -> list[str]:
        """The summary as lines of Markdown."""
        rows = [
            *(
                [f"{report.name}: {item.title}", *(str(counts[v] or "") for v in Verdict)]
                for report, item, counts in self.lines()
            ),
            ["**all**", *(f"**{n}**" for n in self.totals().values())],
        ]
        return ["Claims per table and figure:", "", *markdown_table(["", *Verdict], rows)]

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data for JSON."""
        return {
            "command": self.command,
            "counts": self.totals(),
            "failed": len(self.failed),
            "items": [
                {"paper": report.paper, "item": item.id, "title": item.title, "counts": counts}
                for report, item, counts in self.lines()
            ],
        }
