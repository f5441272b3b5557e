"""A paper's report: published, measured and theoretical numbers, and the verdict on each claim.

`Summary` has those of all papers.
"""

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import Any

import pandas as pd

from anabranch.core_types import PlainNetwork
from anabranch.experiments.case import Case
from anabranch.experiments.curves import Drawing, sweep
from anabranch.experiments.drawings import Bars, Sweep
from anabranch.experiments.pages import render
from anabranch.formats import csv_table, finite, interval, latex_rows, number, percent
from anabranch.intervals import mean_with_interval, median_with_interval
from anabranch.papers import suite
from anabranch.papers.checks import Number
from anabranch.papers.judge import Claim, Spread, Verdict, judge
from anabranch.scenario import load
from anabranch.statements.statement import Statement

NEAR, OFF = 0.1, 0.3
"""Relative differences of a measured number from the printed one, to which both are compared."""

COLUMNS = [*Verdict, "own, hold", "within 10 %", "within 30 %", "of numbers"]
"""The columns of a score: the verdicts on the papers' claims, then the others."""

LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib")

RECORD = ("paper", "claim", "own", "verdict", "compared", "rests on")
"""The columns of a record."""


@dataclass(frozen=True)
class Row:
    """One case of a metric."""

    case: Case
    published: float | None
    measured: float | None
    """Mean over seeds, or their median."""
    interval: float | None
    """Half the 95 % interval of `measured`."""
    theory: Mapping[str, float]
    """Theory values by kind, such as `fixed_point` or `opt_probing`."""
    inferred: bool = False
    """Whether the published number is that of another case, by the paper's words."""

    @property
    def difference(self) -> float | None:
        """(measured - published) / published; None where either is missing or published is 0."""
        if self.published is None or self.measured is None or self.published == 0:
            return None
        return (self.measured - self.published) / self.published

    @property
    def distance(self) -> str:
        """The difference as a class: near, within 10 %; off, within 30 %; far; nothing for None."""
        if self.difference is None:
            return ""
        away = abs(self.difference)
        return "near" if away <= NEAR else "off" if away <= OFF else "far"


@dataclass(frozen=True)
class Table:
    """One metric of an item, a row per case."""

    metric: str
    rows: Sequence[Row]
    repeats: bool = False
    """Whether its printed numbers are those of another table, or computed from them."""


