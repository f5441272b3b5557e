"""The summary of all papers: the verdicts and the numbers of each table and figure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.formats import markdown_table
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import Item, Report, Score

NEAR = ["own, hold", "within 10 %", "within 30 %", "of numbers"]
"""The columns beside the verdicts on the papers' claims."""


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

    @property
    def undecided(self) -> list[Claim]:
        """Claims of all papers that the seeds do not decide."""
        return [claim for report in self.reports for claim in report.undecided]

    def lines(self) -> Iterator[tuple[Report, Item]]:
        """Every table and figure with claims or printed numbers that were measured."""
        for report in self.reports:
            for item in report.items:
                if item.claims or item.score.numbers:
                    yield report, item

    @property
    def score(self) -> Score:
        """The verdicts on all claims, and how near all numbers are."""
        return Score.of([item for report in self.reports for item in report.items])

    def choices(self) -> Iterator[tuple[Report, str, list[Claim]]]:
        """Every choice made after results were seen, and the claims that hold only under it."""
        for report in self.reports:
            for name in report.choices:
                yield report, name, report.resting_on(name)

    def by_paper(self) -> list[str]:
        """A row per paper and one for all, as lines of Markdown."""
        return self._table(self._papers())

    def markdown(self) -> list[str]:
        """The whole summary as lines of Markdown: by table and figure, and every choice."""
        items = [
            [f"{report.name}: {item.title}", *cells(item.score)] for report, item in self.lines()
        ]
        lines = [
            "Claims of the papers by verdict, our own claims, and printed numbers by distance;",
            "undecided: the 95 % interval over the seeds crosses the edge of the claim's band.",
            "",
            *self._table(items + self._papers()),
        ]
        chosen = []
        for report, name, claims in self.choices():
            holding = ", ".join(claim.id for claim in claims) or "none"
            choice = report.choices[name]
            chosen += [
                f"- {report.name}: {choice.text} Chosen {choice.when}.",
                f"  Claims that hold only so: {holding}. {choice.otherwise}",
            ]
        if chosen:
            lines += ["", "What rests on a choice made after results were seen:", "", *chosen]
        return lines

    def _papers(self) -> list[list[str]]:
        return [[f"**{report.name}**", *cells(report.score)] for report in self.reports]

    def _table(self, rows: list[list[str]]) -> list[str]:
        """These rows and the row of all papers."""
        every = ["**all**", *(f"**{cell}**" if cell else "" for cell in cells(self.score))]
        return markdown_table(["", *Verdict, *NEAR], [*rows, every])

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data for JSON."""
        return {
            "command": self.command,
            **asdict(self.score),
            "failed": len(self.failed),
            "undecided": len(self.undecided),
            "papers": [{"paper": report.paper, **asdict(report.score)} for report in self.reports],
            "items": [
                {
                    "paper": report.paper,
                    "item": item.id,
                    "title": item.title,
                    **asdict(item.score),
                }
                for report, item in self.lines()
            ],
            "choices": [
                {
                    "paper": report.paper,
                    "choice": name,
                    **asdict(report.choices[name]),
                    "claims": [claim.id for claim in claims],
                }
                for report, name, claims in self.choices()
            ],
        }


def cells(score: Score) -> list[str]:
    """A score as a row of a table: the verdicts, then the columns of `NEAR`."""
    verdicts = [str(n or "") for n in score.counts.values()]
    own = score.own_in_words + score.own_undecided_in_words
    return [*verdicts, own, *score.near_in_words]
