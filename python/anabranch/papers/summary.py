"""The summary of all papers: the verdicts and the numbers of each table and figure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.formats import csv_table
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import Item, Judged, Report, Score

COLUMNS = [*Verdict, "own, hold", "within 10 %", "within 30 %", "of numbers"]
"""The columns of a score: the verdicts on the papers' claims, then the others."""

RECORD = ("paper", "claim", "own", "verdict", "compared", "rests on")
"""The columns of a record."""


@dataclass(frozen=True)
class Summary(Judged):
    """The reports of several papers."""

    reports: Sequence[Report]
    command: str
    """The command that made them, with its options."""

    @property
    def items(self) -> list[Item]:  # type: ignore[override]
        """The tables and figures of all papers."""
        return [item for report in self.reports for item in report.items]

    def lines(self) -> Iterator[tuple[Report, Item]]:
        """Every table and figure with claims or printed numbers that were measured."""
        for report in self.reports:
            for item in report.items:
                if item.claims or item.score.numbers:
                    yield report, item

    def choices(self) -> list[tuple[Report, str, list[Claim]]]:
        """Every choice made after results were seen, and the claims that hold only under it."""
        return [one for report in self.reports for one in report.chosen()]

    def record(self) -> str:
        """A row per claim as CSV, with the numbers compared in one line."""
        claims = ((one.paper, claim) for one in self.reports for claim in one.claims)
        return csv_table(RECORD, (row(paper, claim) for paper, claim in claims))

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data for JSON."""
        return {
            "command": self.command,
            **self.counted(),
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


def row(paper: str, claim: Claim) -> list[str]:
    """A claim as a row of `RECORD`."""
    own = "own" if claim.own else ""
    compared = " ".join(claim.because.split())
    return [paper, claim.id, own, str(claim.verdict), compared, " ".join(claim.rests_on)]


def cells(score: Score) -> list[str]:
    """A score as a row of a table, with the columns of `COLUMNS`."""
    verdicts = [str(n or "") for n in score.counts.values()]
    own = score.own_in_words + score.own_undecided_in_words
    return [*verdicts, own, *score.near_in_words]