@dataclass(frozen=True)
class Score:
    """The verdicts on claims, and how near measured numbers are to the printed ones."""

    counts: Mapping[Verdict, int]
    """The number of the paper's claims with each verdict, of all verdicts in order."""
    own: Mapping[Verdict, int]
    """The same for our own claims."""
    numbers: int
    """Printed numbers that were measured; one that is printed twice counts once."""
    within_10: int
    """How many of them differ by at most 10 %."""
    within_30: int

    @classmethod
    def of(cls, items: Sequence["Item"]) -> "Score":
        """The score of some tables and figures."""
        tables = [table for item in items for table in item.tables if not table.repeats]
        rows = [row for table in tables for row in table.rows if not row.inferred]
        away = [row.difference for row in rows]
        far = [abs(difference) for difference in away if difference is not None]

        def counts(own: bool) -> dict[Verdict, int]:
            found = [c.verdict for item in items for c in item.claims if c.own == own]
            return {verdict: found.count(verdict) for verdict in Verdict}

        near, off = (sum(one <= most for one in far) for most in (NEAR, OFF))
        return cls(counts(False), counts(True), len(far), near, off)

    def own_in_words(self, hold: str = "") -> str:
        """How many of our own claims hold, and are undecided: "3 of 4, 1 undecided", or nothing.

        `hold` comes after the first numbers.
        """
        total, undecided = sum(self.own.values()), self.own[Verdict.UNDECIDED]
        also = f", {undecided} undecided" if undecided else ""
        return f"{self.own[Verdict.HOLDS]} of {total}{hold}{also}" if total else ""

    @property
    def cells(self) -> list[str]:
        """A row of a table, with the columns of `COLUMNS`."""
        verdicts = [str(n or "") for n in self.counts.values()]
        near = (self.within_10, self.within_30, self.numbers)
        return [*verdicts, self.own_in_words(), *(str(n) if self.numbers else "" for n in near)]


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper."""

    id: str
    title: str
    place: str
    tables: Sequence[Table]
    claims: Sequence[Claim]
    bars: Sequence[str] = ()
    """The metrics drawn as bars."""
    drawings: Sequence[Drawing] = ()
    """The other figures."""
    own: bool = False
    """Whether it is a study of ours, not a table or figure of the paper."""

    @property
    def score(self) -> Score:
        """The verdicts on its claims, and how near its numbers are."""
        return Score.of([self])

    @property
    def rows(self) -> int:
        """The number of numbers in its tables."""
        return sum(len(table.rows) for table in self.tables)


class Judged:
    """The claims of several tables and figures."""

    items: Sequence[Item]

    @property
    def claims(self) -> list[Claim]:
        """All claims, in the order of the items."""
        return [claim for item in self.items for claim in item.claims]

    def of(self, verdict: str) -> list[Claim]:
        """The claims with a verdict."""
        return [claim for claim in self.claims if claim.verdict == verdict]

    @property
    def failed(self) -> list[Claim]:
        """Claims that fail without a known reason; with any, `anabranch reproduce` exits with 1."""
        return self.of(Verdict.FAILS)

    @property
    def score(self) -> Score:
        """The verdicts on all claims, and how near all numbers are."""
        return Score.of(self.items)

    def counted(self) -> dict[str, Any]:
        """The score as plain data, with the numbers of claims that fail and are undecided."""
        open_claims = self.of(Verdict.UNDECIDED)
        return {**asdict(self.score), "failed": len(self.failed), "undecided": len(open_claims)}


@dataclass(frozen=True, kw_only=True)
class Report(suite.Described, Judged):
    """The reproduction of one paper."""

    paper: str
    """The name of its folder."""
    items: Sequence[Item]
    algorithms: Mapping[str, str]
    """The algorithm that the last part of a case stands for."""
    statements: Sequence[Statement]
    """Statements of the paper, tested by calculation."""
    scenarios: Mapping[str, str]
    """The text of the scenario files, by name."""
    networks: Mapping[str, PlainNetwork]
    """Links and flows of the networks, by the same names."""
    seeds: Sequence[int]
    command: str
    versions: Mapping[str, str]
    quick: bool = False
    """Whether the runs are few and short."""

    @property
    def in_order(self) -> list[Item]:
        """The paper's own tables and figures, then our studies."""
        return sorted(self.items, key=lambda item: item.own)

    @property
    def scored(self) -> list[Item]:
        """The tables and figures with claims or printed numbers that were measured."""
        return [item for item in self.items if item.claims or item.score.numbers]

    def resting_on(self, choice: str) -> list[Claim]:
        """The claims that hold only under a choice."""
        return [claim for claim in self.of(Verdict.HOLDS) if choice in claim.rests_on]

    def chosen(self) -> list[tuple["Report", str, list[Claim]]]:
        """Every choice made after results were seen, and the claims that hold only under it."""
        return [(self, name, self.resting_on(name)) for name in self.choices]

    def theories(self, item: Item) -> list[str]:
        """The kinds of theory value in an item's tables."""
        rows = [row for table in item.tables for row in table.rows]
        return [name for name in self.theory if any(name in row.theory for row in rows)]

    def label(self, name: str) -> str:
        """The text for a metric, case or part of a case: `N1 = 10, LIA` for `n1_10.lia`."""
        return Case(name).labelled(self.labels)

    def in_cells(self, item: Item) -> tuple[list[str], list[list[str]]]:
        """The header and the rows of an item's numbers, as text.

        They are those of the page: published, measured with half the 95 % interval, difference,
        theory.
        """
        theories = self.theories(item)
        heads = ["metric", "case", "published", "measured", "difference", *theories]
        rows = []
        for table, row in ((of, row) for of in item.tables for row in of.rows):
            names = [self.label(table.metric), self.label(row.case)]
            numbers = [number(row.published), measured(row), percent(row.difference)]
            rows.append([*names, *numbers, *(number(row.theory.get(name)) for name in theories)])
        return [*heads[:5], *map(self.label, theories)], rows

    def latex(self) -> str:
        """A table of booktabs for each table and figure, below a comment with its title."""
        made = []
        for item in (item for item in self.in_order if item.tables):
            table = latex_rows(*self.in_cells(item))
            made.append(f"% {item.title} ({item.place})\n{table}")
        return "\n".join(made)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; NaN and infinity become None."""
        found = finite(asdict(self))
        return {**found, "errata": list(found["errata"].values()), **self.counted()}


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

    def choices(self) -> list[tuple[Report, str, list[Claim]]]:
        """Every choice made after results were seen, and the claims that hold only under it."""
        return [one for report in self.reports for one in report.chosen()]

    def page(self) -> str:
        """The page with links to the pages of all papers."""
        return render("index.html.j2", summary=self, columns=COLUMNS, colours=[])

    def latex(self) -> str:
        """The tables of all papers, one after the other."""
        return "\n".join(report.latex() for report in self.reports)

    def record(self) -> str:
        """A row per claim as CSV, with the numbers compared in one line."""
        rows = []
        for report, one in ((of, one) for of in self.reports for one in of.claims):
            compared, rests_on = " ".join(one.because.split()), " ".join(one.rests_on)
            own = "own" if one.own else ""
            rows.append([report.paper, one.id, own, str(one.verdict), compared, rests_on])
        return csv_table(RECORD, rows)

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data for JSON."""
        items = [(report.paper, item) for report in self.reports for item in report.scored]
        return {
            "command": self.command,
            **self.counted(),
            "papers": [{"paper": report.paper, **asdict(report.score)} for report in self.reports],
            "items": [
                {"paper": paper, "item": item.id, "title": item.title, **asdict(item.score)}
                for paper, item in items
            ],
            "choices": [
                {"paper": report.paper, "choice": name, **asdict(report.choices[name])}
                | {"claims": [claim.id for claim in claims]}
                for report, name, claims in self.choices()
            ],
        }


