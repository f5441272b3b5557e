"""All papers at once: every table and figure with what became of its claims."""

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
        rows = [
            *(
                [f"{report.name}: {item.title}", *(str(counts[v] or "") for v in Verdict)]
                for report, item, counts in self.lines()
            ),
            ["**all**", *(f"**{n}**" for n in self.totals().values())],
        ]
        return ["Claims per table and figure:", "", *markdown_table(["", *Verdict], rows)]

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