def report_of(
    paper: suite.Paper,
    frame: pd.DataFrame,
    drawings: Mapping[tuple[str, int], Drawing],
    quick: bool,
    statements: Sequence[Statement] = (),
) -> Report:
    """The report of the numbers measured and the statements tested.

    `frame` has the columns `item`, `metric`, `case`, `seed` and `value`. `drawings` are the figures
    drawn from whole runs, by item and index among the item's figures.

    Raises `ScenarioError` for a statement that a claim names and that does not exist.
    """
    files = sorted(paper.folder.glob("scenario*.toml"))
    versions = {"anabranch": version("anabranch"), "Python": platform.python_version()}
    return Report(
        **{one.name: getattr(paper, one.name) for one in fields(suite.Described)},
        paper=paper.folder.name,
        items=[_item(paper, item, frame, drawings, statements) for item in paper.items.values()],
        algorithms={k: v for group in paper.groups.values() for k, v in group.named.items()},
        statements=statements,
        scenarios={file.name: file.read_text(encoding="utf-8") for file in files},
        networks={file.name: load(file).network() for file in files},
        seeds=list(paper.quick.seeds if quick else paper.seeds),
        command=f"anabranch reproduce {paper.folder.name}" + (" --quick" if quick else ""),
        quick=quick,
        versions=versions | {name: version(name) for name in LIBRARIES},
    )


def _item(
    paper: suite.Paper,
    item: suite.Item,
    frame: pd.DataFrame,
    drawings: Mapping[tuple[str, int], Drawing],
    statements: Sequence[Statement],
) -> Item:
    """An item's tables, judged claims and figures."""
    own = frame[frame["item"] == item.id]
    averaged = median_with_interval if paper.average == "median" else mean_with_interval
    means, spread = averaged(own, ["metric", "case"], ["value"]), Spread.of(own, paper.average)
    tables = [
        _table(name, item.metric(name), means[means["metric"] == name])
        for name in dict.fromkeys([*means["metric"], *item.printed])
    ]
    numbers: dict[str, dict[str, Number]] = {
        table.metric: {
            **item.metric(table.metric).named(),
            **{row.case: row.measured for row in table.rows if row.measured is not None},
        }
        for table in tables
    }
    claims = [judge(one, numbers, statements, spread) for one in paper.claims_of(item)]
    bars: list[str] = []
    made = []
    for index, figure in enumerate(item.drawn):
        if isinstance(figure, Bars):
            every = [table.metric for table in tables]
            bars += every if figure.metrics is None else figure.metrics
        elif isinstance(figure, Sweep):
            of_metric, printed = means[means["metric"] == figure.metric], item.metric(figure.metric)
            made.append(sweep(figure, of_metric, printed.published, printed.theory))
        elif (item.id, index) in drawings:
            made.append(drawings[item.id, index])
    return Item(item.id, item.title, item.place, tables, claims, bars, made, item.own)


def _table(metric: str, printed: suite.Metric, means: pd.DataFrame) -> Table:
    found = means.set_index("case")[["value", "value_ci95"]].T.to_dict("list")
    rows = []
    for case in map(Case, dict.fromkeys([*found, *printed.published])):
        mean, half = found.get(case, (None, None))
        half = None if half is None or pd.isna(half) else half
        published, theory = printed.published.get(case), printed.theory_of(case)
        rows.append(Row(case, published, mean, half, theory, case in printed.inferred))
    return Table(metric, rows, printed.repeats)


def measured(row: Row) -> str:
    """The mean with its interval: three significant digits, or more if the interval needs them."""
    if row.measured is None:
        return ""
    decimals = max(0, 2 - _magnitude(row.measured))
    if row.interval is not None:
        decimals = max(decimals, min(decimals + 2, -_magnitude(row.interval)))
    return interval(row.measured, row.interval, f".{decimals}f")


def _magnitude(value: float) -> int:
    """The exponent of the first significant digit."""
    return math.floor(math.log10(abs(value))) if value else 0
